"""Load of every link in each part of an iteration, for pictures.

A timeline has the start and finish of every transfer, not its rates in between. So the bytes are spread evenly over the
time in which the transfer flows, from the end of its latency to its finish. The load of a link in a part may exceed its
capacity if a transfer was slow before and fast later. For ``fluid``, two properties hold on every link:

    the sum over all parts is the bytes that the timeline has for the link
    in consecutive parts, the load is at most the capacity * (the last finish - the first start of the transfers that
    flow there), since all their bytes crossed the link in that time

If the rates of a link's transfers are constant, the load is exact. ``bound`` simulates every transfer as if it were
alone, so that shared links carry more than their capacity.

Shapes: B bins, L links, T tasks.
"""

from __future__ import annotations

import numpy as np

from topoflow.engine.base import Floats, Timeline
from topoflow.engine.timelines import link_bytes, path_latency

BINS = 24  # of an iteration


def bytes_over_time(timeline: Timeline, end: float, bins: int = BINS) -> Floats | None:
    """Return the bytes [B, L] that links carry in equal parts of the time from 0 to ``end`` (s).

    Return None if the links of the bytes are not known, since routers that forward by address choose on the way.
    """
    carried, graph = timeline.link_bytes, timeline.world.graph
    planned = link_bytes(graph)
    if end <= 0 or graph.next_hops is not None or (carried[planned == 0] > 0).any():
        return None
    begin, finish = flowing(timeline, end)
    took = finish - begin
    by_then = np.zeros((bins + 1, graph.links))
    for edge in range(1, bins):
        passed = end * edge / bins - begin
        share = np.divide(passed, took, out=(passed >= 0).astype(np.float64), where=took > 0)
        by_then[edge] = link_bytes(graph, graph.bytes * np.clip(share, 0.0, 1.0))
    by_then[bins] = planned
    # retransmissions are spread like the first transmissions
    transmissions = np.divide(carried, planned, out=np.zeros_like(planned), where=planned > 0)
    return np.diff(np.maximum.accumulate(by_then), axis=0) * transmissions


def flowing(timeline: Timeline, end: float) -> tuple[Floats, Floats]:
    """Return [T] and [T] the times (s) between which the bytes of each task flow, at most until ``end`` (s)."""
    finish = np.minimum(timeline.finish, end)
    world, graph = timeline.world, timeline.world.graph
    of_path = np.append(path_latency(graph, world.latency), 0.0)  # the last entry is for tasks without a path
    return np.minimum(timeline.start + graph.delay + of_path[graph.path], finish), finish
