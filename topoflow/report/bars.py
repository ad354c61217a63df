"""Iteration time of every world, and what of it is not hidden by computation."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from topoflow.report.base import Outcome, Report
from topoflow.report.style import COMPUTE, EXPOSED, plain, scale
from topoflow.units import human

MOST = 40  # bars that can be read on one page
GROUPS = 8


def _groups(report: Report) -> list[tuple[str, list[Outcome]]]:
    """Bars that belong together: one job at one bandwidth, fastest first."""
    groups: list[tuple[str, list[Outcome]]] = []
    for job in report.jobs:
        for bandwidth in sorted({outcome.row.bandwidth for outcome in job}):
            members = [outcome for outcome in job if outcome.row.bandwidth == bandwidth]
            row = members[0].row
            title = f"{row.workload}, {row.servers} servers, interfaces of {human(bandwidth * 8, 'b/s')}"
            groups.append((title, members))
    return groups


def draw(report: Report) -> Figure:
    """Horizontal bars: computing time, then the time that only the network takes."""
    groups = _groups(report)
    apart = np.unique(np.linspace(0, len(groups) - 1, min(GROUPS, len(groups))).astype(int))
    shown = [(groups[index][0], groups[index][1][: MOST // len(apart)]) for index in apart]
    count = sum(len(members) for _, members in shown)
    factor, unit = scale((o.row.iteration_time for _, members in shown for o in members), "s")
    figure = Figure(figsize=(9, 1.7 + 0.34 * count + 0.6 * len(shown)), layout="constrained")
    axes = figure.subplots()
    position, ticks, labels = 0.0, [], []
    for title, members in shown:
        axes.text(0, position, title, va="center", ha="left", fontweight="bold", fontsize=9)
        for outcome, label in zip(members, report.labels(members), strict=True):
            position += 1
            row = outcome.row
            axes.barh(position, row.compute_time / factor, color=COMPUTE, height=0.7)
            axes.barh(position, row.network_time / factor, left=row.compute_time / factor, color=EXPOSED, height=0.7)
            price = "" if row.cost_usd is None else f"  (${row.cost_usd:,.0f})"
            axes.text(row.iteration_time / factor, position, f" {row.iteration_time / factor:.4g} {unit}{price}",
                      va="center", fontsize=8)  # fmt: skip
            ticks.append(position)
            labels.append(label)
        position += 1.6
    axes.set_yticks(ticks, labels)
    axes.set_ylim(position - 0.6, -1.0)
    longest = max(o.row.iteration_time for _, members in shown for o in members)
    axes.set_xlim(0, 1.4 * longest / factor or 1.0)
    axes.set_xlabel(f"time of one training step [{unit}] (shorter is better)")
    plain(axes)
    total = len(report.outcomes)
    figure.suptitle("Iteration time" if count == total else f"Iteration time ({count} of {total} worlds)")
    figure.legend(
        handles=[
            Patch(color=COMPUTE, label="computing (busiest server)"),
            Patch(color=EXPOSED, label="added by the network"),
        ],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    return figure
