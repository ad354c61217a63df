"""Pictures of a trace: the traffic between ranks, and the timeline of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from topoflow.capture.base import Trace
from topoflow.capture.shares import RankShare, rank_spans
from topoflow.capture.summary import Summary, traffic_matrix
from topoflow.report.draw import gantt, heat_map
from topoflow.report.draw.style import COMPUTE, HOST, KINDS, OTHER_KIND, plain, scale

MAX_BARS = 40
PARTS = {  # shares that add up to the step -> colour
    "compute": COMPUTE,
    "waiting for ranks": KINDS["recv"],
    "transfer": KINDS["transfer"],
    "exposed communication": OTHER_KIND,  # how much of it is waiting is unknown
    "host idle": HOST,
}


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


def draw_shares(summaries: Sequence[Summary]) -> Figure | None:
    """Draw the step of each rank as a bar of its shares; return None if the traces have no times."""
    bars = []
    for letter, summary in zip("AB" if len(summaries) > 1 else " ", summaries, strict=True):
        timed = [share for share in summary.shares if share.compute is not None]
        bars += [(f"{letter} rank {share.rank}".strip(), share) for share in timed[: MAX_BARS // len(summaries)]]
    if not bars:
        return None
    lengths = np.array([share.iteration_time or 0.0 for _, share in bars])
    factor, unit = scale(lengths.tolist(), "s")
    figure = Figure(figsize=(9, 2 + 0.3 * len(bars)), layout="constrained")
    axes = figure.subplots()
    left = np.zeros(len(bars))
    for title, colour in PARTS.items():
        widths = np.array([_parts(share)[title] for _, share in bars]) * lengths / factor
        axes.barh(np.arange(len(bars)), widths, left=left, color=colour, height=0.7)
        left += widths
    hidden = np.array([[share.compute or 0.0, share.hidden or 0.0] for _, share in bars]).T * lengths / factor
    axes.barh(np.arange(len(bars)), hidden[1], left=hidden[0] - hidden[1], height=0.7, color="none", hatch="///",
              edgecolor="white", linewidth=0)  # fmt: skip
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=7)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlabel(f"time in the step [{unit}]")
    plain(axes)
    handles = [
        Patch(color=PARTS[title], label=title) for title in PARTS if any(_parts(share)[title] for _, share in bars)
    ]
    handles.append(Patch(facecolor=COMPUTE, hatch="///", edgecolor="white", label="hidden communication"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"{' and '.join(summary.name for summary in summaries)}: shares of the step")
    return figure


def _parts(share: RankShare) -> dict[str, float]:
    """Return the shares that add up to the step, by title."""
    exposed = share.exposed or 0.0
    known = {"waiting for ranks": share.waiting or 0.0, "transfer": share.transfer or 0.0}
    return {
        "compute": share.compute or 0.0,
        **known,
        "exposed communication": exposed - sum(known.values()),
        "host idle": share.host_idle or 0.0,
    }
