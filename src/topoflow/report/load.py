"""What every link carries in each part of an iteration, for pictures.

A timeline has when every transfer began and ended, not its rates in between: its bytes are spread evenly over the time
in which it flows, from the end of its latency to its finish. So a link's load in a part may be more than it could carry
there, where a transfer was slow before and quick later. What always holds for ``fluid``, on every link:

    the sum over all parts is what the timeline says that the link carries
    in any parts side by side, the load is at most the capacity * (the last end - the first begin of the transfers
    that flow there): all their bytes went over the link in that time

and where the rates of a link's transfers do not change while they flow, the load is exact. ``bound`` has every transfer
as if it were alone, and so more than a link can carry where they share it.

Shapes: B bins, L links, T tasks.
"""

from __future__ import annotations

import numpy as np

from topoflow.engine.base import Floats, Timeline
from topoflow.engine.timelines import link_bytes, path_latency

BINS = 24  # of an iteration


def bytes_over_time(timeline: Timeline, end: float, bins: int = BINS) -> Floats | None:
    """B [B, L] that links carry in equal parts of the time from 0 to ``end`` (s).

    None where the paths do not say which links the bytes cross: routers that forward by address choose on the way.
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
    # what was sent again after a loss is spread as what was sent first
    again = np.divide(carried, planned, out=np.zeros_like(planned), where=planned > 0)
    return np.diff(np.maximum.accumulate(by_then), axis=0) * again


def flowing(timeline: Timeline, end: float) -> tuple[Floats, Floats]:
    """[T] and [T] s, from when to when the bytes of each task flow; until ``end`` (s) where it finishes later."""
    finish = np.minimum(timeline.finish, end)
    world, graph = timeline.world, timeline.world.graph
    of_path = np.append(path_latency(graph, world.latency), 0.0)  # the last: of no path
    return np.minimum(timeline.start + graph.delay + of_path[graph.path], finish), finish
