"""Predicted ranks follow the streams and events of their script, as a GPU does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.capture.parallel_jobs import predicted
from topoflow.capture.base import Communication, ComputeSpan, Event, OperatorWork
from topoflow.capture.record.file import Event as RecordedEvent
from topoflow.capture.record.file import Row
from topoflow.traffic.captured.iteration import recorded_iteration

torch = pytest.importorskip("torch")
streams = pytest.importorskip("topoflow.capture.predict.streams")


class Rank:
    """A rank that computes and communicates by hand; events are named by position."""

    def __init__(self) -> None:
        self.rows: list[Row | RecordedEvent] = []
        self.recording = streams.StreamRecording(self.rows.append)

    def compute(self) -> None:
        self.recording.work.operator(OperatorWork("float32", 1.0, 1.0))

    def send(self, group: str) -> RecordedEvent:
        self.recording.pause()
        event = self.recording.issue({"kind": "communication", "group": group}, 0)
        self.recording.waited(event)  # by the stream, as a call that is not asynchronous does
        self.recording.resume()
        return event

    def follows(self) -> list[tuple[int, ...]]:
        self.recording.pause()
        rows = [row.row if isinstance(row, RecordedEvent) else row for row in self.rows]
        return [tuple(sorted(row["after"])) for row in rows]


def test_what_is_sent_on_a_stream_of_its_own_overlaps_computation_until_its_event_is_waited_for() -> None:
    rank = Rank()
    with streams.gpu_streams(rank.recording):
        side = torch.cuda.Stream()
        rank.compute()
        with torch.cuda.stream(side):
            rank.send("a")  # 1, after compute 0 by no event
        event = side.record_event()
        rank.compute()  # 2
        torch.cuda.current_stream().wait_event(event)
        rank.compute()  # 3
    assert rank.follows() == [(), (), (0,), (1, 2)]


def test_a_stream_waits_for_what_another_has_recorded_and_no_later_work() -> None:
    rank = Rank()
    with streams.gpu_streams(rank.recording):
        side, event = torch.cuda.Stream(), torch.cuda.Event()
        rank.compute()  # 0
        event.record()
        rank.compute()  # 1
        side.wait_event(event)
        with torch.cuda.stream(side):
            rank.send("a")  # 2
            rank.send("b")  # 3, on another communicator, in the order of the stream
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            rank.send("a")  # 4
    assert rank.follows() == [(), (0,), (0,), (2,), (1, 2, 3)]


def test_a_host_that_waits_for_an_event_launches_nothing_before_it() -> None:
    rank = Rank()
    with streams.gpu_streams(rank.recording):
        side, event = torch.cuda.Stream(), torch.cuda.Event()
        rank.compute()  # 0
        event.record()
        event.synchronize()
        with torch.cuda.stream(side):
            rank.send("a")  # 1
    assert rank.follows() == [(), (0,)]


def test_the_default_stream_waits_for_what_is_sent_on_it() -> None:
    rank = Rank()
    with streams.gpu_streams(rank.recording):
        rank.compute()
        rank.send("a")
        rank.compute()
    assert rank.follows() == [(), (0,), (0, 1)]


def before(events: Sequence[Event], position: int) -> set[int]:
    """Return everything that an event follows, at any distance."""
    ancestors: set[int] = set()
    reached = [position]
    for current in reached:
        new = {*(events[current].after or ())} - ancestors
        ancestors |= new
        reached += new
    return ancestors


@pytest.mark.slow  # a process that imports torch
def test_fsdp2_gathers_a_layer_while_the_one_before_computes(tmp_path) -> None:
    trace = predicted(tmp_path, "fsdp", 4)
    events = trace.ranks[0]
    iteration = recorded_iteration(trace).ranks[0]
    gathers = [at for at in iteration if isinstance(events[at], Communication) and events[at].op == "all_gather"]
    layers = gathers[: len(gathers) // 2]  # of the forward pass
    computes = [at for at in iteration if isinstance(events[at], ComputeSpan)]
    assert len(layers) == 5
    for gathered, following, late in zip(layers, layers[1:], layers[3:], strict=False):
        (own_compute,) = [at for at in computes if gathered < at < following]
        assert gathered in before(events, own_compute)
        assert own_compute not in before(events, following), "prefetched"
        assert own_compute in before(events, late), "the events of FSDP2 keep gathers within two layers"
