"""What a world of packets takes while it runs: bytes of a packet in a buffer, of a port with its virtual channel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from topoflow import _C
from topoflow.engine.base import World
from topoflow.engine.device import HOST_MEMORY
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.batch import pack
from topoflow.engine.packet.settings import numbers

CHAINS = 200  # so many that what a world takes once, and whole cache lines, do not matter
MakeWorld = Callable[..., World]


def chains(make_world: MakeWorld, hops: int) -> World:
    """One message of 64 packets on each of disjoint chains of links."""
    tasks = [{"path": list(range(hops * i, hops * (i + 1))), "bytes": 64 * 4096} for i in range(CHAINS)]
    return make_world(tasks, [12.5e9] * hops * CHAINS, [5e-7] * hops * CHAINS)


def taken(world: World, packets: int) -> tuple[int, int]:
    """B of state with buffers of this many packets, and the packets that all buffers hold."""
    model = Packet(buffer=4096 * packets)
    layout = layout_of(world.graph, model)
    amounts = numbers(world, layout, model)
    batch = pack([world], [layout], [amounts])
    state = _C.packets(batch.arrays, model.kernel(), HOST_MEMORY, 0, 1, 1)
    assert batch.arrays["status"].tolist() == [_C.DONE]
    return state, int(amounts.slots.sum())


@pytest.mark.parametrize("hops", [2, 5])
def test_a_packet_in_a_buffer_takes_64_bytes_at_most(make_world: MakeWorld, hops: int) -> None:
    world = chains(make_world, hops)
    (few, low), (many, high) = taken(world, 8), taken(world, 32)
    assert high - low == 24 * (hops - 1) * CHAINS
    assert (many - few) / (high - low) <= 64


def test_a_port_and_its_virtual_channel_take_300_bytes_at_most(make_world: MakeWorld) -> None:
    """With one queue, and the step from it, which every pair of an input and an output that packets take has; 44 of
    them are what it had counted at an earlier time."""
    (short, few), (long, more) = (taken(chains(make_world, hops), 8) for hops in (3, 8))
    packet = (taken(chains(make_world, 3), 32)[0] - short) / (24 * 2 * CHAINS)
    assert round((long - short - packet * (more - few)) / (5 * CHAINS)) <= 300
