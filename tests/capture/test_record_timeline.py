"""What one rank records, told by hand: no torch here."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.capture.recordings import SECOND, group, read
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.formats.recording import iteration_numbers
from topoflow.capture.record.recording import UNKNOWN_PEER, Recording


def communication(op: str = "all_reduce", name: str = "0", **more: Any) -> dict[str, Any]:
    return {"kind": "communication", "op": op, "group": name, "dtype": "float32", "in": 4, "out": 4, **more}


REDUCE = communication()
OTHER = communication(name="1")


def point(op: str) -> dict[str, Any]:
    return communication(op, peer=1, tag=0)


class Clocks:
    """A wall clock and a processor clock, moved by hand."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.processor = 0.0

    def compute(self, seconds: float) -> None:
        self.wall += seconds
        self.processor += seconds

    def sleep(self, seconds: float) -> None:
        self.wall += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def rows() -> list[Any]:
    return [group(0, 1), group(0, 1, name="1")]


@pytest.fixture
def recording(clocks: Clocks, rows: list[Any]) -> Recording:
    recorder = Recording(
        rows.append, clock=lambda: round(clocks.wall * SECOND), busy=lambda: round(clocks.processor * SECOND)
    )
    recorder.rows = rows
    return recorder


def trace(recording: Recording) -> Trace:
    recording.pause()
    return read([*recording.rows, {"kind": "ended"}])


def events(recording: Recording) -> tuple[ComputeSpan | Communication, ...]:
    return trace(recording).ranks[0]


def issue(recording: Recording, row: dict[str, Any]):
    recording.pause()
    late = recording.issue(dict(row), recording.now())
    recording.resume()
    return late


def test_compute_is_processor_time_between_communications(clocks, recording) -> None:
    clocks.compute(2.0)
    clocks.sleep(5.0)
    issue(recording, REDUCE)
    clocks.compute(1.0)
    first, _, last = events(recording)
    assert (first.start, first.end, first.seconds) == (0.0, 7.0, 2.0)  # it slept for 5 of 7 s
    assert (last.start, last.end, last.seconds) == (7.0, 8.0, 1.0)


def test_compute_follows_what_the_thread_waited_for(clocks, recording) -> None:
    clocks.compute(1.0)
    issued = issue(recording, REDUCE)  # event 1, after 0
    clocks.compute(1.0)
    issue(recording, OTHER)  # event 3, another communicator: after 2 only
    clocks.compute(1.0)  # event 4, not waited for anything: after 2
    recording.pause()
    clocks.sleep(3.0)
    recording.done(issued)
    recording.waited(issued)
    recording.resume()
    clocks.compute(1.0)  # event 5
    recorded = events(recording)
    assert [event.after for event in recorded] == [(), (0,), (0,), (2,), (2,), (1, 4)]
    assert recorded[1].end == 6.0


def test_a_communicator_works_in_order(clocks, recording) -> None:
    for _ in range(3):
        clocks.compute(1.0)
        issue(recording, REDUCE)
    assert [event.after for event in events(recording)] == [(), (0,), (0,), (1, 2), (2,), (3, 4)]


def test_a_span_without_processor_time_is_none(clocks, recording) -> None:
    issue(recording, REDUCE)
    clocks.sleep(1.0)
    issue(recording, REDUCE)
    assert [type(event) for event in events(recording)] == [Communication, Communication]


def test_the_first_end_counts(clocks, recording) -> None:
    pending = issue(recording, REDUCE)
    clocks.sleep(1.0)
    recording.done(pending)
    clocks.sleep(1.0)
    recording.done(pending)
    assert events(recording)[0].end == 1.0


def test_set_up_steps_and_the_rest_are_told_apart(clocks, recording) -> None:
    issue(recording, REDUCE)  # DDP's constructor
    clocks.compute(1.0)
    recording.begin_iterations()
    for _ in range(2):
        clocks.compute(1.0)
        issue(recording, REDUCE)
        recording.enter("optimizer")
        clocks.compute(1.0)
        recording.enter("forward")
        recording.step()
    issue(recording, REDUCE)  # an evaluation
    recorded = trace(recording)
    assert [event.iteration for event in recorded.ranks[0]] == [-1, -1, 0, 0, 0, 1, 1, 1]
    assert recorded.iterations == 2
    assert recorded.notes == ("1 communications after the last optimizer step belong to no iteration and are left out",)


def test_a_script_without_optimizer_is_one_iteration_from_its_first_communication(clocks, recording) -> None:
    clocks.compute(1.0)
    issue(recording, REDUCE)
    clocks.compute(1.0)
    recorded = trace(recording)
    assert [event.iteration for event in recorded.ranks[0]] == [-1, 0, 0]
    assert recorded.notes == ("no optimizer took a step: the script is one iteration",)


def test_what_a_stage_receives_for_its_first_forward_pass_belongs_to_iteration_0(clocks, recording) -> None:
    issue(recording, point("send"))  # set-up: a collective comes between this and the training
    issue(recording, REDUCE)
    clocks.compute(1.0)
    issue(recording, point("recv"))
    clocks.compute(1.0)
    recording.begin_iterations()
    clocks.compute(1.0)
    issue(recording, point("send"))
    assert [event.iteration for event in events(recording)] == [-1, -1, -1, 0, 0, 0, 0]


def test_a_receive_from_nobody_knows_whom_is_counted(recording) -> None:
    issue(recording, communication("recv", peer=UNKNOWN_PEER, tag=0))
    assert trace(recording).notes[1].startswith("1 receives from any source were not waited for")


def test_iterations_end_with_the_steps() -> None:
    assert iteration_numbers(7, 1, [3, 6]) == [-1, 0, 0, 1, 1, 1, -1]
    assert iteration_numbers(3, 1, []) == [-1, 0, 0]


def test_importing_capture_does_not_import_torch() -> None:
    script = (
        "import sys, topoflow.capture, topoflow.capture.load, topoflow.capture.__main__; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
