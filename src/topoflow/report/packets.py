"""Statistics of packets and ports, a line for each packet-level world."""

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
LOSSES = ("packets lost", "packets marked (ECN)")  # shown if any port loses or marks some
LATENCIES = ("packet latency: mean", "median", "99 %", "longest", "message latency: mean", "median", "99 %", "longest")
ABOUT = (
    "Of the ports that sent anything, the mean share of the step in which one sends (active), in which packets wait "
    "and all of them for room in the next buffer (stalled), and the rest (idle). Medians and 99 % of "
    "latencies are those of ranges, at most a 16th too long and never too short. ports.parquet has every port, "
    "latencies.parquet how latencies are distributed."
)

MAX_QUEUES = 8  # of a world that are drawn
MAX_INTERVALS = 256  # of time that are drawn; with more, several are drawn as one

BUSY = 0.5  # of the step; if no port sends for longer, no single port limits
# Share of the step, our own choice. Bandwidth does not limit if ports send and stall, and a chain of messages is sent,
# for a smaller share. A larger value would be wrong, since messages also wait in NICs: with 0.2 of the step on the
# chain, twice the bandwidth saves 0.23 of sweep3d.
MIN_LIMITING_SHARE = 0.1
SAME_LOAD = 0.9  # ports that send for this share of the busiest port's time, or more, count as equally busy
MIN_REPORTED_STALL = 0.001  # of the step


def kinds(fabric: Fabric) -> dict[str, Mask]:
    """Return the links [L] of each kind, by name; a kind without links is left out."""
    from_server, to_server = fabric.source < fabric.servers, fabric.target < fabric.servers
    between = ~from_server & ~to_server
    links_of = {"from servers": from_server & ~to_server, "to servers": to_server & ~from_server}
    links_of |= {"between servers": from_server & to_server}
    route: object = fabric.route
    if isinstance(route, AddressedRoutes) and (hops := route.next_hops()).kinds:
        links_of |= {kind: between & (hops.level == level) for level, kind in hops.kinds.items()}
    else:
        links_of["between switches"] = between
    return {kind: links for kind, links in links_of.items() if links.any()}


def groups(fabric: Fabric) -> Ints:
    """Return [servers] the group of each server.

    It is the group of a fabric with routing by address, or else the servers below the same first switches. Servers that
    are wired to each other are a group each.
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
    return np.array([number.setdefault(tuple(sorted(switches)), len(number)) for switches in below], np.int32)


def group_completion(outcome: Result) -> tuple[Ints, Floats, Floats]:
    """Return the groups that received messages, and when (s) half of them and the last of them had arrived.

    All are empty for messages of many rounds, whose single arrivals are not known.
    """
    timeline = outcome.timeline
    graph, finish = timeline.world.graph, timeline.finish
    if graph.ends is None or graph.rounds > 1:
        return np.zeros(0, np.int32), np.zeros(0), np.zeros(0)
    arrived = (graph.bytes > 0) & np.isfinite(finish) & (graph.target >= 0)
    group, when = groups(outcome.fabric)[graph.target[arrived]], finish[arrived]
    order = np.lexsort((when, group))
    received, first, count = np.unique(group[order], return_index=True, return_counts=True)
    when = when[order]
    return received.astype(np.int32), when[first + (count - 1) // 2], when[first + count - 1]


class Depths(NamedTuple):
    """The depths of the queues of the fullest ports: the largest in each interval, from time 0."""

    names: tuple[str, ...]  # [K] names of ports
    interval: float  # s
    depth: Floats  # [K, I] B


def fullest_queues(outcome: Result) -> Depths | None:
    """Return the queues of up to ``MAX_QUEUES`` ports; None if nothing waited, or it was not recorded."""
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
    """Describe the ports that limit a world in a sentence or two; "" if it was not simulated packet by packet."""
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
        elif on_chain is not None and max(share[most], waits[worst], on_chain) < MIN_LIMITING_SHARE:
            text += ", so bandwidth is not what limits."
        else:
            text += "."
    else:
        kind, links = next((kind, links) for kind, links in kinds(outcome.fabric).items() if links[most])
        equally_busy = int((share[links] >= SAME_LOAD * share[most]).sum())
        text = f" On {name} the port from {outcome.fabric.link_name(most)} limits most:"
        text += f" it sends for {share[most]:.1%} of the step;"
        text += f" {equally_busy} of the {int(links.sum())} {kind} do so for {SAME_LOAD:.0%} of that or more."
    if waits[worst] >= MIN_REPORTED_STALL:
        text += f" Packets wait longest for room from {outcome.fabric.link_name(worst)}, {waits[worst]:.1%} of it."
    if _loses(outcome):
        text += f" Ports lost {ports.lost.sum():,} packets and marked {ports.marked.sum():,} (ECN)."
    return text


def share_on_chain(outcome: Result) -> float | None:
    """Return the share of the step in which links of senders or receivers carry the messages of the last chain.

    In the chain that ends last, each task waits for the previous one. A message shares links with those that are ready
    at the same time. Return None for messages of many rounds.
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
    """Return the titles of the cells of ``lines``."""
    return (*PORTS, *LOSSES * any(map(_loses, report.outcomes)), *LATENCIES)


def lines(report: Report) -> list[tuple[str, ...]]:
    """Return the cells of ``columns``, world by world."""
    loses = any(map(_loses, report.outcomes))
    return [_line(outcome, loses) for outcome in report.outcomes if outcome.timeline.ports is not None]


def _loses(outcome: Result) -> bool:
    """Return whether any port lost or marked a packet."""
    ports = outcome.timeline.ports
    return ports is not None and bool(ports.lost.any() or ports.marked.any())


def _line(outcome: Result, loses: bool) -> tuple[str, ...]:
    ports, step = outcome.timeline.ports, outcome.timeline.makespan or np.inf
    assert ports is not None, "the caller passes packet-level worlds only"
    sent = ports.packets > 0
    times = (ports.active, ports.stalled)
    active, stalled = (float(time[sent].mean()) / step if sent.any() else 0.0 for time in times)
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
