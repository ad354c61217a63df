"""The files of ranks: how they are written while a job runs, and what readers make of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.capture.recordings import HEADER, SECOND, group, reduce, text_of, training, write
from topoflow.capture.__main__ import main
from topoflow.capture.base import Communication
from topoflow.capture.load import load
from topoflow.capture.record import file
from topoflow.capture.record.file import Event, RecordFile, open_record

ENDED = {"kind": "ended"}


class Quiet:
    """A recorder that has nothing to add."""

    def look(self) -> bool:
        return False

    def state(self) -> dict[str, Any]:
        return {"kind": "state", "torch": "2", "backends": [], "job": None, "on_device": 0} | {
            "other_threads": 0,
            "unknown": {},
        }


@contextmanager
def recording(folder: Path, rank: int = 0, restart: int = 0) -> Iterator[tuple[RecordFile, list[str]]]:
    record = open_record(folder, rank, restart, HEADER)
    failures: list[str] = []
    record.start(Quiet(), failures.append)
    yield record, failures
    record.close()


def wait_for(happened: Any) -> None:
    for _ in range(2000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("did not happen")


def test_rows_are_on_the_disk_while_the_job_runs(tmp_path) -> None:
    with recording(tmp_path / "new" / "folder") as (record, failures):
        for row in [group(0, 1), reduce(0)]:
            record.append(row)
        wait_for(lambda: '"all_reduce"' in record.path.read_text())
        assert not failures
    assert load([record.path.parent]).ranks[0][0].op == "all_reduce"


def test_an_end_that_becomes_known_after_its_event_was_written_is_recorded(tmp_path) -> None:
    with recording(tmp_path) as (record, _):
        row = reduce(0)
        end = row.pop("end")
        late = Event(0, row)
        record.append(group(0, 1))
        record.append(late)
        wait_for(lambda: late.written)
        record.append({"kind": "later", "event": 0, "end": end})
    (event,) = load([tmp_path]).communications(0)
    assert event.end - event.start == 1


def test_a_disk_that_does_not_answer_is_waited_for_in_bounded_time(tmp_path, monkeypatch) -> None:
    """The file is a pipe that nobody reads: once it is full, writing blocks for ever."""
    monkeypatch.setattr(file, "LAST_WRITE", 0.1)
    record = open_record(tmp_path, 0, 0, HEADER)
    reading, record._file = os.pipe()
    failures: list[str] = []
    record.start(Quiet(), failures.append)
    for _ in range(file.MAX_WAITING_ROWS + 10_000):
        record.append(reduce(0))
    assert "the disk has not answered for 0.1 s" in record.close()
    assert not failures
    for _ in range(file.MAX_WAITING_ROWS + 10_000):
        record.append(reduce(0))
    assert record.is_stuck, "so that memory does not grow without end"
    os.close(reading)  # which ends the thread


def test_a_file_that_was_removed_is_said_at_the_end(tmp_path) -> None:
    record = open_record(tmp_path / "out", 0, 0, HEADER)
    record.start(Quiet(), [].append)
    record.path.unlink()
    assert record.close().endswith("nothing is recorded: the file was removed while the job ran")


def test_ranks_of_different_length_are_cut_to_their_common_iterations(tmp_path) -> None:
    trace = load([write(tmp_path, {0: [*training(5), reduce(9)], 1: training(3)})])
    assert trace.iterations == 3
    for events in trace.ranks.values():
        assert [event.iteration for event in events] == [0, 1, 2]
    assert trace.notes[:3] == (
        "1 communications after the last optimizer step belong to no iteration and are left out",
        "2 operations at the ends of the records were not recorded by all members and are left out",
        "2 ranks were cut off or failed: what others did after that is left out",
    )


def test_scripts_without_iterations_are_cut_to_what_all_ranks_got_to(tmp_path) -> None:
    long = [group(0, 1), *(reduce(at, size=4 + at) for at in range(7))]
    trace = load([write(tmp_path, {0: long, 1: long[:5]})])
    assert [[event.bytes for event in trace.communications(rank)] for rank in (0, 1)] == [[4, 5, 6, 7]] * 2


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_a_file_is_read_wherever_a_kill_has_cut_it(cut: int, tmp_path) -> None:
    folder = write(tmp_path, {0: [*training(6), ENDED], 1: [*training(6), ENDED]})
    complete = load([folder])
    path = folder / "rank1.jsonl"
    path.write_text(path.read_text()[:-cut])
    trace = load([folder])
    assert trace.ranks[0] == complete.ranks[0][: trace.iterations]
    assert trace.iterations >= 6 - (cut + 171) // 172 - 1


def test_ranks_that_ended_well_must_have_done_the_same(tmp_path) -> None:
    folder = write(tmp_path, {0: [*training(2, size=8), ENDED], 1: [*training(2, size=12), ENDED]})
    with pytest.raises(ValueError, match="ranks 0 and 1: members of a group must do the same"):
        load([folder])


def test_times_count_from_the_rank_that_started_first(tmp_path) -> None:
    write(tmp_path, {0: training(1)}, epoch=5 * SECOND)
    write(tmp_path, {1: training(1)}, epoch=5 * SECOND + SECOND // 5)
    trace = load([tmp_path])
    assert [trace.ranks[rank][0].start for rank in (0, 1)] == [0.0, 0.2]


def test_clocks_of_different_hosts_are_set_by_the_ends_of_collectives(tmp_path) -> None:
    write(tmp_path, {0: training(1)}, epoch=5 * SECOND)
    write(tmp_path, {1: training(1)}, epoch=5 * SECOND + SECOND // 5, host="other")
    trace = load([tmp_path])
    assert [trace.ranks[rank][0].start for rank in (0, 1)] == [0.0, 0.0]


def test_the_newest_start_of_a_job_counts(tmp_path) -> None:
    write(tmp_path, {0: training(1), 1: training(4), 2: training(4)}, world_size=3)
    for rank in (0, 1):  # one rank fewer: elastic
        (tmp_path / f"rank{rank}.restart1.jsonl").write_text(text_of(training(2), rank, restart=1))
    trace = load([tmp_path])
    assert (trace.world_size, trace.iterations, sorted(trace.ranks)) == (2, 2, [0, 1])
    assert [note for note in trace.notes if "earlier start" in note] == [
        f"rank{rank}.jsonl is of an earlier start of the job and is passed over" for rank in range(3)
    ]


def test_a_restart_takes_a_file_of_its_own(tmp_path) -> None:
    for restart in range(3):
        with recording(tmp_path, 1, restart):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rank1.jsonl",
        "rank1.restart1.jsonl",
        "rank1.restart2.jsonl",
    ]


def test_a_folder_with_anything_in_it_is_refused(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^--out: must be empty, got .* with notes.txt in it$"):
        open_record(tmp_path, 0, 0, HEADER)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_of_another_capture_is_refused(tmp_path) -> None:
    with recording(tmp_path), pytest.raises(ValueError, match=r"^--out: must be empty, got .* another capture's rank0"):
        open_record(tmp_path, 0, 0, HEADER)


def test_a_file_as_folder_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^--out: must be a folder, got the file"):
        open_record(tmp_path / "file", 0, 0, HEADER)


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ("0", "script: must be a file, got nowhere.py"),
        ("first", "RANK: must be a whole number, got 'first'"),
        ("2", "RANK: must be within 0..1 (WORLD_SIZE), got 2"),
    ],
)
def test_a_wrong_call_is_one_line(rank, message, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["run", "--out", str(tmp_path / "out"), "nowhere.py"]) == 2
    assert capfd.readouterr().err == f"topoflow.capture: {message}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("module", ["nowhere", "nowhere.train", ".train"])
def test_a_module_that_is_not_there_is_one_line(module, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setattr("sys.path", [*os.sys.path])
    assert main(["run", "--out", str(tmp_path / "out"), "-m", module]) == 2
    message = "-m: must be a module in this folder or installed"
    assert capfd.readouterr().err == f"topoflow.capture: {message}, got {module}\n"
    assert not (tmp_path / "out").exists()


def test_help_shows_an_example(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "torchrun --nproc-per-node 4 -m topoflow.capture run --out captured" in capsys.readouterr().out


def test_events_are_those_of_the_rows(tmp_path) -> None:
    (event,) = load([write(tmp_path, {0: training(1), 1: training(1)})]).communications(1)
    assert event == Communication(
        "all_reduce", (0, 1), "float32", 8, 8, issue=0.0, start=0.0, end=1.0, group_name="0", after=()
    )
