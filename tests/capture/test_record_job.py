"""How ranks bring their records together in one folder; the ranks are threads here."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from topoflow.capture import jsonl
from topoflow.capture.__main__ import main
from topoflow.capture.base import Communication, Trace
from topoflow.capture.load import load
from topoflow.capture.record.clock import now
from topoflow.capture.record.job import Job


def job(out: Path, rank: int, ranks: int = 2, patience: float = 20.0) -> Job:
    return Job("toy", out, rank, ranks, patience)


def record(rank: int, origin: float, size: int = 8, ranks: int = 2) -> Trace:
    group = tuple(range(ranks))
    began = now() - origin
    event = Communication("all_reduce", group, "float32", size, size, issue=began, start=began, end=began)
    return Trace("script", ranks, 1, {rank: (event,)}, {"": group})


def test_records_of_all_ranks_become_one_trace(tmp_path) -> None:
    jobs = [job(tmp_path / "new" / "folder", rank) for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(Job.start, jobs))
        merged = list(threads.map(lambda job: job.finish(lambda origin: record(job.rank, origin)), jobs))
    assert merged[1] is None
    assert set(merged[0].ranks) == {0, 1}
    assert sorted(path.name for path in jobs[0].out.iterdir()) == ["rank0.jsonl.gz", "rank1.jsonl.gz", "trace.jsonl.gz"]
    assert jsonl.read(jobs[0].out / "trace.jsonl.gz") == merged[0]
    assert load([jobs[0].out]).ranks == merged[0].ranks


def test_a_single_rank_leaves_one_file(tmp_path) -> None:
    single = job(tmp_path, 0, ranks=1)
    single.start()
    single.finish(lambda origin: record(0, origin, ranks=1))
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl.gz"]


def test_times_count_from_the_rank_that_started_first(tmp_path) -> None:
    early, late = job(tmp_path, 1), job(tmp_path, 0)
    early.start()
    time.sleep(0.1)
    late.start()
    origins: list[float] = []

    def told(rank: int, origin: float) -> Trace:
        origins.append(origin)
        return record(rank, origin)

    early.finish(lambda origin: told(1, origin))
    trace = late.finish(lambda origin: told(0, origin))
    assert origins[0] == origins[1] <= now() - 0.1
    assert trace.ranks[0][0].start >= 0.1


def test_a_rank_that_never_arrives_is_waited_for_aloud_and_named(tmp_path, monkeypatch, capsys) -> None:
    first = job(tmp_path, 0, patience=0.1)
    first.start()
    monkeypatch.setattr("topoflow.capture.record.job.QUIET", 0.0)
    with pytest.raises(ValueError, match=r"^rank 1: has not started after 0.1 s, so there is no trace$"):
        first.finish(lambda origin: record(0, origin))
    assert capsys.readouterr().err == "topoflow.capture: rank 1 has not started, waiting up to 0.1 s for it\n"
    job(tmp_path, 1).start()
    with pytest.raises(ValueError, match=r"^rank 1: has not finished after 0.1 s, so there is no trace$"):
        first.finish(lambda origin: record(0, origin))
    with pytest.raises(ValueError, match="must hold a trace"):
        load([tmp_path])


def test_a_rank_that_failed_is_named_with_its_error(tmp_path) -> None:
    first, second = job(tmp_path, 0), job(tmp_path, 1)
    second.start()
    second.fail(RuntimeError("out of\nluck"))
    first.start()  # a rank may fail before another has started
    with pytest.raises(ValueError, match=r"^rank 1: must end well, got RuntimeError: out of luck$"):
        first.finish(lambda origin: record(0, origin))
    assert not list(tmp_path.glob("*.jsonl.gz"))


def test_ranks_that_disagree_leave_no_trace(tmp_path) -> None:
    first, second = job(tmp_path, 0), job(tmp_path, 1)
    first.start()
    second.start()
    second.finish(lambda origin: record(1, origin, size=8))
    with pytest.raises(ValueError, match="ranks 0 and 1"):
        first.finish(lambda origin: record(0, origin, size=12))
    assert not list(tmp_path.glob("*.jsonl.gz"))


def test_a_folder_with_anything_in_it_is_refused(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^--out: must be empty, got .* with notes.txt in it$"):
        job(tmp_path, 0).start()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_of_another_capture_is_refused(tmp_path) -> None:
    job(tmp_path, 0).start()
    with pytest.raises(ValueError, match=r"^--out: must be empty, got .* with another capture's rank0.started$"):
        job(tmp_path, 0).start()


def test_a_file_as_folder_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^--out: must be a folder, got the file"):
        job(tmp_path / "file", 0).start()


def test_a_rank_outside_the_world_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"^RANK: must be within 0..1 \(WORLD_SIZE\), got 2$"):
        job(tmp_path, 2)


@pytest.mark.parametrize(
    ("rank", "message"),
    [("0", "script: must be a file, got nowhere.py"), ("first", "RANK: must be a whole number, got 'first'")],
)
def test_a_wrong_call_is_one_line(rank, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("RANK", rank)
    assert main(["run", "--out", str(tmp_path / "out"), "nowhere.py"]) == 2
    assert capsys.readouterr().err == f"topoflow.capture: {message}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("module", ["nowhere", "nowhere.train", ".train"])
def test_a_module_that_is_not_there_is_one_line(module, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["run", "--out", str(tmp_path / "out"), "-m", module]) == 2
    law = "-m: must be a module in this folder or installed"
    assert capsys.readouterr().err == f"topoflow.capture: {law}, got {module}\n"
    assert not (tmp_path / "out").exists()


def test_help_shows_an_example(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "torchrun --nproc-per-node 4 -m topoflow.capture run --out captured" in capsys.readouterr().out
