"""A sweep as a dataset: the rows of a comparison, in files that are whole or absent, read without loading all."""

from __future__ import annotations

import gc
import json
import random
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow.cli import main
from topoflow.report import files
from topoflow.report.dataset import base
from topoflow.report.dataset.base import MANIFEST, Dataset
from topoflow.report.files import sole_writer
from topoflow.study import dataset as study

parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra dataset")
pytest.importorskip("duckdb", reason="needs the extra dataset")

from topoflow.report.dataset import page as pages  # noqa: E402
from topoflow.report.dataset.reading import QUANTILES, Reader  # noqa: E402
from topoflow.report.dataset.summary import parts, state  # noqa: E402

SMALL = ("workload.tables=2", "workload.rows=100", "workload.batch_per_gpu=8")
GRID = ("fabric=ring,torus", "servers=4,2", "bandwidth_gbps=25,100,400")  # a torus of 2 servers cannot be built


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(base, "PART", 5)
    monkeypatch.setattr(study, "BATCH", 3)
    monkeypatch.setattr(study, "ROOM", 0)
    monkeypatch.setenv("TOPOFLOW_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)


def written(out: str = "w.parquet") -> list[dict[str, Any]]:
    """All rows, in the order of their points."""
    files = sorted(Path(out).glob("*.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


def test_the_rows_are_those_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fabric=ring,fat_tree", *GRID[1:], *SMALL, "out=w.parquet"]) == 0
    assert main(["compare", "fabric=ring,fat_tree", *GRID[1:], *SMALL, "out=report"]) == 0
    expected = json.loads(Path("report/result.json").read_text())["rows"]
    rows = written()
    assert [row["point"] for row in rows] == list(range(12))
    for row, expected_row in zip(rows, expected, strict=True):
        fields = {key: value for key, value in expected_row.items() if key not in ("world", "overrides", "config")}
        assert {key: row[key] for key in fields} == fields
        swept = {key.removeprefix("swept."): value for key, value in row.items() if key.startswith("swept.")}
        assert {key: str(value) for key, value in swept.items()} == {
            key: value if key == "fabric" else str(float(value)) for key, value in expected_row["overrides"].items()
        }
    capsys.readouterr()


def test_a_point_that_cannot_be_built_is_a_row_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *GRID, *SMALL, "degree=1,4", "out=w.parquet"]) == 0
    wrong = [row for row in written() if row["error"] is not None]
    assert 0 < len(wrong) < 24
    assert all(row["iteration_time"] is None and row["swept.fabric"] == "torus" for row in wrong)
    assert main(["report", "w.parquet"]) == 0
    assert f"{len(wrong)} points cannot be built; of one: " in capsys.readouterr().out


def test_what_was_written_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["compare", *GRID, *SMALL, "fidelity=bound"]
    assert main([*words, "out=whole.parquet"]) == 0
    simulated, original = 0, study.simulate

    def cut_off(batch: Any, run: Any) -> Any:
        nonlocal simulated
        if simulated >= 7:
            raise KeyboardInterrupt
        simulated += len(batch)
        return original(batch, run)

    monkeypatch.setattr(study, "simulate", cut_off)
    assert main([*words, "out=w.parquet"]) == 130
    assert sorted(path.name for path in Path("w.parquet").iterdir()) == [MANIFEST, "part-00000000.parquet"]
    simulated = -100
    assert main([*words, "out=w.parquet"]) == 0
    assert simulated + 100 == 12 - 5
    for path in Path("whole.parquet").glob("*.parquet"):
        assert (Path("w.parquet") / path.name).read_bytes() == path.read_bytes()


def test_memory_does_not_grow_with_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []
    most, original = 0, study.simulate

    def watched(batch: Any, run: Any) -> Any:
        nonlocal most
        gc.collect()
        most = max(most, sum(reference() is not None for reference in alive))
        results = original(batch, run)
        alive.extend(weakref.ref(part) for result in results for part in (result.case, result.timeline, result.world))
        return results

    monkeypatch.setattr(study, "simulate", watched)
    words = ["compare", "fabric=ring", "servers=2", "bandwidth_gbps=range(1,13)", "latency_us=1,2", *SMALL]
    assert main([*words, "fidelity=bound", "out=w.parquet"]) == 0
    assert len(alive) == 3 * 24
    assert most <= 3 * study.BATCH


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["out=w.parquet", "servers=8"], "out: must be a new folder, or that of the same sweep by the same program"),
        (["out=other.parquet"], "out: must be a new folder or a dataset, got other.parquet with other files"),
        (["out=new.parquet", "fail.each=fiber"], "fail.each: must be null where out is a dataset"),
        (["out=new.parquet", "fabric=ring,nope"], "fabric: must be one of "),
        (["out=new.parquet", "bandwidth_gbps=100,0"], "bandwidth_gbps: must be positive, got 0"),
        (["out=new.parquet", "threads=1,2"], "device, threads, executor, out: must be one for all points"),
        (["out=new.parquet", "fabric=torus", "degree=1"], "torus.degree: must be at least 2"),
    ],
)
def test_what_is_wrong_is_a_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ["compare", "fabric=ring", "servers=4", "fidelity=bound", *SMALL]
    assert main([*grid, "out=w.parquet"]) == 0
    Path("other.parquet").mkdir()
    Path("other.parquet/notes.txt").touch()
    assert main([*grid, *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"topoflow compare: {message}")
    assert not list(Path().glob("new.parquet/part*"))


def test_two_runs_into_one_dataset_are_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with sole_writer(Path("w.parquet"), "compare"):
        monkeypatch.setattr(files, "_LOCKED", set())  # as in another process
        assert main(["compare", "fabric=ring", "servers=2", *SMALL, "out=w.parquet"]) == 2
    assert "out: must be written by one run at a time, got w.parquet" in capsys.readouterr().err


def drawn(folder: Path, seed: int, points: int) -> tuple[Dataset, list[dict[str, Any]]]:
    """A dataset of random rows of three jobs, where equal prices and times are frequent."""
    dice = random.Random(seed)
    keys = ("fabric", "workload.tables", "bandwidth_gbps")
    dataset = Dataset(folder, points, keys, frozenset(keys[1:]), "topoflow compare out=w.parquet", "x")
    dataset.begin()
    rows = []
    for point in range(points):
        swept = {
            "fabric": dice.choice(["a", "b'", 'c"']),
            "workload.tables": str(dice.choice([1, 2, 3])),
            "bandwidth_gbps": str(dice.randint(1, 40)),
        }
        row = {"point": point, **dataset.swept(swept)}
        if dice.random() < 0.1:
            rows.append({**row, "error": "cannot be built"})
            continue
        rows.append(
            row
            | {"workload": "dlrm", "fabric": swept["fabric"], "servers": 4, "fidelity": "fluid"}
            | {"iteration_time": dice.randint(1, 30) / 7, "cost_usd": dice.choice([None, *range(10)])}
            | {"fits": dice.random() < 0.8, "is_ideal": swept["workload.tables"] == "3" or dice.random() < 0.2}
        )
    for part in dataset.parts:
        dataset.write(part, rows[part[0] : part[-1] + 1])
    return dataset, rows


@pytest.mark.parametrize("seed", range(4))
def test_the_answers_are_those_of_all_rows(seed: int, tmp_path: Path) -> None:
    dataset, rows = drawn(tmp_path / "d.parquet", seed, 300)
    reader = Reader(dataset)
    sound = [row for row in rows if "error" not in row]
    assert (reader.counts["rows"], reader.counts["errors"]) == (300, 300 - len(sound))
    assert sum(job["worlds"] for job in reader.jobs) == len(sound)
    for job in reader.jobs:
        mine = [row for row in sound if row["swept.workload.tables"] == job["swept.workload.tables"]]
        fitting = [row for row in mine if row["fits"]]
        bought = [row for row in fitting if row["cost_usd"] is not None]
        bought = [row for row in bought if not row["is_ideal"]] or bought
        best = {
            (row["cost_usd"], row["iteration_time"])
            for row in bought
            if not any(
                a["cost_usd"] <= row["cost_usd"]
                and a["iteration_time"] <= row["iteration_time"]
                and (a["cost_usd"], a["iteration_time"]) != (row["cost_usd"], row["iteration_time"])
                for a in bought
            )
        }
        front = reader.front(job)
        assert [(row["cost_usd"], row["iteration_time"]) for row in front] == sorted(best)
        assert all(row["point"] in {bought_row["point"] for bought_row in bought} for row in front)
        times = np.array([row["iteration_time"] for row in mine])
        assert reader.quantiles(job) == [float(np.quantile(times, share, method="inverted_cdf")) for share in QUANTILES]
        for factor in reader.factors(job, 5):
            values = {row[f"swept.{factor.key}"] for row in fitting}
            assert (factor.count, len(factor.best)) == (len(values), min(5, len(values)))
            for entry in factor.best:
                of_value = [row for row in fitting if row[f"swept.{factor.key}"] == entry["value"]]
                assert entry["worlds"] == len(of_value)
                fastest = min(of_value, key=lambda row: (row["iteration_time"], row["point"]))
                assert (entry["least"], entry["point"]) == (fastest["iteration_time"], fastest["point"])


def test_the_page_shows_all_of_the_front_and_says_what_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_POINTS", 60)
    dataset, _ = drawn(tmp_path / "d.parquet", 1, 300)
    reader = Reader(dataset)
    all_parts = parts(reader)
    text = pages.dataset_page(reader, all_parts)
    (embedded,) = re.findall(r"<script id=data [^>]*>(.*?)</script>", text, re.DOTALL)
    data = json.loads(embedded)
    front = {f"point-{row['point']}" for part in all_parts for row in part.front}
    listed = {row["id"] for row in data["rows"]}
    worlds = sum(job["worlds"] for job in reader.jobs)
    assert front == {row["id"] for row in data["rows"] if row["on_front"]} <= listed
    assert len(listed) == 60
    assert f"The explorer shows 60 of {worlds} worlds: all of the front" in text
    assert len(text) < 3_000_000
    assert pages.dataset_page(Reader(dataset), all_parts) == text


def test_a_dataset_that_was_cut_off_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, _ = drawn(tmp_path / "d.parquet", 2, 50)
    dataset.path(10).unlink()
    content = dataset.path(20).read_bytes()
    dataset.path(20).write_bytes(content[: len(content) // 2])  # as a copy that was interrupted
    reader = Reader(Dataset.open(dataset.folder))
    assert reader.damaged == ["part-00000020.parquet"]
    lines = " ".join(state(reader))
    assert "40 of the 50 points of the sweep are written." in lines
    assert "Left out as damaged: part-00000020.parquet." in lines
    assert f"continued by {dataset.command}" in lines
    assert main(["report", str(dataset.folder)]) == 0
    assert "Incomplete" in capsys.readouterr().out
    assert "Incomplete" in (tmp_path / "d.html").read_text()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "keys",
            ["fabric", "degree", "bandwidth_gbps"],
            "a column of text for 'swept.degree', as _dataset.json says, got none",
        ),
        ("numbers", ["fabric"], "a column of float for 'swept.fabric', as _dataset.json says, got VARCHAR"),
    ],
)
def test_files_without_the_columns_of_their_manifest_are_refused(
    field: str, value: list[str], message: str, tmp_path: Path
) -> None:
    dataset, _ = drawn(tmp_path / "d.parquet", 2, 5)
    manifest = dataset.folder / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {field: value}))
    with pytest.raises(ValueError, match=r"part-00000000\.parquet: must have ") as error:
        Reader(Dataset.open(dataset.folder))
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["iteration_time", "workload", "swept.fabric"])
def test_a_row_without_a_value_that_every_world_has_is_refused(name: str, tmp_path: Path) -> None:
    dataset, rows = drawn(tmp_path / "d.parquet", 2, 5)
    rows[3] = {**rows[0], "error": None, "point": 3, name: None}
    dataset.write(dataset.written[0], rows)
    with pytest.raises(ValueError, match=rf"d\.parquet: point 3: {name}: must be given, got null"):
        Reader(Dataset.open(dataset.folder))


def test_a_file_with_the_digest_of_its_damage_is_one_line(tmp_path: Path) -> None:
    """The digest shows what was damaged, not who wrote it."""
    dataset, _ = drawn(tmp_path / "d.parquet", 2, 5)
    part, path = dataset.written[0], dataset.path(0)
    content = path.read_bytes()
    _, hashed = base._digest_in(content[:100] + bytes(200) + content[300:])
    path.write_bytes(hashed.replace(base.NO_DIGEST.encode(), dataset._digest(part, hashed)))
    with pytest.raises(ValueError, match=r"d\.parquet: must have rows that can be read, got .*") as error:
        state(Reader(dataset))
    assert "\n" not in str(error.value)


def test_any_changed_or_missing_byte_of_a_file_is_known(tmp_path: Path) -> None:
    dataset, _ = drawn(tmp_path / "d.parquet", 8, 12)
    part = dataset.written[1]
    path, content = dataset.path(part[0]), dataset.path(part[0]).read_bytes()
    assert dataset.is_whole(part)
    assert parquet.read_table(path).num_rows == len(part), "other readers do not mind"
    for at in range(len(content)):
        for bit in range(8):
            flipped = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            assert not dataset.wrote(part, flipped), f"byte {at}, bit {bit}"
        assert not dataset.wrote(part, content[:at] + content[at + 1 :]), f"without byte {at}"
        assert not dataset.wrote(part, content[:at]), f"cut off at {at}"
    path.write_bytes(content[:-1])
    assert not dataset.is_whole(part)
    path.write_bytes(dataset.path(0).read_bytes())
    assert not dataset.is_whole(part), "the file of other points"
    path.unlink()
    path.mkdir()
    assert not dataset.is_whole(part)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_is_named_and_written_again(damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "fabric=ring,fat_tree", *GRID[1:], *SMALL, "fidelity=bound", "out=w.parquet"]
    assert main(words) == 0
    path = Path("w.parquet/part-00000005.parquet")
    content = path.read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes({"cut": content[:-1], "flip": changed, "empty": b""}[damage])
    capsys.readouterr()
    assert main(["report", "w.parquet"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "7 of the 12 points of the sweep are written." in printed
    assert f"Left out as damaged: {path.name}." in printed
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert f"{path}: must be as it was written, got a damaged file; it is simulated again." in printed
    assert "Continuing: 7 of 12 points are written." in printed
    assert path.read_bytes() == content


ENDLESS = {"format": "topoflow dataset 2", "points": 10**400, "keys": [], "numbers": [], "command": "", "identity": ""}


@pytest.mark.parametrize(
    "manifest",
    [json.dumps(ENDLESS), "", "[]", "{}", '{"format": "other"}', '{"format": 1}'],
)
def test_another_folder_is_no_dataset(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("other.parquet")
    folder.mkdir()
    assert main(["report", "other.parquet"]) == 2
    (folder / MANIFEST).write_text(manifest)
    assert main(["report", "other.parquet"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    message = "must be a dataset of `topoflow compare out=NAME.parquet`, got no _dataset.json"
    assert first == f"topoflow report: other.parquet: {message}"
    message = "must be what `topoflow compare` writes, got "
    assert second.startswith(f"topoflow report: other.parquet/_dataset.json: {message}")


@pytest.mark.parametrize(
    "words",
    [
        ["bandwidth_gbps=range(1,1000000001)"],
        ["bandwidth_gbps=range(1,100001)", "latency_us=range(0,10000)", "out=w.parquet"],
        ["--multirun", "bandwidth_gbps=range(1,1000000001)"],
        ["--multirun", "hydra/launcher=topoflow_batch", "bandwidth_gbps=range(1,1000000001)"],
        ["hydra.mode=MULTIRUN", "bandwidth_gbps=range(1,100001)", "latency_us=range(0,10000)"],
        ["--run", "bandwidth_gbps=range(1,1000000001)"],
    ],
    ids=" ".join,
)
def test_a_sweep_of_a_billion_is_refused_with_its_size(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words, "fabric=ring"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"topoflow compare: sweep: must be of at most \d+ points \(sweep fewer values", line)
    assert line.endswith("got 1e+09")
