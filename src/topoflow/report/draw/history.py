"""The picture of a search's progress."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from topoflow.report.draw.style import COLOURS, plain, scale
from topoflow.search.history import SearchHistory

BEST, CURRENT, SIMULATED, TOPOLOGY = COLOURS[0], COLOURS[5], COLOURS[1], COLOURS[2]
MAX_NUMBERED = 12  # rounds with their numbers above them; with more rounds no numbers are written
MAX_POINTS = 4000  # of a line, more than its pixels


def draw(history: SearchHistory, start: float) -> Figure:
    """Draw the times above, from that of the ``start`` (s) on, and the share of accepted proposals below."""
    figure = Figure(figsize=(9, 6.4 if len(history.steps) else 4.6), layout="constrained")
    simulated = [time for finished in history.rounds for time in (*finished.simulated, finished.time)]
    times = [start, *history.best, *history.current, *simulated]
    factor, unit = scale((time for time in times if np.isfinite(time)), "s")
    if len(history.steps):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        _draw_steps(above, history, factor)
        _draw_acceptance(below, history)
    else:
        above = below = figure.subplots()
        above.xaxis.set_major_locator(MaxNLocator(integer=True))
        above.set_xlim(-0.5, len(history.rounds) + 0.5)
    _draw_rounds(above, history, start, factor)
    above.set_ylabel(f"time of one training step [{unit}]")
    below.set_xlabel("proposals of all chains" if len(history.steps) else "rounds")
    if _spread(times) > 10:
        above.set_yscale("log")
    plain(above, "both")
    for axes in dict.fromkeys((above, below)):
        _draw_ends(axes, history, axes is above)
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles=handles, labels=labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle("How the search went")
    return figure


def _draw_steps(axes: Axes, history: SearchHistory, factor: float) -> None:
    """Draw lines that are interrupted between rounds, whose networks differ."""
    steps = len(history.steps)
    thin = np.unique(np.linspace(0, steps - 1, MAX_POINTS).astype(int))
    for number in np.unique(history.round):
        of_round = thin[history.round[thin] == number]
        at = history.proposals[of_round]
        axes.plot(at, history.current[of_round] / factor, color=CURRENT, linewidth=0.8, zorder=2)
        axes.step(at, history.best[of_round] / factor, where="post", color=BEST, linewidth=2, zorder=3)
    axes.plot([], [], color=CURRENT, linewidth=2, label="coldest chain (as screened)")
    axes.plot([], [], color=BEST, linewidth=2, label="best of the round (as screened)")


def _draw_rounds(axes: Axes, history: SearchHistory, start: float, factor: float) -> None:
    """Draw the simulated candidates at the end of each round, and the best so far, from the start on."""
    ends, rounds = history.ends, history.rounds
    at = [end for end, finished in zip(ends, rounds, strict=True) for _ in finished.simulated]
    simulated = [time / factor for finished in rounds for time in finished.simulated]
    axes.plot(at, simulated, linestyle="", marker="_", markersize=9, color=SIMULATED, zorder=4,
              label="simulated candidates")  # fmt: skip
    best = np.array([start, *(finished.time for finished in rounds)]) / factor
    axes.plot([0.0, *ends], best, linestyle="--", linewidth=1, marker="D", markersize=6,
              color=SIMULATED, markeredgecolor="white", zorder=5,
              label="start, and best so far (simulated)")  # fmt: skip
    for number, end in enumerate(ends[:MAX_NUMBERED] if len(ends) <= MAX_NUMBERED else [], start=1):
        axes.annotate(f"round {number}" if number == 1 else str(number), (end, 1), (0, 2), ha="center", va="bottom",
                      xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=8)  # fmt: skip


def _draw_ends(axes: Axes, history: SearchHistory, named: bool) -> None:
    """Draw a line at the end of every round, in another style where a new topology was taken."""
    for new, colour, line, label in (
        (True, TOPOLOGY, "-", "end of a round with a new topology"),
        (False, "#AAAAAA", ":", "end of a round that kept its topology"),
    ):
        ends = [end for end, finished in zip(history.ends, history.rounds, strict=True) if finished.new_topology == new]
        for number, end in enumerate(ends):
            axes.axvline(end, color=colour, linestyle=line, linewidth=1.5, zorder=1,
                         label=label if named and not number else None)  # fmt: skip


def _draw_acceptance(axes: Axes, history: SearchHistory) -> None:
    """Draw the mean over about a hundredth of the steps, since one step has few proposals."""
    width = max(1, len(history.steps) // 100)
    pieces = np.array_split(np.arange(len(history.steps)), -(-len(history.steps) // width))
    at = [float(history.proposals[piece].mean()) for piece in pieces]
    axes.plot(at, [100 * float(history.acceptance[piece].mean()) for piece in pieces], color=BEST, linewidth=1.5)
    axes.set_ylim(0, 100)
    axes.set_ylabel("accepted [%]")
    plain(axes, "both")


def _spread(times: list[float]) -> float:
    """Return the ratio of the largest and the smallest time."""
    positive = [time for time in times if np.isfinite(time) and time > 0]
    return max(positive) / min(positive) if positive else 1.0
