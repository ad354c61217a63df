"""Ports and channels where routers forward by address: every link of the network has a port, used or not.

A link up has one channel; a link between routers has as many as routes need; a link down has none, as its endpoint
takes what arrives. The queues of a port are those of all channels that end at its router, so there is no table of
queues: queue ``place[c]`` of port p holds what is in channel c and leaves by p. The channel that a packet takes next is
one higher wherever the level of its links does not rise (``csrc/packet/routing/addresses.h``), so that channels form no
circle.
Ports are numbered router by router (``parts``).

Shapes: P paths, L links = N ports, C channels, E endpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from topoflow.arrays import Ints, Offsets, offsets
from topoflow.engine.base import LoweredGraph
from topoflow.engine.packet.layout import PortLayout
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.parts import numbering_of, renamed
from topoflow.fabric.groups import WIRINGS
from topoflow.fabric.routing.next_hops import DOWN, GLOBAL, NO_SETS, UP, LinkSets, NextHops, virtual_channels

MINIMAL = "minimal"
VALIANT = "valiant_group"
ROUTINGS = (MINIMAL, VALIANT, "adaptive_local", "ugal")
MODES = {routing: number for number, routing in enumerate(ROUTINGS, start=1)}  # ``Routing`` of csrc/packet/state.h
ADAPTIVE = ("adaptive_local", "ugal")  # a router decides about a packet when it comes
BY_PATHS = 0
MAX_CABLES = 256  # between two groups (csrc/packet/routing/addresses.h)


def channels_of(hops: NextHops, routing: str) -> int:
    """Virtual channels that exclude deadlocks."""
    return virtual_channels(hops.levels.longest(routing != MINIMAL))


def max_hops(hops: NextHops, routing: str) -> int:
    """Links of a route at most, with those up and down."""
    return len(hops.levels.longest(routing != MINIMAL)) + 2


class AddressTables(NamedTuple):
    """Arrays of a world as the kernel reads them; empty where packets follow paths."""

    endpoint_router: Ints  # [E] router of an endpoint
    down: Ints  # [E]
    inside: Ints  # [R, A]
    outside: Ints  # [R, G, S]
    router_group: Ints  # [R]
    set_links: Ints  # [M]
    end: Ints  # [N] router where a link ends
    level: Ints  # [N]
    first_channel: Ints  # [N]
    place: Ints  # [C] of a channel among those that end at the same router


@dataclass(frozen=True)
class AddressedLayout(PortLayout):
    """Ports, channels and queues of a network whose routers have tables. ``queues`` and ``queue_channel`` are empty."""

    routing: str
    next_hops: NextHops  # of ports in place of links
    tables: AddressTables


def lay_out_addresses(graph: LoweredGraph, hops: NextHops, routing: str, channels: int | None) -> AddressedLayout:
    """Raises ``ValueError`` for fewer virtual channels than the routing needs, and for too many cables."""
    needed = channels_of(hops, routing)
    if channels is not None and channels < needed:
        requirement = f"must be at least {needed} with routing={routing}"
        raise ValueError(f"packet.virtual_channels: {requirement}, got {channels}")
    if hops.cables > MAX_CABLES:
        raise ValueError(f"fabric.global_links: must be at most {MAX_CABLES} with routing={routing}, got {hops.cables}")
    node = np.where(hops.source >= 0, hops.source, hops.target)
    of_link = np.repeat(np.arange(len(node), dtype=np.int32), _channels(hops, needed))
    number, port_link, _, channel_order = numbering_of(of_link, node)
    place = _places(hops.target[of_link])[channel_order]  # in the order of links, whatever the order of ports
    hops = _by_ports(hops, number, port_link)
    count = _channels(hops, needed)
    begin = offsets(count)
    port = np.repeat(np.arange(len(node), dtype=np.int32), count)
    ending = np.bincount(hops.target[port], minlength=hops.routers)  # channels at each router
    rows = np.where(hops.source >= 0, ending[hops.source], 0)
    paths = len(graph.path_offsets) - 1
    first, last = (number[link] for link in _ends(graph))
    nothing, none = np.zeros(0, np.int32), np.zeros(0, np.uint32)
    return AddressedLayout(
        path_roots=np.arange(paths + 1),
        root_port=first,
        root_channel=begin[first].astype(np.int32),
        root_next=_endpoint(hops.down, hops)[last],
        root_bound=np.full(paths, 2**32 - 1, np.uint32),
        root_source=_endpoint(hops.up, hops)[first],
        **dict.fromkeys(("edge_queue", "edge_turn", "edge_port", "edge_channel", "edge_next"), nothing),
        edge_bound=none,
        branches=np.zeros(1, np.int64),
        branch_stride=nothing,
        port_link=port_link.astype(np.int32),
        channel_port=port,
        queue_channel=nothing,
        port_queues=offsets(rows),
        queues=nothing,
        path_channels=(np.zeros(paths + 1, np.int64), nothing),
        channels_needed=needed,
        node=node[port_link].astype(np.int32),
        first_seen=port_link.astype(np.int32),
        routing=routing,
        next_hops=hops,
        tables=AddressTables(
            hops.router,
            hops.down,
            hops.inside.ravel(),
            hops.outside.ravel(),
            hops.group,
            hops.sets.links,
            hops.target,
            hops.level.astype(np.int32),
            np.where(count > 0, begin[:-1], NONE).astype(np.int32),
            place,
        ),
    )


def _channels(hops: NextHops, needed: int) -> Ints:
    """Return [L] the number of virtual channels of each link."""
    channels: Ints = np.select([hops.level == UP, hops.level == DOWN], [1, 0], needed).astype(np.int32)
    return channels


def by_ports_of_routers(layout: AddressedLayout) -> AddressedLayout:
    """Return a dragonfly whose ``first_seen`` is the order of the routers' ports where links end, not that of links.

    Of a router these are the ports of its endpoints, those of its group in the order of its routers, and those between
    groups in the order of the wiring. Source: SST 16, merlin's pymerlin-topo-dragonfly.py numbers ports so.
    """
    hops = layout.next_hops
    level, place = hops.level.astype(np.int64), layout.port_link.astype(np.int64)
    router, other, turn = np.nonzero((hops.outside >= 0) & (level[hops.outside] == GLOBAL))
    group = router // hops.routers_per_group
    place[hops.outside[router, other, turn]] = WIRINGS[hops.wiring](other, group, turn, hops.groups)
    first_seen = np.empty(len(place), np.int32)
    first_seen[np.lexsort((place, level))] = np.arange(len(place))
    return replace(layout, first_seen=first_seen)


def _by_ports(hops: NextHops, number: Ints, order: Offsets) -> NextHops:
    """The tables with ports ``number`` [L] in place of links; ``order`` [N] is the link of each port."""
    return replace(
        hops,
        up=renamed(number, hops.up),
        down=renamed(number, hops.down),
        inside=renamed(number, hops.inside),
        outside=renamed(number, hops.outside),
        sets=hops.sets._replace(links=renamed(number, hops.sets.links)),
        source=hops.source[order],
        target=hops.target[order],
        level=hops.level[order],
    )


def tables_of(layout: PortLayout) -> AddressTables:
    """Return the tables of routers; those of a layout by paths are empty."""
    if isinstance(layout, AddressedLayout):
        return layout.tables
    nothing = np.zeros(0, np.int32)
    ports, channels = np.zeros(layout.ports, np.int32), np.zeros(layout.channels, np.int32)
    return AddressTables(nothing, nothing, nothing, nothing, nothing, nothing, ports, ports, ports, channels)


def sets_of(layout: PortLayout) -> LinkSets:
    """Return the sets of links by which routers forward; a layout by paths has none."""
    return layout.next_hops.sets if isinstance(layout, AddressedLayout) else NO_SETS


def sizes_of(layout: PortLayout) -> dict[str, int]:
    """Return the routing of a world, and the sizes of its tables."""
    if not isinstance(layout, AddressedLayout):
        return {"routing": BY_PATHS, "hops": 0, "groups": 0, "routers": 0, "cables": 0}
    hops = layout.next_hops
    return {
        "routing": MODES[layout.routing],
        "hops": max_hops(layout.next_hops, layout.routing),
        "groups": hops.groups,
        "routers": hops.routers_per_group,
        "cables": hops.cables,
    }


def most_slots(layout: AddressedLayout, packets: int, room: Offsets) -> int:
    """Slots that all channels together can need: ``room`` [C] are the packets that fit into each.

    A packet is in one channel, and each that it has left waits for one credit of it.
    """
    return int(min(room.sum(), packets * max_hops(layout.next_hops, layout.routing), 2**31 - 1))


def _ends(graph: LoweredGraph) -> tuple[Ints, Ints]:
    """[P] the first and the last link of each path."""
    hops = np.diff(graph.path_offsets)
    assert (hops == 2).all(), "a path by address has its first and its last link"
    ends = graph.path_links.reshape(-1, 2)
    return ends[:, 0].astype(np.int32), ends[:, 1].astype(np.int32)


def _endpoint(links: Ints, hops: NextHops) -> Ints:
    """[L] the endpoint of each of its ``links`` [E] up or down, NONE for others."""
    endpoint = np.full(len(hops.level), NONE, np.int32)
    endpoint[links] = np.arange(len(links), dtype=np.int32)
    return endpoint


def _places(owner: Ints) -> Ints:
    """[C] the number of each among those before it with the same owner."""
    order = np.argsort(owner, kind="stable")
    begin = np.searchsorted(owner[order], owner[order])
    place = np.empty(len(owner), np.int32)
    place[order] = np.arange(len(owner)) - begin
    return place
