"""What a report leaves on disk: JSON and Parquet with their laws, pictures that show something, a page on its own."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from topoflow.case.base import Result
from topoflow.fabric.base import Fabric
from topoflow.report.base import Report
from topoflow.report.draw import pictures
from topoflow.report.draw.pictures import Picture, draw_all
from topoflow.report.files import whole_folder
from topoflow.report.page import comparison, data
from topoflow.report.page.comparison import report_page
from topoflow.report.parquet_tables import FAILURES, LINKS, TASKS
from topoflow.report.write import STEPS, write

# Those that need slots or ports have tests of their own.
PICTURES = tuple(picture for picture in pictures.PICTURES if not picture.file.startswith(("slots_", "ports")))


@pytest.fixture(scope="module")
def folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "new" / "out"
    done: list[int] = []
    write(report, out, done.append)
    assert done == list(range(1, STEPS + 1))
    return out


def test_pictures_are_the_same_for_any_number_of_processors(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    images = []
    for processors in (1, 2, 100):
        monkeypatch.setattr(os, "cpu_count", lambda count=processors: count)
        images.append(list(draw_all(PICTURES, report, lambda done: None).items()))
    assert images[0] == images[1] == images[2] != []


def test_result_has_one_row_per_world_in_si_units(folder: Path, report: Report) -> None:
    result = json.loads((folder / "result.json").read_text())
    required = {"fabric", "servers", "bandwidth", "degree", "fidelity", "iteration_time", "compute_time"}
    required |= {"network_time", "bandwidth_tax", "path_length_mean", "cost_usd", "power_w", "seed"}
    required |= {"workload", "strategy", "all_reduce", "latency", "overrides", "config"}
    assert [row["world"] for row in result["rows"]] == [outcome.settings.world for outcome in report.outcomes]
    assert all(required <= set(row) for row in result["rows"])
    assert [row["bandwidth"] for row in result["rows"]] == [1.0, 4.0, 1.0, 4.0]
    assert [row["cost_usd"] for row in result["rows"]] == [1000.0, 4000.0, None, None]
    assert result["rows"][1]["overrides"] == {"fabric": "ring", "bandwidth_gbps": "4.0"}


def test_parquet_of_links_says_what_every_link_carried(folder: Path, report: Report) -> None:
    table = parquet.read_table(folder / "links.parquet")
    assert table.schema.equals(LINKS)
    rows = table.to_pylist()
    assert len(rows) == sum(outcome.fabric.links for outcome in report.outcomes)
    first = report.outcomes[0]
    for row in rows[: first.fabric.links]:
        assert row["utilization"] == pytest.approx(row["bytes"] / (row["bandwidth"] * first.row.iteration_time))
    assert [row["src"] for row in rows[:4]] == ["a", "b", "c", "d"]


def test_parquet_of_tasks_says_when_every_task_ran(folder: Path, report: Report) -> None:
    table = parquet.read_table(folder / "tasks.parquet")
    assert table.schema.equals(TASKS)
    rows = [row for row in table.to_pylist() if row["world"] == report.outcomes[0].settings.world]
    assert [row["kind"] for row in rows] == ["compute", "compute", "transfer", "all_reduce", "compute"]
    assert [row["server"] for row in rows] == [0, 1, None, None, 0]
    assert (rows[2]["source"], rows[2]["target"], rows[3]["group"]) == (0, 2, [0, 1, 2, 3])
    assert max(row["finish"] for row in rows) == report.outcomes[0].row.iteration_time


def test_parquet_of_failures_says_what_each_makes_of_an_iteration(folder: Path, report: Report) -> None:
    table = parquet.read_table(folder / "failures.parquet")
    assert table.schema.equals(FAILURES)
    assert table.to_pylist() == json.loads((folder / "result.json").read_text())["failures"]
    first = report.outcomes[0]
    rows = [row for row in table.to_pylist() if row["world"] == first.settings.world]
    assert [row["slowdown"] for row in rows] == [pytest.approx(1), pytest.approx(1.1), pytest.approx(1.2), None]
    assert rows[1]["iteration_time"] == pytest.approx(1.1 * first.row.iteration_time)
    assert [(row["number"], row["name"], row["count"]) for row in rows[:2]] == [(0, "a to b", 1), (1, "b to c", 2)]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.file)
def test_a_picture_is_large_enough_and_not_blank(
    folder: Path, picture: Picture, check_picture: Callable[[Path], None]
) -> None:
    check_picture(folder / picture.file)


@pytest.fixture(scope="module")
def many(make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]) -> Report:
    """60 worlds: two fabrics at 30 bandwidths."""
    outcomes = [
        make_outcome(fabric(float(bandwidth)), cost=100.0 * bandwidth, bandwidth_gbps=str(bandwidth))
        for fabric in fabrics.values()
        for bandwidth in range(1, 31)
    ]
    return Report(tuple(outcomes), "")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.file)
def test_pictures_stay_readable_with_many_worlds(many: Report, picture: Picture) -> None:
    width, height = picture.draw(many).get_size_inches()
    assert width <= 15
    assert height <= 20


def test_the_page_loads_nothing(folder: Path, check_page: Callable[[Path, int], None]) -> None:
    check_page(
        folder / "report.html",
        sum(1 for drawing in PICTURES if not drawing.interactive and (folder / drawing.file).exists()),
    )


def test_the_page_escapes_names(report: Report) -> None:
    text = report_page(Report(report.outcomes, "topoflow compare '<script>alert(1)</script>'"), {})
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


def test_the_page_says_which_worlds_it_does_not_draw(
    report: Report, many: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small world is drawn after a large one that had no room."""
    assert "Drawn are" not in report_page(report, {})
    assert "Drawn are 6 of 60 worlds: this page has room for 6 worlds, 100,000 tasks, 600 kB." in report_page(many, {})
    sizes = [len(timeline["tasks"]) for timeline in data.timelines(report)]
    monkeypatch.setattr(data, "TIMELINE_BYTES", min(sizes))
    assert len(data.timelines(report)) == 1
    monkeypatch.setattr(data, "NETWORK_BYTES", 0)
    text = report_page(report, {})
    assert "Drawn are 1 of 4 worlds" in text
    assert "Drawn are 0 of 2 different networks: this page has room for 6 different networks, 0 kB." in text


def test_a_chart_without_room_for_its_data_is_its_picture(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that is large, too: the page stays below 3 MB."""
    small, large = b"topology", bytes(comparison.PICTURE_BYTES + 1)
    charted = report_page(report, {"topology.png": small})
    monkeypatch.setattr(data, "NETWORK_BYTES", 0)
    for image, is_shown in ((small, True), (large, False)):
        text = report_page(report, {"topology.png": image})
        assert (base64.b64encode(small).decode() in text) == is_shown
        assert ("This is topology.png in place of a chart." in text) == is_shown
        assert ("id=network-world" in text) != is_shown
        assert "Drawn are 0 of 2 different networks" in text
    assert base64.b64encode(small).decode() not in charted
    assert "id=network-world" in charted


def test_measures_are_numbers_where_their_key_is_swept(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    outcomes = tuple(make_outcome(fabrics["ring"](1.0), degree="1", what=what) for what in ("a", "b"))
    page_data = data.page_data(Report((*outcomes, make_outcome(fabrics["ring"](1.0), degree="2")), ""))
    assert [row["values"]["degree"] for row in page_data["rows"]] == [1, 1, 1], "as the fabrics have it"
    assert {row["swept"]["degree"] for row in page_data["rows"]} == {"1", "2"}
    assert {axis["key"] for axis in page_data["factors"] if "choices" in axis} == {"degree", "what"}


def test_names_end_no_script_of_the_page(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    """A trace's name may be any text."""
    name = "x</script><script>alert(1)</script><!--"
    outcomes = tuple(make_outcome(fabrics["ring"](1.0), **{"workload.trace": trace_name}) for trace_name in (name, "y"))
    text = report_page(Report(outcomes, ""), {})
    assert "<script>alert" not in text
    content = text.partition('<script id=data type="application/json">')[2].partition("</script>")[0]
    assert {row["swept"]["workload.trace"] for row in json.loads(content)["rows"]} == {name, "y"}


def test_an_error_leaves_no_folder(tmp_path: Path) -> None:
    def fail() -> None:
        with whole_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("x")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "result.json").write_text("old")
    with whole_folder(out) as folder:
        (folder / "result.json").write_text("new")
    assert {path.name: path.read_text() for path in out.iterdir()} == {"notes.txt": "mine", "result.json": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="out: must be a folder"), whole_folder(out):
            pass
