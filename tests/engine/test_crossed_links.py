"""Which links the bytes of tasks crossed, put together from many steps."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.engine.base import LoweredGraph
from topoflow.engine.dynamic import crossed_links
from topoflow.engine.dynamic.crossed_links import CrossedLinks
from topoflow.engine.dynamic.stepwise import RoutesAtTime, Sent

TASKS, LINKS, STEPS = 5, 4, 40


def graph() -> LoweredGraph:
    """Each task takes the path of its own number."""
    none = np.zeros(TASKS)
    return LoweredGraph(
        delay=none,
        bytes=np.full(TASKS, 4.0 * STEPS),
        release=none,
        path=np.arange(TASKS, dtype=np.int32),
        after_offsets=np.zeros(TASKS + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=np.arange(TASKS + 1),
        path_links=np.zeros(TASKS, np.int32),
        owner=np.zeros(TASKS, np.int32),
        owners=1,
        links=LINKS,
    )


def static_graph() -> tuple[LoweredGraph, float]:
    """What crossed routes that are drawn for every step, and the bytes times hops of all steps."""
    random = np.random.default_rng(7)
    whole, crossed = CrossedLinks(graph().path), 0.0
    for _ in range(STEPS):
        way = [random.choice(LINKS, random.integers(1, LINKS), replace=False) for _ in range(TASKS)]
        offsets = np.cumsum([0, *map(len, way)])
        sent = random.integers(0, 4, TASKS).astype(np.float64)
        whole.add(
            RoutesAtTime(offsets, np.concatenate(way).astype(np.int32), None, np.zeros(TASKS)),
            Sent(np.arange(TASKS, dtype=np.int32), sent),
        )
        crossed += float((sent * np.diff(offsets)).sum())
    return whole.as_static_graph(graph(), LINKS), crossed


def test_duplicates_can_be_merged_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_end, crossed = static_graph()
    monkeypatch.setattr(crossed_links, "COMPACT_ABOVE", 8)
    now_and_then, _ = static_graph()
    assert np.array_equal(now_and_then.path_links, at_the_end.path_links)
    assert now_and_then.path_weight == pytest.approx(at_the_end.path_weight, rel=1e-12)
    hops = np.diff(at_the_end.path_offsets)
    bytes_of_hop = np.repeat(at_the_end.bytes, hops) * at_the_end.path_weight
    assert bytes_of_hop.sum() == pytest.approx(crossed)


def test_a_task_that_sent_nothing_has_a_path_without_links() -> None:
    crossed = CrossedLinks(graph().path)
    way = RoutesAtTime(np.arange(TASKS + 1), np.zeros(TASKS, np.int32), None, np.zeros(TASKS))
    crossed.add(way, Sent(np.array([1, 3], np.int32), np.array([0.0, 2.0])))
    static = crossed.as_static_graph(graph(), LINKS)
    assert static.path.tolist() == list(range(TASKS))
    assert np.diff(static.path_offsets).tolist() == [0, 0, 0, 1, 0]
