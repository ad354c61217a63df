"""Ports, virtual channels and queues that the packets of a graph cross, and the order in which they do.

A *port* is a link with the scheduler that sends on it. A *channel* is a part of the buffer at the end of a link:
packets of one virtual channel of the link lie there until the next port has sent them on. A *queue* is what waits in
one place of a channel: with virtual output queues there is one for each pair of a channel and the next one, without
them one FIFO for each channel. The last hop of a path has no channel: the receiver takes what arrives.

Packets of a message may take different paths (``LoweredGraph.alternatives``). What is left of a path after a hop is
shared by all paths that end so (``merge``): an *edge* is a step from a channel to the next port. Where several may be
next there is a *branch*, and a packet draws one; its first hop, a *root*, it draws at the NIC. With 16 paths a fat-tree
between two hosts has about as many edges for each target as there are links that lead there, not 16 paths per pair.

Ports, channels and queues are found in the order in which paths come upon them, so nothing depends on the numbers of
links; then they are numbered switch by switch (``parts``), the channels and queues of a port one after the other.

Virtual channels keep a lossless network free of deadlocks. A circle of full buffers, each waiting for the next, needs a
circle of links in which paths cross each link just before the next one. Links are put in an order, by a depth-first
search along the paths or by their last place on them; a packet changes to the next virtual channel wherever its path
goes against the order. So channels (virtual channel, order) only rise along every path, and there is no circle. A
fat-tree needs one channel, a ring and a dragonfly two.

Source: Dally and Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans.
Computers C-36(5), 1987 (channels that rise along a route, the two of a ring); virtual output queues: Tamir and Frazier,
"High-performance multi-queue buffers for VLSI communication switches", ISCA 1988.

Shapes: P paths, A alternatives of the paths that are taken, H hops of them, N ports, C channels, Q queues, Y roots, E
edges, B branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from topoflow.arrays import Ints, Mask, Offsets, distinct, offsets
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.base import LoweredGraph
from topoflow.engine.packet.merge import DRAWS, NONE, Bounds, Merged, TakenAlternatives, merge
from topoflow.engine.packet.parts import by_switch, switches


@dataclass(frozen=True)
class PortLayout:
    """Ports, channels and queues of one graph, and the steps between them.

    ``root_next`` and ``edge_next`` say what follows: an edge, ``NONE`` (the packet has arrived), or branch b as -2 - b.
    A packet that draws 32 bits takes the first root of its path, or edge of its branch, with a bound that is not less.
    """

    path_roots: Offsets  # [P+1] first root of each path; a path that no bytes take has none
    root_port: Ints  # [Y] the NIC's port
    root_channel: Ints  # [Y] where the packet lies after it; NONE: it has arrived
    root_next: Ints  # [Y]
    root_bound: Bounds  # [Y]
    root_source: Ints  # [Y] by address, the endpoint that sends; else 0
    edge_queue: Ints  # [E] where the packet waits for ``edge_port``
    edge_turn: Ints  # [E] place of that queue in the row of the port
    edge_port: Ints  # [E]
    edge_channel: Ints  # [E] where it lies afterwards; NONE: it has arrived
    edge_next: Ints  # [E]
    edge_bound: Bounds  # [E]
    branches: Offsets  # [B+1] first edge of each; edges that are in none come after them
    branch_stride: Ints  # [B] paths that lead to a branch, 0: its edges are not equally likely
    port_link: Ints  # [N]
    channel_port: Ints  # [C] the port that sends into it
    queue_channel: Ints  # [Q] the channel that it is a part of
    port_queues: Offsets  # [N+1] where the row of each port begins in ``queues``
    queues: Ints  # the queues that a port sends from
    path_channels: tuple[Offsets, Ints]  # [P+1] and the channels that packets of each path may cross, once each
    channels_needed: int  # virtual channels that exclude every deadlock
    node: Ints  # [N] the switch that each port is a part of, ascending
    first_seen: Ints  # [N] numbers of ports in the order in which paths come upon them

    @property
    def ports(self) -> int:
        return len(self.port_link)

    @property
    def channels(self) -> int:
        return len(self.channel_port)


class HopArrays(NamedTuple):
    """The port, channel and queue of each hop of the alternatives [H]."""

    port: Ints
    channel: Ints  # NONE: the last hop
    queue: Ints  # of that channel, in which the packet waits for the next hop; NONE: the last hop
    is_last: Mask


def lay_out(graph: LoweredGraph, virtual_channels: int | None, *, output_queues: bool) -> PortLayout:
    """Return the layout of the paths that bytes take.

    ``virtual_channels`` is the largest number of virtual channels of a link; None: as many as exclude every deadlock.
    A path that needs more stays in the last one.
    """
    rows, links = _taken(graph)
    hop_port, port_link = numbered(links)
    is_last = np.zeros(len(hop_port), np.bool_)
    is_last[rows.begin[1:] - 1] = True
    virtual = _virtual_channels(hop_port, rows.begin[:-1], is_last, len(port_link))
    needed = int(virtual[~is_last].max(initial=0)) + 1
    most = needed if virtual_channels is None else virtual_channels
    limited = np.minimum(virtual, most - 1)[~is_last]
    hop_channel = np.full(len(hop_port), NONE, np.int32)
    hop_channel[~is_last], key = numbered(hop_port[~is_last].astype(np.int64) * most + limited)
    hop_queue, queue_channel, port_queue = _queues(hop_port, hop_channel, is_last, output_queues)
    hops = HopArrays(hop_port, hop_channel, hop_queue, is_last)
    paths = len(graph.path_offsets) - 1
    port_queues = offsets(np.bincount(port_queue[0], minlength=len(port_link)))
    layout = PortLayout(
        **_steps(rows, hops, paths, port_queues, port_queue),
        port_link=port_link.astype(np.int32),
        channel_port=(key // most).astype(np.int32),
        queue_channel=queue_channel,
        port_queues=port_queues,
        queues=port_queue[1],
        path_channels=_crossed(rows, hop_channel, paths),
        channels_needed=needed,
        node=np.zeros(len(port_link), np.int32),
        first_seen=np.arange(len(port_link), dtype=np.int32),
    )
    is_first = np.zeros(len(hop_port), np.bool_)
    is_first[rows.begin[:-1]] = True
    return by_switch(layout, switches(hop_port, is_first, layout.ports))


def numbered(keys: Ints | Offsets) -> tuple[Ints, Offsets]:
    """The number of each key in the order of their first occurrence, and the keys in that order."""
    known, first, place = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(known), np.int32)
    rank[order] = np.arange(len(known), dtype=np.int32)
    return rank[place.reshape(-1)], known[order].astype(np.int64)


def _taken(graph: LoweredGraph) -> tuple[TakenAlternatives, Ints]:
    """The alternatives of the paths that bytes take, and the links of their hops [H]."""
    every = graph.alternatives or Alternatives.single(graph.path_offsets, graph.path_links)
    sent = np.zeros(len(graph.path_offsets) - 1, np.bool_)
    sent[graph.path[graph.bytes > 0]] = True
    sent &= np.diff(graph.path_offsets) > 0
    (paths,) = np.nonzero(sent)
    taken = every.taken(paths)
    return TakenAlternatives(np.repeat(paths, np.diff(taken.offsets)), taken.hop_offsets, taken.share), taken.links


def _steps(
    rows: TakenAlternatives, hops: HopArrays, paths: int, port_queues: Offsets, port_queue: Ints
) -> dict[str, Any]:
    """The fields of ``PortLayout`` of roots, edges and branches."""
    channel = hops.channel.astype(np.int64) + 1
    key = hops.port * (int(channel.max(initial=0)) + 1) + channel
    merged = merge(rows, key)
    hop = merged.edge_hop
    queue = hops.queue[hop - 1]
    port, many = hops.port[hop].astype(np.int64), len(port_queue[1]) + 1  # more than there are queues
    row = np.searchsorted(port_queue[0].astype(np.int64) * many + port_queue[1], port * many + queue)
    return {
        "path_roots": offsets(np.bincount(merged.root_path, minlength=paths)),
        "root_port": hops.port[merged.root_hop],
        "root_channel": hops.channel[merged.root_hop],
        "root_next": merged.root_next,
        "root_bound": merged.root_bound,
        "root_source": np.zeros(len(merged.root_hop), np.int32),
        "edge_queue": queue,
        "edge_turn": (row - port_queues[port]).astype(np.int32),
        "edge_port": hops.port[hop],
        "edge_channel": hops.channel[hop],
        "edge_next": merged.edge_next,
        "edge_bound": merged.edge_bound,
        "branches": merged.branches,
        "branch_stride": _strides(merged),
    }


def _strides(merged: Merged) -> Ints:
    """Return [B] the paths that lead from a root to each branch, 0 for a branch whose edges are not equally likely."""
    begin, edges = merged.branches, len(merged.edge_next)
    sizes = np.diff(begin)  # [B] edges of each branch
    branch = np.repeat(np.arange(len(sizes)), sizes)  # [of the first edges], those that are in a branch
    reached = np.zeros(len(sizes) + edges, np.int64)  # branches, then edges that are in none
    code, count = merged.root_next, np.ones(len(merged.root_next), np.int64)
    while (goes := code != NONE).any():
        target = np.where(code[goes] < NONE, -2 - code[goes], len(sizes) + code[goes])
        before = reached.copy()
        np.maximum.at(reached, target, count[goes])
        (new,) = np.nonzero(reached > before)
        inside = np.isin(branch, new)
        edge = np.concatenate([np.flatnonzero(inside), new[new >= len(sizes)] - len(sizes)])
        code = merged.edge_next[edge]
        after = np.minimum(reached[: len(sizes)] * sizes, 2**30)[branch[inside]]
        count = np.concatenate([after, reached[new[new >= len(sizes)]]])
    even = np.rint((np.arange(len(branch)) - begin[branch] + 1) * (DRAWS / sizes[branch])) - 1
    uneven = np.abs(merged.edge_bound[: len(branch)].astype(np.float64) - even) > 1
    stride = reached[: len(sizes)]
    stride[branch[uneven]] = 0
    return stride.astype(np.int32)


def _crossed(rows: TakenAlternatives, hop_channel: Ints, paths: int) -> tuple[Offsets, Ints]:
    """[P+1] and the channels that the alternatives of each path cross, each once."""
    (inside,) = np.nonzero(hop_channel != NONE)
    path = np.repeat(rows.path, np.diff(rows.begin))[inside]
    many = int(hop_channel.max(initial=0)) + 1
    once = distinct(path * many + hop_channel[inside])
    return offsets(np.bincount(once // many, minlength=paths)), (once % many).astype(np.int32)


def _queues(hop_port: Ints, hop_channel: Ints, is_last: Mask, output: bool) -> tuple[Ints, Ints, Ints]:
    """[H] the queue after every hop, [Q] the channel of each, and which [2, ...] port sends from which queue."""
    hop_queue = np.full(len(hop_port), NONE, np.int32)
    (here,) = np.nonzero(~is_last)
    base = len(hop_port) + 1  # more than there are channels
    following = np.where(hop_channel[here + 1] == NONE, base - 1, hop_channel[here + 1])
    target = hop_port[here + 1].astype(np.int64) * base + following  # two deliveries differ in their ports
    _, target = np.unique(target, return_inverse=True)
    channel = hop_channel[here].astype(np.int64)
    number, key = numbered(channel * base + target.reshape(-1) if output else channel)
    queue_channel = (key // base if output else key).astype(np.int32)
    if output:  # those of a port one after the other
        port = np.zeros(len(key), np.int64)
        port[number] = hop_port[here + 1]
        order = np.argsort(port, kind="stable")
        number, queue_channel = np.argsort(order).astype(np.int32)[number], queue_channel[order]
    hop_queue[here] = number
    sent = distinct(hop_port[here + 1].astype(np.int64) * (len(key) + 1) + number)
    return hop_queue, queue_channel, np.stack([sent // (len(key) + 1), sent % (len(key) + 1)]).astype(np.int32)


def _virtual_channels(hop_port: Ints, first: Offsets, is_last: Mask, ports: int) -> Ints:
    """Return [H] how often a path goes against the order of the ports, up to and with each hop, in the better order.

    The second is by the last place that a port has on any path: it gives minimal routes of a dragonfly two channels.
    """
    (hop,) = np.nonzero(~is_last)
    # The last hop of a path holds no buffer, so nothing can wait for it in a circle.
    hop = hop[~is_last[hop + 1]] if len(hop) else hop
    edges = distinct(hop_port[hop].astype(np.int64) * ports + hop_port[hop + 1]) if ports else hop
    place = np.zeros(ports, np.int64)
    np.maximum.at(
        place, hop_port, np.arange(len(hop_port)) - np.repeat(first, np.diff(np.append(first, len(hop_port))))
    )
    orders = _depth_first(edges // max(ports, 1), edges % max(ports, 1), ports), np.lexsort((np.arange(ports), place))
    falls = [_falls(hop_port, first, hop, order) for order in (orders[0], np.argsort(orders[1]))]
    return min(falls, key=lambda fall: int(fall[~is_last].max(initial=0)))


def _falls(hop_port: Ints, first: Offsets, here: Offsets, order: Offsets) -> Ints:
    """[H] how often a path has gone against ``order`` [N] up to and with each hop; ``here`` are hops before a hop."""
    falls = np.zeros(len(hop_port), np.int64)
    falls[here + 1] = order[hop_port[here + 1]] < order[hop_port[here]]
    total = np.cumsum(falls)
    begin = np.zeros(len(hop_port), np.int64)
    begin[first] = np.diff(total[first], prepend=0)
    result: Ints = (total - np.cumsum(begin)).astype(np.int32)
    return result


def _depth_first(source: Offsets, target: Offsets, ports: int) -> Offsets:
    """[N] reverse postorder of a depth-first search: every edge that is not part of a circle leads upwards."""
    begin = offsets(np.bincount(source, minlength=ports)).tolist()
    targets, order = target.tolist(), np.zeros(ports, np.int64)
    seen, number = [False] * ports, ports
    for root in range(ports):
        if seen[root]:
            continue
        seen[root] = True
        stack = [(root, begin[root])]
        while stack:
            port, edge = stack.pop()
            if edge == begin[port + 1]:
                number -= 1
                order[port] = number
                continue
            stack.append((port, edge + 1))
            if not seen[targets[edge]]:
                seen[targets[edge]] = True
                stack.append((targets[edge], begin[targets[edge]]))
    return order
