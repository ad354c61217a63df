"""What packets and ports saw, a line for each world that was simulated packet by packet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoflow.arrays import Floats, Ints, Mask
from topoflow.case.base import Result
from topoflow.engine.base import Histogram
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.next_hops import AddressedRoutes
from topoflow.report.base import Report
from topoflow.units import human

PORTS = ("world", "ports active", "stalled", "idle", "most stalled port", "fullest buffer")
LOSSES = ("packets lost", "packets marked (ECN)")  # where any port loses or marks some
LATENCIES = ("packet latency: mean", "median", "99 %", "longest", "message latency: mean", "median", "99 %", "longest")
ABOUT = (
    "Of the ports that sent anything, the mean share of the step in which one sends (active), in which packets wait "
    "and all of them for room in the next buffer (stalled), and the rest (idle). Medians and 99 % of "
    "latencies are those of ranges, at most a 16th too long and never too short. ports.parquet has every port, "
    "latencies.parquet how latencies are distributed."
)

MAX_QUEUES = 8  # of a world that are drawn
MAX_INTERVALS = 256  # of time that are drawn; where there are more, one is several of them

BUSY = 0.5  # of the step; where no port sends for longer, no single one limits
# Of the step, ours. Bandwidth does not limit where ports send and stall, and a chain of messages is sent, for less. Not
# more, as messages also wait in NICs: with 0.2 of the step on the chain, twice the bandwidth saves 0.23 of sweep3d.
LITTLE = 0.1
AS_BUSY = 0.9  # of what the busiest port sends
SHOWN = 0.001  # of the step; shorter stalls are not reported


def kinds(fabric: Fabric) -> dict[str, Mask]:
    """[L] which links join what, by name; a kind without links is left out."""
    from_server, to_server = fabric.source < fabric.servers, fabric.target < fabric.servers
    between = ~from_server & ~to_server
    found = {"from servers": from_server & ~to_server, "to servers": to_server & ~from_server}
    found |= {"between servers": from_server & to_server}
    route: object = fabric.route
    if isinstance(route, AddressedRoutes) and (hops := route.next_hops()).kinds:
        found |= {kind: between & (hops.level == level) for level, kind in hops.kinds.items()}
    else:
        found["between switches"] = between
    return {kind: of for kind, of in found.items() if of.any()}


def groups(fabric: Fabric) -> Ints:
    """[servers] the group of each: of a fabric by address its own, else servers below the same first switches.

    Where servers are wired to each other, each is a group.
    """
    route: object = fabric.route
    if isinstance(route, AddressedRoutes):
        hops = route.next_hops()
        return (hops.router // hops.routers_per_group).astype(np.int32)
    if not fabric.has_switches:
        return np.arange(fabric.servers, dtype=np.int32)
    first = (fabric.source < fabric.servers) & (fabric.target >= fabric.servers)
    below: list[list[int]] = [[] for _ in range(fabric.servers)]
    for server, switch in zip(fabric.source[first].tolist(), fabric.target[first].tolist(), strict=True):
        below[server].append(switch)
    number: dict[tuple[int, ...], int] = {}
    return np.array([number.setdefault(tuple(sorted(each)), len(number)) for each in below], np.int32)


def group_completion(outcome: Result) -> tuple[Ints, Floats, Floats]:
    """Groups that messages came to, and s when half of those and when the last of those had arrived.

    None for messages of many rounds, as it is not known when half of them had.
    """
    timeline = outcome.timeline
    graph, finish = timeline.world.graph, timeline.finish
    if graph.ends is None or graph.rounds > 1:
        return np.zeros(0, np.int32), np.zeros(0), np.zeros(0)
    arrived = (graph.bytes > 0) & np.isfinite(finish) & (graph.target >= 0)
    group, when = groups(outcome.fabric)[graph.target[arrived]], finish[arrived]
    order = np.lexsort((when, group))
    found, first, count = np.unique(group[order], return_index=True, return_counts=True)
    when = when[order]
    return found.astype(np.int32), when[first + (count - 1) // 2], when[first + count - 1]


class Depths(NamedTuple):
    """How deep the queues of the fullest ports were: the most in each interval, the first of which begins at 0."""

    names: tuple[str, ...]  # [K] of ports
    interval: float  # s
    depth: Floats  # [K, I] B


def fullest_queues(outcome: Result) -> Depths | None:
    """Those of up to ``MAX_QUEUES`` ports; None: nothing waited, or it was not written down."""
    ports = outcome.timeline.ports
    if ports is None or ports.queues is None or not len(ports.queues.link):
        return None
    queues = ports.queues
    depth = queues.depth[:MAX_QUEUES]
    together = -(-depth.shape[1] // MAX_INTERVALS)
    most = np.maximum.reduceat(depth, np.arange(0, depth.shape[1], together), axis=1)
    names = tuple(outcome.fabric.link_name(link) for link in queues.link[:MAX_QUEUES].tolist())
    return Depths(names, together * queues.interval, most)


def bottleneck(outcome: Result, name: str) -> str:
    """Which ports limit it, in a sentence or two; nothing of a world that was not simulated packet by packet."""
    ports, step = outcome.timeline.ports, outcome.timeline.makespan
    if ports is None or not ports.active.any():
        return ""
    share, waits = ports.active / step, ports.stalled / step
    most, worst = int(np.argmax(share)), int(np.argmax(waits))
    if share[most] < BUSY:
        text = f" On {name} no port sends for more than {share[most]:.1%} of the step"
        on_chain = share_on_chain(outcome)
        if on_chain is not None and on_chain >= BUSY:
            text += f", but messages that wait for each other are sent for {on_chain:.1%} of it: bandwidth limits."
        elif on_chain is not None and max(share[most], waits[worst], on_chain) < LITTLE:
            text += ", so bandwidth is not what limits."
        else:
            text += "."
    else:
        kind, of = next((kind, of) for kind, of in kinds(outcome.fabric).items() if of[most])
        alike = int((share[of] >= AS_BUSY * share[most]).sum())
        text = f" On {name} the port from {outcome.fabric.link_name(most)} limits most:"
        text += f" it sends for {share[most]:.1%} of the step;"
        text += f" {alike} of the {int(of.sum())} {kind} do so for {AS_BUSY:.0%} of that or more."
    if waits[worst] >= SHOWN:
        text += f" Packets wait longest for room from {outcome.fabric.link_name(worst)}, {waits[worst]:.1%} of it."
    if _loses(outcome):
        text += f" Ports lost {ports.lost.sum():,} packets and marked {ports.marked.sum():,} (ECN)."
    return text


def share_on_chain(outcome: Result) -> float | None:
    """Share of the step in which messages of one chain are sent by their senders' links, or received by their targets'.

    It is the chain that ends last, in which each task waits for the one before. A message shares links with those that
    are ready at the same time. None for messages of many rounds.
    """
    timeline, fabric = outcome.timeline, outcome.fabric
    graph, finish = timeline.world.graph, np.nan_to_num(timeline.finish, nan=-1.0, posinf=-1.0)
    if graph.ends is None or graph.rounds > 1:
        return None
    (sent,) = np.nonzero((graph.bytes > 0) & (graph.source != graph.target))
    seconds = np.zeros(graph.tasks)
    for ends, server in ((fabric.source, graph.source[sent]), (fabric.target, graph.target[sent])):
        speed = np.bincount(ends, timeline.world.capacity, len(fabric.nodes))
        ready = np.stack([server, timeline.start[sent]])
        _, together = np.unique(ready, axis=1, return_inverse=True)
        bytes = np.bincount(together.ravel(), graph.bytes[sent])[together.ravel()]
        seconds[sent] = np.maximum(seconds[sent], bytes / speed[server])
    total, task = 0.0, int(np.argmax(finish))
    while True:
        total += float(seconds[task])
        before = graph.after[graph.after_offsets[task] : graph.after_offsets[task + 1]]
        if not len(before):
            return min(total / timeline.makespan, 1.0)
        task = int(before[np.argmax(finish[before])])


def columns(report: Report) -> tuple[str, ...]:
    """Titles of the cells of ``lines``."""
    return (*PORTS, *LOSSES * any(map(_loses, report.outcomes)), *LATENCIES)


def lines(report: Report) -> list[tuple[str, ...]]:
    """The cells of ``columns``, world by world."""
    loses = any(map(_loses, report.outcomes))
    return [_line(outcome, loses) for outcome in report.outcomes if outcome.timeline.ports is not None]


def _loses(outcome: Result) -> bool:
    """Whether any port lost or marked a packet."""
    ports = outcome.timeline.ports
    return ports is not None and bool(ports.lost.any() or ports.marked.any())


def _line(outcome: Result, loses: bool) -> tuple[str, ...]:
    ports, step = outcome.timeline.ports, outcome.timeline.makespan or np.inf
    assert ports is not None, "the caller asks for worlds with packets only"
    sent = ports.packets > 0
    active, stalled = (float(each[sent].mean()) / step if sent.any() else 0.0 for each in (ports.active, ports.stalled))
    worst = int(np.argmax(ports.stalled)) if ports.stalled.any() else None
    return (
        outcome.settings.world,
        *(f"{share:.1%}" for share in (active, stalled, max(1 - active - stalled, 0.0))),
        "-" if worst is None else f"{outcome.fabric.link_name(worst)} ({ports.stalled[worst] / step:.1%})",
        human(float(ports.fullest.max(initial=0.0)), "B"),
        *(f"{number.sum():,}" for number in (ports.lost, ports.marked) if loses),
        *_latency(ports.latency),
        *_latency(ports.message_latency),
    )


def _latency(latency: Histogram) -> tuple[str, ...]:
    values = latency.mean, latency.quantile(0.5), latency.quantile(0.99), latency.largest
    return tuple(human(value, "s") for value in values)
