"""How many instructions the packet kernel takes, which says on a busy machine whether a change made it slower.

    python benchmarks/packets/packet_instructions.py              all cases, about five minutes
    python benchmarks/packets/packet_instructions.py ring ndp

Needs valgrind: each case is one run of ``topoflow::cpu::packets`` with one thread, under callgrind. Prints
``case.instructions value`` and ``case.packet_hops value``. The cases are small worlds like those of ``packet.py``, one
for each feature of the kernel: a leaf-spine, a ring, all-to-all on a k = 4 fat-tree with each option, and AllPingPong
on a dragonfly of 128 hosts with each routing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from packet import LINK, MODEL, SEED, TAPERED, leaf_spine, ring, run, sprayed
from worlds.cases import all_to_all

from topoflow.demand import Demand
from topoflow.engine.base import World
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.batch import pack
from topoflow.engine.packet.settings import numbers
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.papers.dragonfly.motifs.motif import Motif
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.lower import lower
from topoflow.workload.gpu import Gpu


def fat_tree(*, ecmp: bool = True) -> World:
    world = all_to_all("fat_tree", 4, ecmp=ecmp, uneven=True).world
    return replace(world, latency=np.full(world.graph.links, LINK))


def fast() -> World:
    """Links of 3,200 Gb/s and 1 us, on which hundreds of credits are under way."""
    world = fat_tree(ecmp=False)
    links = world.graph.links
    return replace(world, capacity=np.full(links, 3200e9 / 8), latency=np.full(links, 1e-6))


def dragonfly(routing: str) -> World:
    servers = 4 * 4 * 8
    fabric = Dragonfly(25e9, 1, 150e-9, nodes=4, routers=4, groups=8, global_links=2).build(servers, Demand(servers))
    motif = Motif(Gpu("none", {"float32": 1.0}, 1.0, 1.0, 1.0), "allpingpong", iterations=20)
    traffic = lower(motif, Ranks().place(motif, servers))
    return place(traffic, fabric, name="dragonfly", routing=routing, seed=SEED)


CASES: dict[str, tuple[Callable[[], World], Packet]] = {
    "leaf_spine": (lambda: leaf_spine(4, 2, 2), MODEL),
    "ring": (lambda: ring(8), MODEL),
    "hashed": (fat_tree, MODEL),
    "balanced": (lambda: fat_tree(ecmp=False), MODEL),
    "sprayed": (lambda: sprayed(4), MODEL),
    "fast_3200": (fast, MODEL),
    "input_queues": (fat_tree, replace(MODEL, queues="input")),
    "age": (fat_tree, replace(MODEL, arbiter="age")),
    "in_order": (fat_tree, replace(MODEL, messages="in_order")),
    "no_samples": (fat_tree, replace(MODEL, samples=0)),
    "drop": (fat_tree, replace(MODEL, loss="drop", window="auto")),
    "dcqcn": (fat_tree, replace(MODEL, control="dcqcn", ecn_from=20000)),
    "ndp": (fat_tree, replace(MODEL, loss="trim", control="pulls", window="auto", buffer=32768)),
    "minimal": (lambda: dragonfly("minimal"), TAPERED),
    "valiant": (lambda: dragonfly("valiant"), TAPERED),
    "adaptive_local": (lambda: dragonfly("adaptive_local"), TAPERED),
    "ugal": (lambda: dragonfly("ugal"), TAPERED),
    "sst_minimal": (lambda: dragonfly("minimal"), replace(TAPERED, model="sst")),
    "sst_adaptive_local": (lambda: dragonfly("adaptive_local"), replace(TAPERED, model="sst")),
}


def simulate(names: list[str]) -> None:
    """Simulate each case in a process of its own, and print its name, packet-hops and process."""
    for name in names:
        if os.fork():
            if os.waitstatus_to_exitcode(os.wait()[1]):
                sys.exit(f"{name}: the simulation failed")
            continue
        make, model = CASES[name]
        world = make()
        layout = layout_of(world.graph, model, world.routing)
        batch = pack([world], [layout], [numbers(world, layout, model)])
        run(batch, model, 1)
        print(name, batch.arrays["packets"].sum(), os.getpid(), flush=True)
        sys.exit()


def count(names: list[str]) -> None:
    """Simulate cases under callgrind and print their instructions and packet-hops."""
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={folder}/%p"]
        program = ["--toggle-collect=*cpu::packets(*", sys.executable, __file__, "simulate", *names]
        done = subprocess.run([*tool, *program], stdout=subprocess.PIPE, text=True, check=True)
        for line in done.stdout.splitlines():
            name, hops, process = line.split()
            total = re.search(r"^(?:totals|summary): (\d+)", (Path(folder) / process).read_text(), re.MULTILINE)
            print(f"{name}.instructions {total[1] if total else 'unknown'}\n{name}.packet_hops {hops}")


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "simulate"] or list(CASES)
    if not set(names) <= set(CASES):
        sys.exit(f"cases: must be some of {', '.join(CASES)}, got {' '.join(names)}")
    if sys.argv[1:2] == ["simulate"]:
        simulate(names)
    else:
        count(names)


if __name__ == "__main__":
    main()
