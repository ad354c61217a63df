"""Bars of the iteration time of every world: computing on the busiest server, waiting for its host, and the rest."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from topoflow.case.base import Result
from topoflow.report.answer import place
from topoflow.report.base import Report
from topoflow.report.draw.style import COMPUTE, HOST, fabric_looks, plain, scale
from topoflow.units import human

MAX_BARS = 40  # bars that can be read on one page
JOBS = 8
BANDWIDTHS = 8

Group = tuple[Result, ...]  # one job at one bandwidth, fastest first


def draw(report: Report) -> Figure:
    """Draw horizontal bars, one panel per job: the busiest server's computing time, its host's, then what remains."""
    jobs = report.jobs[:JOBS]
    groups_of_jobs = [_groups(job, MAX_BARS // len(jobs)) for job in jobs]
    bars = [sum(map(len, groups)) for groups in groups_of_jobs]
    heights = [count + 1.6 * len(groups) for count, groups in zip(bars, groups_of_jobs, strict=True)]
    figure = Figure(figsize=(9, 1.2 + 0.34 * sum(heights) + 0.6 * len(jobs)), layout="constrained")
    panels = figure.subplots(len(jobs), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, groups in zip(panels, groups_of_jobs, strict=True):
        _draw_job(axes, report, groups)
    total = len(report.outcomes)
    figure.suptitle("Iteration time" if sum(bars) == total else f"Iteration time ({sum(bars)} of {total} worlds)")
    figure.legend(
        handles=[
            Patch(color=COMPUTE, label="computing (busiest server)"),
            *[Patch(color=HOST, label="waiting for its host")]
            * any(outcome.row.host_time for outcome in report.outcomes),
            Patch(facecolor="none", edgecolor="black", label="coloured: exposed communication and bubbles"),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    return figure


def _groups(job: tuple[Result, ...], most: int) -> list[Group]:
    """Return the fastest worlds of a job at each bandwidth; many bandwidths are thinned, keeping both ends."""
    bandwidths = sorted({outcome.row.bandwidth for outcome in job})
    indices = np.linspace(0, len(bandwidths) - 1, min(BANDWIDTHS, most, len(bandwidths)))
    chosen = [bandwidths[index] for index in np.unique(indices.astype(int))]
    bars = max(1, most // len(chosen))
    return [tuple(outcome for outcome in job if outcome.row.bandwidth == value)[:bars] for value in chosen]


def _draw_job(axes: Axes, report: Report, groups: list[Group]) -> None:
    longest = max(outcome.row.iteration_time for group in groups for outcome in group)
    factor, unit = scale([longest], "s")
    position, ticks, labels, looks = 0.0, [], [], fabric_looks(report.fabrics)
    for group in groups:
        interfaces = human(group[0].row.bandwidth * 8, "b/s")
        title = f"{place(report, group[0])}, interfaces of {interfaces}"
        bounded = group[0].settings.lower_bound_of
        title += f", lower bound of {bounded}" if bounded else ""
        axes.text(0, position, title, va="center", ha="left", fontweight="bold", fontsize=9)
        for outcome, label in zip(group, report.labels(group), strict=True):
            position += 1
            row = outcome.row
            compute = (row.compute_time or 0.0) / factor
            exposed = (row.iteration_time if row.network_time is None else row.network_time) / factor
            axes.barh(position, compute, color=COMPUTE, height=0.7)
            host = (row.host_time or 0.0) / factor
            axes.barh(position, host, left=compute, color=HOST, height=0.7)
            axes.barh(position, exposed, left=compute + host, color=looks[outcome.settings.fabric].colour, height=0.7)
            price = "" if row.cost_usd is None else f"  (${row.cost_usd:,.0f})"
            memory = "" if outcome.fits else ", too little GPU memory"
            text = f" {row.iteration_time / factor:.4g} {unit}{price}{memory}"
            axes.text(row.iteration_time / factor, position, text, va="center", fontsize=8)
            ticks.append(position)
            labels.append(label)
        position += 1.6
    axes.set_yticks(ticks, labels)
    axes.set_ylim(position - 0.9, -0.7)
    axes.set_xlim(0, 1.4 * longest / factor or 1.0)
    axes.set_xlabel(f"time of one training step [{unit}] (shorter is better)")
    plain(axes)
