"""Pictures of a trace: the traffic between ranks, and the timeline of ranks."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from topoflow.capture.base import Trace
from topoflow.capture.summary import rank_spans, traffic_matrix
from topoflow.report.draw import gantt, heat_map
from topoflow.report.draw.style import scale


def draw_traffic(trace: Trace) -> Figure:
    """Draw the bytes of one iteration from rank to rank."""
    return heat_map.draw_matrices([trace.name], [traffic_matrix(trace)], "rank", [trace.world_size])


def draw_timeline(trace: Trace) -> Figure | None:
    """Draw when ranks computed and communicated; return None if the trace has no times."""
    spans = {rank: rank_spans(trace, rank) for rank in sorted(trace.ranks)}
    names = sorted({name for of_rank in spans.values() for name in of_rank}, key=lambda name: (name != "compute", name))
    if not names:
        return None
    start = min(span[0, 0] for of_rank in spans.values() for span in of_rank.values())
    no_span = np.zeros((0, 2))
    lanes = {name: [of_rank.get(name, no_span) - start for of_rank in spans.values()] for name in names}
    end = max(float(span[:, 1].max(initial=0.0)) for lane in lanes.values() for span in lane)
    factor, unit = scale([end], "s")
    figure = Figure(figsize=(11, 1.6 + 0.3 * min(len(spans), gantt.ROWS)), layout="constrained")
    axes = figure.subplots()
    gantt.draw_lanes(axes, lanes, factor, "rank", list(spans))
    axes.set_xlabel(f"time since the first iteration began [{unit}]")
    figure.suptitle(f"{trace.name}: what ranks do")
    gantt.legend(figure, names, "communicating")
    return figure
