"""What packets of a graph cross: ports, virtual channels and queues, and which one follows which on every path.

A *port* is a link with the scheduler that sends on it. A *channel* is a part of the buffer at the end of a link:
packets of one virtual channel of the link lie there until the next port has sent them on. A *queue* is what waits in
one place of a channel: with virtual output queues there is one for each pair of a channel and the next one, without
them one FIFO for each channel. The last hop of a path has no channel: the receiver takes what arrives.

Everything is numbered in the order in which paths come upon it, so nothing depends on the numbers of links.

Virtual channels keep a lossless network free of deadlocks. A circle of full buffers, each waiting for the next, needs a
circle of links in which paths cross each link just before the next one. Links are ordered by a depth-first search along
the paths; a packet changes to the next virtual channel wherever its path goes against the order. So channels (virtual
channel, order) only rise along every path, and there is no circle. A fat-tree needs one channel, a ring two.

Source: Dally and Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans.
Computers C-36(5), 1987 (channels that rise along a route, the two of a ring); virtual output queues: Tamir and Frazier,
"High-performance multi-queue buffers for VLSI communication switches", ISCA 1988.

Shapes: P paths, H hops of the paths that are taken, N ports, C channels, Q queues.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Ints, Offsets, offsets
from topoflow.engine.base import Graph

NONE = -1


@dataclass(frozen=True)
class Layout:
    """Ports, channels and queues of one graph."""

    path_hops: Offsets  # [P+1] first hop of each path; a path that no bytes take has none
    hop_port: Ints  # [H]
    hop_channel: Ints  # [H] where the packet lies after the hop; NONE: it has arrived
    hop_queue: Ints  # [H] in which queue of that channel; NONE: it has arrived
    port_link: Ints  # [N]
    channel_port: Ints  # [C] the port that sends into it
    queue_channel: Ints  # [Q] the channel that it is a part of
    port_queues: Offsets  # [N+1] where the row of each port begins in ``queues``
    queues: Ints  # the queues that a port sends from, in the order of their numbers
    channels_needed: int  # virtual channels that exclude every deadlock

    @property
    def ports(self) -> int:
        return len(self.port_link)

    @property
    def channels(self) -> int:
        return len(self.channel_port)


def lay_out(graph: Graph, virtual_channels: int | None, *, output_queues: bool) -> Layout:
    """Of the paths that bytes take. ``virtual_channels`` None: as many as exclude every deadlock; else at most these.

    A path that needs more stays in the last one.
    """
    taken = np.zeros(len(graph.path_offsets) - 1, np.bool_)
    taken[graph.path[graph.bytes > 0]] = True
    count = np.where(taken, np.diff(graph.path_offsets), 0)
    path_hops = offsets(count)
    is_hop = np.repeat(taken, np.diff(graph.path_offsets))
    hop_port, port_link = numbered(graph.path_links[is_hop])
    is_last = np.zeros(len(hop_port), np.bool_)
    is_last[path_hops[1:][count > 0] - 1] = True
    virtual = _virtual_channels(hop_port, path_hops[:-1][count > 0], is_last, len(port_link))
    needed = int(virtual[~is_last].max(initial=0)) + 1
    most = needed if virtual_channels is None else virtual_channels
    kept = np.minimum(virtual, most - 1)[~is_last]
    hop_channel = np.full(len(hop_port), NONE, np.int32)
    hop_channel[~is_last], key = numbered(hop_port[~is_last].astype(np.int64) * most + kept)
    hop_queue, queue_channel, port_queue = _queues(hop_port, hop_channel, is_last, output_queues)
    return Layout(
        path_hops,
        hop_port,
        hop_channel,
        hop_queue,
        port_link.astype(np.int32),
        (key // most).astype(np.int32),
        queue_channel,
        offsets(np.bincount(port_queue[0], minlength=len(port_link))),
        port_queue[1],
        needed,
    )


def numbered(keys: Ints | Offsets) -> tuple[Ints, Offsets]:
    """The number of each key in the order of their first occurrence, and the keys in that order."""
    known, first, place = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(known), np.int32)
    rank[order] = np.arange(len(known), dtype=np.int32)
    return rank[place.reshape(-1)], known[order].astype(np.int64)


def _queues(hop_port: Ints, hop_channel: Ints, is_last: np.ndarray, output: bool) -> tuple[Ints, Ints, Offsets]:
    """[H] the queue after every hop, [Q] the channel of each, and which [2, ...] port sends from which queue."""
    hop_queue = np.full(len(hop_port), NONE, np.int32)
    (here,) = np.nonzero(~is_last)
    base = len(hop_port) + 1  # more than there are channels
    following = np.where(hop_channel[here + 1] == NONE, base - 1, hop_channel[here + 1])
    target = hop_port[here + 1].astype(np.int64) * base + following  # two deliveries differ in their ports
    _, target = np.unique(target, return_inverse=True)
    channel = hop_channel[here].astype(np.int64)
    number, key = numbered(channel * base + target.reshape(-1) if output else channel)
    hop_queue[here] = number
    queue_channel = (key // base if output else key).astype(np.int32)
    sent = np.unique(hop_port[here + 1].astype(np.int64) * (len(key) + 1) + number)
    return hop_queue, queue_channel, np.stack([sent // (len(key) + 1), sent % (len(key) + 1)]).astype(np.int32)


def _virtual_channels(hop_port: Ints, first: Offsets, is_last: np.ndarray, ports: int) -> Ints:
    """[H] how often a path has gone against the order of the ports, up to and with each hop."""
    (here,) = np.nonzero(~is_last)
    # The last hop of a path holds no buffer, so nothing can wait for it in a circle.
    here = here[~is_last[here + 1]] if len(here) else here
    edges = np.unique(hop_port[here].astype(np.int64) * ports + hop_port[here + 1]) if ports else here
    order = _depth_first(edges // max(ports, 1), edges % max(ports, 1), ports)
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
