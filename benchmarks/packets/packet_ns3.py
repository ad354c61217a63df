"""The packet fidelity and ns-3: the same messages over the same links in the same run, on one core.

    python benchmarks/packets/packet_ns3.py                  100 KB for each pair
    python benchmarks/packets/packet_ns3.py bytes=1000000    as benchmarks/packet.py has it; ns-3 needs 4 GB

Prints ``path.metric value`` lines. 128 hosts of a k = 8 fat-tree send to each other (16,256 messages) on random paths,
stored and forwarded, first come first served, with queues that hold everything: what ns-3's point-to-point devices do.
``usual`` is our own default on the same messages: lossless, cut-through, by turns. Target: 50 times ns-3's packet-hops
per second.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from packet import MODEL as USUAL
from packet import fat_tree
from peers.ns3_peer import MODEL, Ns3

from topoflow import _C
from topoflow.engine.base import Floats, World
from topoflow.engine.device import HOST_MEMORY
from topoflow.engine.packet import PORTS_OF_A_THREAD, Packet, layout_of
from topoflow.engine.packet.batch import pack
from topoflow.engine.packet.settings import SECOND, numbers

ROUNDS = 3


def ours(world: World, model: Packet) -> tuple[float, int, Floats]:
    """CPU time of the best run, packet-hops, and s when each message arrived."""
    layout = layout_of(world.graph, model)
    batch = pack([world], [layout], [numbers(world, layout, model)])
    best = np.inf
    for _ in range(ROUNDS):
        batch.arrays["status"][:] = 0
        begin = time.process_time()
        _C.packets(batch.arrays, model.kernel(), HOST_MEMORY, 0, 1, PORTS_OF_A_THREAD)
        best = min(best, time.process_time() - begin)
    if batch.arrays["status"].tolist() != [_C.DONE]:
        raise RuntimeError(f"{world.name}: must be simulated, got status {batch.arrays['status']}")
    return best, int(batch.arrays["packets"].sum()), batch.arrays["finish"] / SECOND


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    size = float(options.pop("bytes", "100000"))
    if options:
        sys.exit(f"bytes: must be the only key, got {' '.join(sys.argv[1:])}")
    missing = Ns3.missing()
    if missing is not None:
        sys.exit(missing)
    world = fat_tree("hashed", ecmp=True)
    world = replace(world, graph=replace(world.graph, bytes=np.full(world.graph.tasks, size)))
    with tempfile.TemporaryDirectory() as folder:
        theirs = Ns3.build(Path(folder)).run(world, MODEL.size)
    print(f"ns3.packet_hops {theirs.hops}")
    print(f"ns3.cpu_s {theirs.seconds:.2f}")
    print(f"ns3.million_packet_hops_per_s {theirs.hops / theirs.seconds / 1e6:.3f}")
    packet = MODEL.size / world.capacity.min()
    for name, model in (("same", MODEL), ("usual", USUAL)):
        seconds, hops, finish = ours(world, model)
        print(f"{name}.packet_hops {hops}")
        print(f"{name}.cpu_s {seconds:.3f}")
        print(f"{name}.million_packet_hops_per_s {hops / seconds / 1e6:.1f}")
        print(f"{name}.times_ns3 {hops / seconds * theirs.seconds / theirs.hops:.1f}")
        print(f"{name}.makespan_over_ns3 {finish.max() / theirs.finish.max():.6f}")
        print(f"{name}.most_packet_times_apart {np.abs(finish - theirs.finish).max() / packet:.2f}", flush=True)


if __name__ == "__main__":
    main()
