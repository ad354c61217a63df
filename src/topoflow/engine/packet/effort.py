"""Packet-hops of a simulation, the time that they take, and the share of them that is done while it runs.

Shapes: T tasks, P paths.
"""

from __future__ import annotations

import numpy as np

from topoflow import _C
from topoflow.arrays import Floats, Offsets
from topoflow.engine.base import LoweredGraph
from topoflow.engine.packet.addresses import AddressedLayout, max_hops
from topoflow.engine.packet.layout import PortLayout

# Packet-hops per second of one core: the cases of benchmarks/results/packet.txt have 20 to 86 million.
RATE = 40e6
MIN_REPORTED_TIME = 2.0  # s
MAX_TIME = 30 * 86_400.0  # s; a longer simulation does not end before its machine does


def count_packets(bytes: Offsets, size: int, rounds: int) -> Floats:
    """Return the packets [T] of tasks that send ``bytes`` [T] in packets of ``size`` (B) in each of ``rounds``."""
    return np.ceil(bytes / size) * rounds


def packet_hops(graph: LoweredGraph, layout: PortLayout, packets: Floats) -> float:
    """Return the links that the ``packets`` [T] of all tasks cross; by address, the most that they may cross."""
    if isinstance(layout, AddressedLayout):
        return float(packets.sum()) * max_hops(layout.next_hops, layout.routing)
    sends = np.flatnonzero(packets)
    return float(packets[sends] @ _mean_hops(graph)[graph.path[sends]])


def notice(packet_hops: float, teams: int) -> str:
    """Return a line about a simulation that ``teams`` cores share; empty if it is short, or there is no world.

    Raises ``ValueError`` for one that takes longer than ``MAX_TIME``.
    """
    seconds = packet_hops / (RATE * max(teams, 1))
    if seconds > MAX_TIME:
        got = f"{packet_hops:.1e} packet-hops, about {_duration(seconds)}"
        raise ValueError(
            f"fidelity: must take at most {_duration(MAX_TIME)}, got packet with {got}; a larger packet.size takes less"
        )
    if seconds < MIN_REPORTED_TIME:
        return ""
    return f"packet simulation: {packet_hops:.1e} packet-hops, about {_duration(seconds)} (half to twice of it)"


def share_done(packets: Floats, finish: Offsets, delivered: int) -> float:
    """Return the share of ``packets`` [T] that have arrived in a world that runs.

    ``finish`` [T] ps of its tasks is 0 or ``NEVER`` until they have finished. ``delivered`` counts the packets that one
    of the threads of the world has delivered, also those of messages that have not ended.
    """
    finished = float(packets[(finish > 0) & (finish < _C.NEVER)].sum())
    return min(max(finished, delivered) / max(float(packets.sum()), 1.0), 1.0)


def _mean_hops(graph: LoweredGraph) -> Floats:
    """Return the mean number of links [P] of the alternatives of each path."""
    several = graph.alternatives
    if several is None:
        return np.diff(graph.path_offsets).astype(np.float64)
    path = np.repeat(np.arange(len(several.offsets) - 1), np.diff(several.offsets))
    links = several.share * np.diff(several.hop_offsets)
    return np.bincount(path, links, len(several.offsets) - 1).astype(np.float64)


def _duration(seconds: float) -> str:
    """Return a duration for a person: seconds up to two minutes, minutes up to two hours, then hours."""
    for limit, unit, length in ((120, "s", 1), (7200, "min", 60)):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 3600:.0f} h"
