"""Networks of 100,000 servers whose switches forward by address: build, tables, memory, and random messages as packets.

    python benchmarks/packets/addressed.py [fabric=1] [messages=10000] [detours=0]

``fabric``: 1 dragonfly, 2 dragonfly_plus, 3 slim_fly, 4 hyperx (48 x 48 switches), 5 fat_tree. ``detours=1``: Valiant's
routing. Prints ``path.metric value``; MiB are the most that this process ever had.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import settings

from topoflow.demand import Demand
from topoflow.engine.base import Run
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.fabric.base import FabricDesign
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.dragonfly_plus import DragonflyPlus
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.hyperx import HyperX
from topoflow.fabric.slim_fly import SlimFly
from topoflow.traffic.base import Traffic, Transfer

SERVERS = 100_000
LINK = (12.5e9, 1, 150e-9)
DESIGNS: tuple[FabricDesign, ...] = (
    Dragonfly(*LINK, nodes=24, routers=48, groups=96, global_links=4),
    DragonflyPlus(*LINK),
    SlimFly(*LINK),
    HyperX(*LINK, servers_per_switch=48, dims=[48, 48]),
    FatTree(*LINK),
)


def memory() -> float:
    """MiB, the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(fabric: int, messages: int, detours: int) -> None:
    began = time.process_time()
    network = DESIGNS[fabric - 1].build(SERVERS, Demand(SERVERS))
    built = time.process_time()
    ends = np.random.Generator(np.random.Philox(key=[0, 0])).integers(SERVERS, size=(messages, 2)).tolist()
    traffic = Traffic.from_tasks("random", SERVERS, [Transfer(16384.0, *pair) for pair in ends])
    routing = "valiant_group" if detours else "minimal"
    world = place(traffic, network, name="random", routing=routing)
    placed, of_place = time.process_time(), memory()
    model = Packet(size=2048, buffer=28672, switch_latency=300e-9, credit_latency=300e-9)
    (timeline,) = model.simulate([world], Run(threads=1))
    simulated = time.process_time()
    tables, name = world.graph.next_hops, f"addressed.{network.name}"
    assert tables is not None
    assert timeline.ports is not None
    hops = int(timeline.ports.packets.sum())
    print(f"{name}.switches {len(network.nodes) - SERVERS}")
    print(f"{name}.links {network.links}")
    print(f"{name}.tables_mib {(tables.inside.nbytes + tables.outside.nbytes + tables.sets.links.nbytes) / 2**20:.1f}")
    print(f"{name}.build_seconds {built - began:.2f}")
    print(f"{name}.tables_and_place_seconds {placed - built:.2f}")
    print(f"{name}.{routing}.simulate_seconds {simulated - placed:.2f}")
    print(f"{name}.{routing}.packet_hops {hops}")
    print(f"{name}.{routing}.hops_per_packet {hops / (messages * 8):.3f}")
    print(f"{name}.{routing}.makespan {timeline.makespan:.6g}")
    print(f"{name}.place_memory_mib {of_place:.0f}")
    print(f"{name}.{routing}.memory_mib {memory():.0f}")


if __name__ == "__main__":
    main(**settings(sys.argv[1:], {"fabric": 1, "messages": 10_000, "detours": 0}))
