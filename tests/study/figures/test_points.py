"""Points on disk: what is stored is not computed again, and what was cut off does not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topoflow.digest import digest
from topoflow.study.figures.points import PointFile, identity, look


def test_what_was_stored_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "points.jsonl"
    points = PointFile(file)
    points.add("a", {"series": "TopoOpt"}, [{"x": 1, "t": 0.1}, {"x": 2, "t": None}])
    points.add("b", {"series": "Expander"}, [])
    again = PointFile(file)
    assert "a" in again
    assert "c" not in again
    assert list(again["a"]) == [{"x": 1, "t": 0.1}, {"x": 2, "t": None}]
    assert list(again["b"]) == []


def test_a_line_that_was_cut_off_does_not_count_and_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    PointFile(file).add("a", {}, [{"t": 1.5}])
    content = file.read_bytes()
    PointFile(file).add("b", {}, [{"t": 2.5}])
    both = file.read_bytes()
    for length in range(len(content) + 1, len(both)):
        file.write_bytes(both[:length])
        points = PointFile(file)
        assert "a" in points
        assert "b" not in points
        assert file.read_bytes() == content
    PointFile(file).add("b", {}, [{"t": 2.5}])
    assert file.read_bytes() == both


@pytest.mark.parametrize(
    "line", ["{}", "[]", "no JSON", '{"id": "a"}', '{"rows": []}', '{"id": "a", "rows": 3}', "\xff"]
)
def test_a_whole_line_that_is_no_point_is_an_error_with_its_place(tmp_path: Path, line: str) -> None:
    file = tmp_path / "points.jsonl"
    PointFile(file).add("a", {}, [])
    with file.open("a", encoding="latin-1") as out:  # where \xff is a byte that UTF-8 has not
        out.write(f"{line}\n")
    with pytest.raises(ValueError, match=r"points\.jsonl:2: must be a point as JSON, got"):
        PointFile(file)


@pytest.mark.parametrize("change", [{"id": {}}, {"point": "a"}, {"rows": ["t"]}, {"rows": {"t": 1}}])
def test_a_point_of_other_types_is_refused_though_its_checksum_is_right(
    tmp_path: Path, change: dict[str, object]
) -> None:
    file = tmp_path / "points.jsonl"
    record = {"id": "a", "point": {}, "rows": [], **change}
    file.write_text(json.dumps({**record, "checksum": digest(record)}) + "\n")
    for read in (PointFile, look):
        with pytest.raises(ValueError, match=r"points\.jsonl:1: must be a point as JSON, got"):
            read(file)


def test_the_identity_is_of_all_that_is_configured() -> None:
    configuration = {"workload": {"tables": 4}, "seed": 0}
    assert identity(configuration) == identity({"seed": 0, "workload": {"tables": 4}})
    assert identity(configuration) != identity({"workload": {"tables": 5}, "seed": 0})
    assert identity(configuration) != identity({"workload": {"tables": 4}, "seed": 1})


def test_a_line_of_which_a_character_was_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    PointFile(file).add("a", {"series": "TopoOpt"}, [{"iteration_time": 0.125, "servers": 16}])
    content = file.read_text()
    for place, old in enumerate(content[:-1]):
        for new in {"7", "x", chr(ord(old) ^ 1)} - {old, "\n"}:
            file.write_text(content[:place] + new + content[place + 1 :])
            with pytest.raises(ValueError, match=r"points\.jsonl:1: must be a point as"):
                PointFile(file)
