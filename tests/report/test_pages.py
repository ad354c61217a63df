"""Pages of searches and of figures in a browser: they draw their numbers without an error, for everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.cli.test_place import SMALL
from tests.report.chromium import check_contrast, check_keyboard, check_quiet, needs_browser, opened, pointed_at, until
from topoflow.case.base import Result
from topoflow.cli import main
from topoflow.fabric.base import Fabric
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.colours import FABRICS
from topoflow.report.draw.figures import draw_bars, draw_cdf, draw_heat_maps, draw_lines, draw_steps
from topoflow.report.page.search import write_search
from topoflow.report.page.searches import write_searches
from topoflow.report.page.series import panels
from topoflow.report.search_report import SearchReport
from topoflow.search.history import SearchHistory
from topoflow.strategy.placement import Placement
from topoflow.study.figures.base import FigurePicture, Heading, Row
from topoflow.study.figures.write import write
from topoflow.units import human

LINES = {
    "Ours": ([1.0, 10.0, 100.0], [3e-3, 2e-3, 1e-3]),
    "Fat-tree": ([1.0, 10.0, 100.0], [5e-3, float("nan"), 2e-3]),
}
FABRIC_OF_SERIES = {"Ours": "topoopt", "Fat-tree": "fat_tree"}
ROWS = [{"series": name, "x": x, "time": y} for name, (xs, ys) in LINES.items() for x, y in zip(xs, ys, strict=True)]


@dataclass(frozen=True)
class Drawn:
    """A figure with a line chart, bars, steps, and a heat map, which stays a picture."""

    title: str = "Time of <an iteration>"
    source: str = "a paper"
    headings: ClassVar = {"time": Heading("time", "s")}

    def summary(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["time"] == row["time"]]

    def draw(self, rows: list[Row]) -> list[FigurePicture]:
        bars = {"Ours": {"a": 1.0, "b": 2.0}, "Fat-tree": {"a": 3.0, "b": float("nan")}}
        axes = Axis("bandwidth [Gb/s]", log=True), Axis("time", "s", log=True)
        return [
            FigurePicture.of(
                "lines.png", "Lines.", draw_lines("Lines", {"one": LINES, "two": LINES}, *axes, FABRIC_OF_SERIES)
            ),
            FigurePicture.of(
                "bars.png", "Bars.", draw_bars("Bars", {"": bars}, Axis("share [%]"), "group", FABRIC_OF_SERIES)
            ),
            FigurePicture.of("steps.png", "Steps.", draw_steps("Steps", {"": LINES}, *axes, FABRIC_OF_SERIES)),
            FigurePicture.of("map.png", "A map.", draw_heat_maps("Map", {"": np.eye(3)})),
        ]


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("figure")
    rows = [{key: None if value != value else value for key, value in row.items()} for row in ROWS]
    write(Drawn(), rows, "topoflow experiment toy", out)
    return out / "report.html"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of ``topoflow place``: sizes, groups, denials, cores in use."""
    out = tmp_path_factory.mktemp("places")
    assert main(["place", *SMALL, f"out={out}"]) == 0
    return out / "report.html"


@pytest.fixture(scope="module")
def search(
    make_outcome: Callable[..., Result],
    make_history: Callable[..., SearchHistory],
    fabrics: dict[str, Callable[[float], Fabric]],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, SearchReport]:
    out = tmp_path_factory.mktemp("search")
    strategy = Placement("hybrid", 4, {"layer": (0, 1, 2, 3)})
    before, after = (make_outcome(fabrics["ring"](speed), strategy=strategy) for speed in (1.0, 4.0))
    report = SearchReport("topoflow search", before.case.job, before, after, 1.0, (), make_history())
    write_search(report, out, lambda done, total: None)
    return out / "report.html", report


@pytest.fixture(scope="module")
def searches(
    make_outcome: Callable[..., Result],
    make_history: Callable[..., SearchHistory],
    fabrics: dict[str, Callable[[float], Fabric]],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, SearchReport]]:
    """Three searches on one page: slow and cheap, quick and dear, and one that is neither."""
    out = tmp_path_factory.mktemp("searches")
    strategy = Placement("hybrid", 4, {"layer": (0, 1, 2, 3)})
    reports = {}
    for name, speed, cost in (("<slow>", 1.0, 100.0), ("quick", 4.0, 400.0), ("dear", 2.0, 800.0)):
        result = make_outcome(fabrics["ring"](speed), cost=cost, strategy=strategy)
        reports[name] = SearchReport("topoflow search", result.case.job, result, result, 1.0, (), make_history())
    folders = {name: f"search {number}" for number, name in enumerate(reports)}
    for name, folder in folders.items():
        write_search(reports[name], out / folder, lambda done, total: None)
    write_searches(reports, folders, {"<slow>", "quick"}, out, lambda done, total: None)
    return out / "report.html", reports


@needs_browser
@pytest.mark.parametrize("which", ["figure", "places", "search", "searches"])
def test_a_page_is_quiet_can_be_read_and_used_without_a_mouse(
    browser: Any, which: str, request: pytest.FixtureRequest
) -> None:
    fixture = request.getfixturevalue(which)
    file = fixture if isinstance(fixture, Path) else fixture[0]
    page = opened(browser, file)
    check_quiet(page)
    charts = set(page.execute_script("return topoflow.charts.map((each) => each.id)"))
    expected = {
        "figure": {"chart0-0", "chart0-1", "chart1-0", "chart2-0"},
        "places": {f"chart{picture}-{panel}" for picture, panels in enumerate((1, 3, 4, 2)) for panel in range(panels)},
        "search": {"history", "acceptance", "network", "timeline"},
        "searches": {"front"},
    }
    assert charts == expected[which]
    assert not page.execute_script(
        "return topoflow.charts.some(({ figure }) => figure.center.some((part) => part.type === 'Legend'))"
    ), "a legend may not be over lines"
    assert file.stat().st_size < 3e6
    check_contrast(page)
    check_keyboard(page)


@needs_browser
def test_a_point_of_a_figure_says_its_numbers(browser: Any, figure: Path) -> None:
    page = opened(browser, figure)
    for name, (xs, ys) in LINES.items():
        for x, y in zip(xs, ys, strict=True):
            if y == y:
                tooltip = pointed_at(page, "chart0-1", x, y)
                assert f"series: {name} bandwidth [Gb/s]: {x:g} time: {human(y, 's')}" in tooltip
    assert "series: Fat-tree" in pointed_at(page, "chart1-0", 0.2, 1.5)


@needs_browser
def test_a_search_says_what_it_had_found_when(browser: Any, search: tuple[Path, SearchReport]) -> None:
    file, report = search
    page = opened(browser, file)
    history = report.history
    for step in (5, 70):
        tooltip = pointed_at(page, "history", float(history.proposals[step]), 1e3 * float(history.best[step]))
        assert f"best of the round: {human(float(history.best[step]), 's')}" in tooltip
        assert f"round: {int(history.round[step]) + 1} accepted: 25.0 %" in tooltip
    assert "accepted: 25.0 %" in pointed_at(page, "acceptance", float(history.proposals[5]), 25.0)


@needs_browser
def test_a_search_says_at_which_temperatures_its_rounds_ended(browser: Any, search: tuple[Path, SearchReport]) -> None:
    page = opened(browser, search[0])
    rows = page.execute_script(
        "return [...document.querySelectorAll('tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert ["1", "160", "180 ms", "10 us", "2 ms", "new"] in rows
    assert ["2", "320", "180 ms", "10 us", "2 ms", "kept"] in rows


@needs_browser
def test_searches_are_points_that_open_their_pages(
    browser: Any, searches: tuple[Path, dict[str, SearchReport]]
) -> None:
    file, reports = searches
    page = opened(browser, file)
    line = page.execute_script(
        "return topoflow.charts[0].figure.renderers.find((each) => each.glyph.type === 'Line').data_source.data.x"
    )
    assert line == [reports[name].after.cost for name in ("<slow>", "quick")]  # "dear" is slower than "quick"
    links = page.execute_script("return [...document.querySelectorAll('li a')].map((link) => link.textContent)")
    assert links == ["quick", "dear", "<slow>"]
    for name, report in reports.items():
        assert report.after.cost is not None
        place = report.after.cost, 1e3 * report.after.iteration_time
        tooltip = pointed_at(page, "front", *place)
        assert f"search: {name} fabric: ring step: {human(report.after.iteration_time, 's')}" in tooltip
    pointed_at(page, "front", *place, click=True)
    until(page, "return location.pathname.endsWith(arguments[0])", "/search%202/report.html")


def test_panels_have_the_numbers_and_colours_of_a_figure() -> None:
    figure_panels = panels(
        draw_lines("", {"": LINES}, Axis("x", log=True), Axis("time", "s", log=True), FABRIC_OF_SERIES)
    )
    assert figure_panels is not None
    lines = {line["name"]: line for line in figure_panels[0]["lines"]}
    assert {name: line["colour"].upper() for name, line in lines.items()} == {
        n: FABRICS[f] for n, f in FABRIC_OF_SERIES.items()
    }
    assert lines["Fat-tree"]["y"] == [5e-3, None, 2e-3]
    assert lines["Ours"]["up"] == ["3 ms", "2 ms", "1 ms"]
    steps = panels(draw_cdf("", {"": {"a": [1.0, 2.0]}}, Axis("x"), "links"))
    assert steps is not None
    assert steps[0]["lines"][0]["step"]


def test_what_is_neither_lines_nor_bars_stays_a_picture() -> None:
    assert panels(draw_heat_maps("", {"": np.eye(3)})) is None
