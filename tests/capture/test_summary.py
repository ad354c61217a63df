"""What ``topoflow inspect`` counts, on traces whose sums are known."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.summary import summarize
from topoflow.report.trace_terminal import show


def iterations(group: tuple[int, ...], begin: float, count: int = 3) -> tuple[Event, ...]:
    """Steps of 1 s: 0.6 s of compute, then an all-reduce of 0.4 s of which 0.1 s is hidden."""
    events: list[Event] = []
    for number in range(count):
        start = begin + number
        events += [
            ComputeSpan("step", start, start + 0.6, 0.6, number),
            Communication("all_reduce", group, "float32", 8, 8, number, start=start + 0.5, end=start + 1.0),
        ]
    return tuple(events)


@pytest.mark.parametrize("delay", [0.0, 0.7, 50.0])
def test_every_rank_has_its_shares_though_groups_do_not_wait_for_each_other(delay: float) -> None:
    pairs = ((0, 1), (2, 3))
    ranks = {rank: iterations(pair, place * delay) for place, pair in enumerate(pairs) for rank in pair}
    summary = summarize(Trace("pairs", 4, 3, ranks))
    assert [share.rank for share in summary.shares] == [0, 1, 2, 3]
    assert all(share.exposed is not None and 0 < share.exposed < 1 for share in summary.shares)
    if delay != 0.7:
        assert [share.communication for share in summary.shares] == pytest.approx([0.5] * 4)


def test_no_rank_is_left_out_of_the_table_silently() -> None:
    alone = (ComputeSpan("alone", 0.0, 1.0, 1.0),)
    ranks = {rank: iterations((0, 19), 0.0) if rank in (0, 19) else alone for rank in range(20)}
    trace = Trace("wide", 20, 3, ranks)
    console = Console(file=io.StringIO(), width=100)
    show(trace, summarize(trace), console)
    lines = console.file.getvalue().splitlines()
    shown = [line.split()[0] for line in lines if line.split()[1:2] in (["-"], ["1"])]
    assert shown == [str(rank) for rank in range(16)]
    assert "4 more ranks; --json has all" in lines
