"""What the report of a search leaves on disk and on the terminal: real states of a small job, before and after."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from topoflow.case.base import Result
from topoflow.fabric.base import Fabric
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.topoopt import TopoOpt
from topoflow.report.draw.pictures import Picture
from topoflow.report.draw.search_pictures import PICTURES, draw_traffic
from topoflow.report.page.search import search_page, write_search
from topoflow.report.page.searches import points, write_searches
from topoflow.report.search_report import SearchReport
from topoflow.report.search_terminal import show
from topoflow.search.history import SearchHistory
from topoflow.strategy.base import Strategy
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer

SERVERS = 8
EVERYONE = tuple(range(SERVERS))
SETTINGS = {"bandwidth": 1e9, "degree": 3, "latency": 1e-6}


def job(table: float, dense: float) -> Traffic:
    """Server 0 sends what it holds to all others; all reduce the rest."""
    sends = [Transfer(table, 0, server, after=(0,)) for server in range(1, SERVERS)]
    return Traffic.from_tasks(
        "job", SERVERS, (Compute(0.01, 0), *sends, Collective("all_reduce", dense, EVERYONE, after=(0,)))
    )


def strategy(**placement: tuple[int, ...]) -> Strategy:
    return Placement("hybrid", SERVERS, placement)


def topoopt(traffic: Traffic) -> Fabric:
    return TopoOpt(**SETTINGS, paths=4).build(SERVERS, traffic.demand())


@pytest.fixture(scope="module")
def search_report(make_history: Callable[..., SearchHistory], make_outcome: Callable[..., Result]) -> SearchReport:
    before, after = job(1e6, 4e6), job(3e5, 4e6)
    fabric = replace(topoopt(after), bill=())  # priced as a whole
    switch = tuple(fabric.target[fabric.source == server][0].item() for server in range(SERVERS))
    start = make_outcome(topoopt(before), before, strategy=strategy(table=(0,), top=EVERYONE))
    return SearchReport(
        command="topoflow search workload='dlrm' <servers=8>",
        requested=start.case.job,
        before=start,
        after=make_outcome(fabric, after, cost=12345.0, strategy=strategy(table=(0, 4), top=EVERYONE)),
        bound=0.01,
        circuits=(switch, (None,) * SERVERS),
        history=make_history(),
    )


@pytest.fixture(scope="module")
def switched(search_report: SearchReport, make_outcome: Callable[..., Result]) -> SearchReport:
    """The same job behind a switch, whose circuits nobody chooses, of a search that proposed nothing."""
    traffic = job(3e5, 4e6)
    fabric = IdealSwitch(**SETTINGS).build(SERVERS, traffic.demand())
    only = make_outcome(fabric, traffic, strategy=search_report.after.strategy)
    return replace(
        search_report, requested=only.case.job, before=only, after=only, circuits=(), history=SearchHistory()
    )


@pytest.fixture(scope="module")
def folder(search_report: SearchReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("search") / "out"
    done: list[tuple[int, int]] = []
    write_search(search_report, out, lambda *at: done.append(at))
    assert done == [(number + 1, len(PICTURES)) for number in range(len(PICTURES))]
    return out


def test_the_page_loads_nothing_and_shows_every_picture(folder: Path, check_page: Callable[[Path, int], None]) -> None:
    check_page(folder / "report.html", sum(not picture.interactive for picture in PICTURES))


def test_every_part_of_the_template_is_filled_in(folder: Path, read_page: Callable[[Path], Any]) -> None:
    assert "$" not in re.sub(r"\$[\d,]+", "", read_page(folder / "report.html").words)


def test_the_page_says_what_was_typed_and_what_every_switch_joins(
    folder: Path, search_report: SearchReport, read_page: Callable[[Path], Any]
) -> None:
    words = read_page(folder / "report.html").words
    assert search_report.command in words
    assert search_report.answer in words
    assert f"switch 0: 0 to {search_report.circuits[0][0]}, 1 to {search_report.circuits[0][1]}" in words


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.file)
def test_a_picture_is_not_blank_and_not_cut_off(
    folder: Path, picture: Picture[SearchReport], check_picture: Callable[[Path], None]
) -> None:
    check_picture(folder / picture.file)


def test_traffic_before_and_after_has_one_colour_scale(search_report: SearchReport) -> None:
    figure = draw_traffic(search_report)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 2
    assert images[0].norm is images[1].norm
    values = np.concatenate([search_report.before.flow_matrix.ravel(), search_report.after.flow_matrix.ravel()])
    assert images[0].get_clim() == (values[values > 0].min(), values.max())


def test_other_files_of_the_folder_stay(search_report: SearchReport, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    write_search(search_report, tmp_path, lambda done, total: None)
    assert (tmp_path / "plan.json").read_text() == "{}"


def test_a_network_without_circuits_has_a_report(
    switched: SearchReport, tmp_path: Path, read_page: Callable[[Path], Any]
) -> None:
    write_search(switched, tmp_path, lambda done, total: None)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "topology.png", "traffic.png", "link_load.png"}
    words = read_page(tmp_path / "report.html").words
    assert "This network has no optical switches." in words
    assert "it found nothing faster" in words


def test_several_searches_have_one_page_that_leads_to_theirs(
    search_report: SearchReport, switched: SearchReport, tmp_path: Path, read_page: Callable[[Path], Any]
) -> None:
    reports = {
        "fabric=topoopt": search_report,
        "fabric=ideal_switch": switched,
        "degree=4 <dear>": replace(search_report, bound=0.02),
    }
    folders = {name: f"folder {number}" for number, name in enumerate(reports)}
    write_searches(reports, folders, {"fabric=topoopt"}, tmp_path, lambda done, total: None)
    page = read_page(tmp_path / "report.html")
    assert [source for source in page.sources if not source.startswith("data:image/png;base64,")] == [
        f"folder%20{number}/report.html" for number in (1, 0, 2)
    ], "the quickest first"
    assert "Chosen: fabric=topoopt." in page.words
    assert "degree=4 <dear>" in page.words
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "front.png", "topology.png"}
    assert [point.name for point in points(reports)] == ["fabric=topoopt", "degree=4 <dear>"]


def test_names_on_the_page_are_escaped(search_report: SearchReport) -> None:
    case = search_report.after.case
    case = replace(case, settings=replace(case.settings, workload="<script>alert(1)</script>"))
    text = search_page(replace(search_report, after=replace(search_report.after, case=case)), {})
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


def test_the_answer_says_how_much_faster(search_report: SearchReport) -> None:
    times = search_report.before.iteration_time / search_report.after.iteration_time
    assert 1 < times < 2
    assert f"{100 * (1 - 1 / times):.2g} % less" in search_report.answer
    assert "$12,345" in search_report.answer
    late = replace(
        search_report.before,
        timeline=replace(search_report.before.timeline, makespan=3 * search_report.after.iteration_time),
    )
    assert "3 times as fast" in replace(search_report, before=late).answer


def test_a_circuit_must_be_a_link_of_the_network(search_report: SearchReport) -> None:
    with pytest.raises(ValueError, match=r"circuits\[0\]: must be links of topoopt, got \[3, 3\]"):
        replace(search_report, circuits=((None, None, None, 3, None, None, None, None),))


def test_rings_of_servers_that_do_not_all_reduce_are_not_shown_as_all_reduces(
    search_report: SearchReport, make_outcome: Callable[..., Result]
) -> None:
    """The circuits still are what they are: a network has a ring so that all of its servers are joined."""
    assert [group for group, _ in search_report.orders] == ["0-7"]
    traffic = Traffic.from_tasks("silent", SERVERS, (Compute(0.01, 0),))
    silent = replace(
        search_report, after=make_outcome(search_report.after.fabric, traffic, strategy=search_report.after.strategy)
    )
    assert silent.orders == []
    assert silent.sends == (search_report.sends[0], "no all-reduces")
    assert silent.wired_otherwise == "circuits wired as rings; nothing all-reduces"
    assert "Nothing: no servers all-reduce with each other." in search_page(silent, {})


def test_the_terminal_has_every_number_of_the_page(search_report: SearchReport, switched: SearchReport) -> None:
    for report in (search_report, switched):
        text = io.StringIO()
        show(report, Console(file=text, width=160))
        for cell in (cell for rows in (report.numbers, report.strategy, report.orders) for row in rows for cell in row):
            assert cell in text.getvalue()
        assert report.answer in text.getvalue()
