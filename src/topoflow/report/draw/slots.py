"""Pictures of networks of slots: queues over time, completion of messages, the schedule, refused packets.

Shapes: N nodes, E slots of an epoch, G groups of nodes.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from topoflow.case.base import Result
from topoflow.engine.base import Slots
from topoflow.fabric.circuits.on_demand import OnDemand
from topoflow.fabric.circuits.rotors import Rotating, Rotors
from topoflow.fabric.circuits.schedule import EMPTY, CircuitSchedule, Cyclic
from topoflow.report.base import Report
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import Bars, Lines, Samples, draw_bars, draw_cdf, draw_steps
from topoflow.report.draw.style import panels
from topoflow.units import human

MAX_PANELS = 6  # worlds that are drawn side by side
MAX_CURVES = 8  # worlds in one panel
LOG_RATIO = 10  # the axis is logarithmic if the fullest nodes of worlds differ by more than this factor
MAX_NODES = 32  # of a schedule that is drawn
MAX_NAMED = 16  # nodes whose squares have their numbers; with more nodes no square has one
NOTHING = "#F2F2F2"


def has_slots(report: Report) -> bool:
    return bool(_seen(report))


def has_messages(report: Report) -> bool:
    return any(completion(outcome) for outcome, _ in _seen(report))


def has_schedule(report: Report) -> bool:
    return bool(_schedules(report))


def has_refusals(report: Report) -> bool:
    return any(_refused(outcome) for outcome, _ in _seen(report))


def draw_waiting(report: Report) -> Figure:
    """Draw the cells that wait for slots over time: at all nodes together, and at the fullest node."""
    shown = _seen(report)[:MAX_CURVES]
    names = report.labels([outcome for outcome, _ in shown])
    most = [most for _, slots in shown if (most := slots.waiting[:, 1].max(initial=0.0)) > 0]
    log = max(most, default=0.0) > LOG_RATIO * min(most, default=0.0)
    empty = np.nan if log else 0.0
    parts: dict[str, Lines] = {
        part: {
            name: (slots.sampled, np.where(slots.waiting[:, column] > 0, slots.waiting[:, column], empty))
            for name, (_, slots) in zip(names, shown, strict=True)
        }
        for column, part in enumerate(("all nodes together", "the fullest node"))
    }
    fabrics = {name: outcome.settings.fabric for name, (outcome, _) in zip(names, shown, strict=True)}
    cells = Axis("waiting cells", "B", log=log)
    return draw_steps("What waits for a slot", parts, Axis("time", "s"), cells, fabrics)


def draw_completion(report: Report) -> Figure:
    """Draw a panel per world with a curve per size: from when a message was ready until its last cell arrived."""
    shown = [outcome for outcome, _ in _seen(report) if completion(outcome)][:MAX_PANELS]
    parts = {name: completion(outcome) for name, outcome in zip(report.labels(shown), shown, strict=True)}
    return draw_cdf("How long messages take", parts, Axis("completion of a message", "s", log=True), "messages")


def draw_schedule(report: Report) -> Figure:
    """Draw a panel per schedule: the target of each node in each slot, with a square per uplink."""
    shown = _schedules(report)
    figure = Figure(figsize=(max(6.0, 5.0 * min(len(shown), 2)), 4.6 * -(-len(shown) // 2)), layout="constrained")
    for axes, (schedule, name) in zip(panels(figure, len(shown), 2), shown.items(), strict=True):
        _draw_schedule(axes, schedule, name)
    figure.suptitle("Who sends to whom in each slot (grey: to nobody)")
    return figure


def draw_refused(report: Report) -> Figure:
    """Draw a panel per world with a bar per switch: refused packets, which were sent again."""
    shown = [outcome for outcome, _ in _seen(report) if _refused(outcome)][:MAX_PANELS]
    parts = {name: _refused(outcome) for name, outcome in zip(report.labels(shown), shown, strict=True)}
    return draw_bars("Packets that switches refused", parts, Axis("retransmissions"), "rack, or place in the racks")


def _seen(report: Report) -> list[tuple[Result, Slots]]:
    """Return the worlds that were simulated slot by slot, with their statistics."""
    shown = report.representatives(MAX_CURVES)
    return [(outcome, outcome.timeline.slots) for outcome in shown if outcome.timeline.slots is not None]


def completion(outcome: Result) -> Samples:
    """Return the times (s) of the messages of each size, by powers of ten; {} if the rounds of a job are not listed."""
    timeline = outcome.timeline
    if timeline.world.graph.rounds > 1:
        return {}
    size, took = timeline.world.graph.bytes, timeline.finish - timeline.start
    arrived = (size > 0) & np.isfinite(took) & (took > 0)
    size, took = size[arrived], took[arrived]
    power = np.floor(np.log10(np.maximum(size, 1.0))).astype(int)
    return {
        f"{human(10.0**exponent, 'B')} to {human(10.0 ** (exponent + 1), 'B')}": took[power == exponent]
        for exponent in np.unique(power).tolist()
    }


def _schedules(report: Report) -> dict[CircuitSchedule | Rotors, str]:
    """Return small distinct schedules, each with the name of the first world that follows it."""
    schedules: dict[CircuitSchedule | Rotors, str] = {}
    outcomes = [outcome for outcome, _ in _seen(report)]
    for name, outcome in zip(report.labels(outcomes), outcomes, strict=True):
        control = outcome.fabric.control
        if not isinstance(control, Cyclic | Rotating) or len(schedules) == MAX_PANELS:
            continue
        if control.schedule.nodes <= MAX_NODES:
            schedules.setdefault(control.schedule, name)
    return schedules


def _draw_schedule(axes: Axes, schedule: CircuitSchedule | Rotors, name: str) -> None:
    columns = [
        (slot, uplink) for slot in range(schedule.cycle) for uplink in range(schedule.links)
    ]  # fewer than 2 MAX_NODES, or for staggered rotors that times their switches
    to = np.array([[schedule.target(node, uplink, slot) for slot, uplink in columns] for node in range(schedule.nodes)])
    colours = colormaps["viridis"].with_extremes(bad=NOTHING)
    axes.imshow(np.ma.masked_equal(to, EMPTY), cmap=colours, aspect="auto", interpolation="nearest", vmin=0)
    if schedule.nodes <= MAX_NAMED and len(columns) <= 2 * MAX_NAMED:
        for (node, column), target in np.ndenumerate(to):
            if target != EMPTY:
                light = target < schedule.nodes / 2
                axes.text(column, node, str(target), ha="center", va="center", fontsize=6, color="w" if light else "k")
    for slot in range(1, schedule.cycle):
        axes.axvline(slot * schedule.links - 0.5, color="white", linewidth=2)
    slots = range(schedule.cycle)
    axes.set_xticks([(slot + 0.5) * schedule.links - 0.5 for slot in slots], [str(slot) for slot in slots])
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=7)
    axes.set_xlabel(f"slot of a cycle, in each of them {schedule.links} uplinks")
    axes.set_ylabel("node that sends")
    axes.set_title(name, fontsize=9)


def _refused(outcome: Result) -> Bars:
    """Return the refused packets of the switches of racks, and of those between racks."""
    control, slots = outcome.fabric.control, outcome.timeline.slots
    if slots is None or not isinstance(control, OnDemand) or not slots.refused.any():
        return {}
    square = control.schedule
    nodes = slots.refused.reshape(square.racks, square.servers_per_rack, 2)
    sums = {"within a rack": nodes[:, :, 0].sum(axis=1), "between racks": nodes[:, :, 1].sum(axis=0)}
    return {name: {str(switch): float(count) for switch, count in enumerate(counts)} for name, counts in sums.items()}
