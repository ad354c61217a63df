"""Ports numbered switch by switch, so that each part of a world has a range of them (``csrc/packet/part.h``).

    hops        a -> b -> c of paths: b begins where a ends, so what begins at one switch is known without its name
    a switch    the ports that begin there; the port of a NIC belongs to the switch that it leads to
    order       each level of switches (hops from the NIC) is spread evenly over all numbers, in the order in which
                paths come upon them: where numbers are cut in two, so is every level, and pods stay whole

       leaf 0, leaf 1, spine 0 | leaf 2, leaf 3, spine 1      two parts, 4 leaves, 2 spines

Nothing but the numbers changes: the order of a port's queues, and what packets draw, are as before.

Shapes: N ports, C channels, Q queues, H hops of all alternatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from topoflow.arrays import Ints, Mask, Offsets, rows_of

if TYPE_CHECKING:
    from topoflow.engine.packet.layout import PortLayout


class Numbering(NamedTuple):
    """New numbers of ports and channels, and which of them each new number was."""

    port: Ints  # [N] new number of each
    port_order: Offsets  # [N]
    channel: Ints  # [C]
    channel_order: Offsets  # [C]


def switches(hop_port: Ints, is_first: Mask, ports: int) -> Offsets:
    """Return [N] the switch that each port is a part of, numbered in the order in which parts have them.

    ``hop_port`` [H] are the ports of all paths, one after the other; ``is_first`` [H] where a path begins.
    """
    (after,) = np.nonzero(~is_first)
    begin, end = np.arange(ports), ports + np.arange(ports)
    vertex = connected(end[hop_port[after - 1]], begin[hop_port[after]], 2 * ports)
    reached = np.zeros(2 * ports, np.bool_)  # vertices where a port ends
    reached[vertex[end]] = True
    left = np.zeros(2 * ports, np.bool_)  # and where one begins
    left[vertex[begin]] = True
    enters = ~reached[vertex[begin]] & left[vertex[end]]  # ports of NICs
    switch = np.where(enters, vertex[end], vertex[begin])
    place = np.arange(len(hop_port)) - np.maximum.accumulate(np.where(is_first, np.arange(len(hop_port)), 0))
    level, seen = np.full(2 * ports, len(hop_port) + 1), np.full(2 * ports, ports)
    at_switch = ~enters[hop_port]
    np.minimum.at(level, switch[hop_port[at_switch]], place[at_switch])
    np.minimum.at(seen, switch, np.arange(ports))
    (known,) = np.nonzero(seen < ports)
    known = known[np.lexsort((seen[known], level[known]))]
    first = np.searchsorted(level[known], level[known])
    share = (np.arange(len(known)) - first + 0.5) / np.bincount(level[known])[level[known]]
    number = np.zeros(2 * ports, np.int64)
    number[known[np.lexsort((level[known], share))]] = np.arange(len(known))
    port_switch: Offsets = number[switch]
    return port_switch


def connected(first: Offsets, second: Offsets, count: int) -> Offsets:
    """Return [count] the least vertex of each vertex's component, of edges between ``first`` and ``second``."""
    root = np.arange(count)
    while True:
        least = root.copy()
        low = np.minimum(root[first], root[second])
        np.minimum.at(least, root[first], low)
        np.minimum.at(least, root[second], low)
        while (shorter := least[least]).tobytes() != least.tobytes():
            least = shorter
        merged: Offsets = least[root]
        if (merged == root).all():
            return merged
        root = merged


def by_switch(layout: PortLayout, node: Offsets) -> PortLayout:
    """The same with ports in the order of their switches ``node`` [N], then in that of their numbers."""
    port, port_order, channel, channel_order = numbering_of(layout.channel_port, node)
    begin, rows = rows_of(layout.port_queues, port_order)
    queues = layout.queues[rows]
    queue = _queue_numbers(layout, queues)
    old = np.argsort(queue)
    return replace(
        layout,
        root_port=port[layout.root_port],
        root_channel=renamed(channel, layout.root_channel),
        edge_queue=queue[layout.edge_queue],
        edge_port=port[layout.edge_port],
        edge_channel=renamed(channel, layout.edge_channel),
        port_link=layout.port_link[port_order],
        channel_port=port[layout.channel_port[channel_order]],
        queue_channel=channel[layout.queue_channel[old]],
        port_queues=begin,
        queues=queue[queues],
        path_channels=(layout.path_channels[0], channel[layout.path_channels[1]]),
        node=node[port_order].astype(np.int32),
        first_seen=port_order.astype(np.int32),
    )


def numbering_of(channel_port: Ints, node: Offsets | Ints) -> Numbering:
    """Return the numbering of ports on switches ``node`` [N], and of channels of ports ``channel_port`` [C]."""
    port_order = np.argsort(node, kind="stable")
    port = _inverse(port_order)
    channel_order = np.argsort(port[channel_port], kind="stable")
    return Numbering(port, port_order, _inverse(channel_order), channel_order)


def _queue_numbers(layout: PortLayout, queues: Ints) -> Ints:
    """[Q] new numbers: those of a port one after the other where each has its own, else as before."""
    count = len(layout.queue_channel)
    if len(queues) != count:
        return np.arange(count, dtype=np.int32)
    return _inverse(queues)


def _inverse(order: Ints | Offsets) -> Ints:
    inverse = np.empty(len(order), np.int32)
    inverse[order] = np.arange(len(order), dtype=np.int32)
    return inverse


def renamed(number: Ints, items: Ints) -> Ints:
    """Return the new numbers of items; values below 0 are no items, and stay."""
    numbers: Ints = np.where(items < 0, items, number[items]) if len(number) else items
    return numbers
