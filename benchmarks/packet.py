"""How fast the packet fidelity is, and what memory it takes.

    python benchmarks/packet.py                     all cases but dragonfly on one core, large ones also on two
    python benchmarks/packet.py cases=ring,hashed
    python benchmarks/packet.py cases=dragonfly     half a minute and 3 GB
    python benchmarks/packet.py cases=ring,leaf_spine device=cuda worlds=4224

Prints ``path.metric value`` lines. A packet-hop is a packet sent by one port; the time is the CPU time of the run loop
with the worlds packed in memory, the best of ``ROUNDS``. Links have 100 Gb/s and 500 ns, switches 100 ns, packets 4 KB.

    leaf_spine    8 leaves, 4 spines, 4 hosts each: all-to-all of 1 MB, a random spine for each message
    ring          16 hosts, one link to the next: a ring all-reduce of 30 steps of 1 MB that wait for each other
    hashed        128 hosts, k = 8 fat-tree: all-to-all of 1 MB (16,256 messages), random paths
    balanced      the same with destination-mod-k paths
    sprayed       the same, each packet on a random one of 16 paths
    fast_800, fast_3200   as balanced, but links have 800 and 3,200 Gb/s and 1 us: hundreds of credits are under way
    dragonfly     the 110,592 hosts of the tapered dragonfly, 12 cables of 25 GB/s between two groups: 20 rounds of its
                  AllPingPong with adaptive routing; its latencies, packets of 2 KiB

``state`` is what a world takes while it runs, ``arrays`` what Python hands over. ``two_threads`` is the elapsed time of
one thread over that of two, which says something on a quiet machine only. Targets: 20, 40, 15 and 30 million
packet-hops per second, none for sprayed, for fast ones balanced over 1.3; two threads: 1.7; on a GPU 1e9.

``worlds`` are as many at once, on a ``device``, whose links differ in latency by up to a fifth; the time is the elapsed
time of a launch with all arrays there, the best of ``ROUNDS``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from worlds.cases import BANDWIDTH, SEED, Case, all_to_all, transfers

from topoflow import _C
from topoflow.demand import Demand
from topoflow.engine.base import World
from topoflow.engine.device import HOST_MEMORY, DeviceMemory
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import PORTS_OF_A_THREAD, Packet, layout_of
from topoflow.engine.packet.batch import SHARED, PacketBatch, pack
from topoflow.engine.packet.settings import numbers
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.fat_tree import FatTree
from topoflow.papers.dragonfly.motifs.motif import Motif
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.base import Traffic, Transfer
from topoflow.traffic.lower import lower
from topoflow.workload.gpu import Gpu

ROUNDS = 3
MODEL = Packet(switch_latency=100e-9)
LINK = 500e-9  # s
TAPERED = Packet(  # as src/topoflow/papers/dragonfly/experiment/base/dragonfly.yaml has it
    size=2048, buffer=28672, switch_latency=300e-9, credit_latency=300e-9, nic_latency=76e-9, compares="free"
)


def leaf_spine(leaves: int = 8, spines: int = 4, hosts: int = 4) -> World:
    """Links: host to leaf, leaf to host, leaf to spine, spine to leaf."""
    servers = leaves * hosts
    source, target = np.nonzero(~np.eye(servers, dtype=bool))
    spine = np.random.default_rng(SEED).integers(spines, size=len(source))
    up = 2 * servers + source // hosts * spines + spine
    down = 2 * servers + leaves * spines + target // hosts * spines + spine
    hops = np.stack([source, up, down, servers + target], axis=1)
    used = np.ones(hops.shape, bool)
    used[source // hosts == target // hosts, 1:3] = False
    return world("leaf_spine", hops, used, 2 * servers + 2 * leaves * spines, np.full(len(source), 1e6))


def ring(hosts: int = 16) -> World:
    """Each host sends 1 MB to the next once it has got that of the step before."""
    steps = 2 * (hosts - 1)
    before = (np.arange(hosts) - 1) % hosts + hosts * np.arange(steps - 1)[:, None]
    graph = transfers(
        np.full(steps * hosts, 1e6),
        np.tile(np.arange(hosts), steps),
        np.maximum(np.arange(steps * hosts + 1) - hosts, 0),
        before.reshape(-1).astype(np.int32),
        (np.arange(hosts + 1), np.arange(hosts, dtype=np.int32)),
    )(hosts)
    return World("ring", graph, np.full(hosts, BANDWIDTH), np.full(hosts, LINK))


def world(name: str, hops: np.ndarray, used: np.ndarray, links: int, sizes: np.ndarray) -> World:
    """A message of each of ``sizes`` over its row of ``hops``, where they are ``used``."""
    flows, nothing = len(sizes), np.zeros(0, np.int32)
    offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    paths = offsets.astype(np.int64), hops[used].astype(np.int32)
    graph = transfers(sizes, np.arange(flows), np.zeros(flows + 1, np.int64), nothing, paths)(links)
    return World(name, graph, np.full(links, BANDWIDTH), np.full(links, LINK))


def fat_tree(name: str, *, ecmp: bool) -> World:
    case: Case = all_to_all(name, 8, ecmp=ecmp, uneven=False)
    return replace(case.world, latency=np.full(case.world.graph.links, LINK))


def fast(gbps: int) -> World:
    world = fat_tree(f"fast_{gbps}", ecmp=False)
    links = world.graph.links
    return replace(world, capacity=np.full(links, gbps * 1e9 / 8), latency=np.full(links, 1e-6))


CASES: dict[str, Callable[[], World]] = {
    "leaf_spine": leaf_spine,
    "ring": ring,
    "hashed": lambda: fat_tree("hashed", ecmp=True),
    "balanced": lambda: fat_tree("balanced", ecmp=False),
    "sprayed": lambda: sprayed(),
    "fast_800": lambda: fast(800),
    "fast_3200": lambda: fast(3200),
}


def sprayed(radix: int = 8) -> World:
    servers = radix**3 // 4
    fabric = FatTree(BANDWIDTH, 1, LINK, radix=radix).build(servers, Demand(servers))
    source, target = np.nonzero(~np.eye(servers, dtype=bool))
    tasks = [Transfer(1e6, *ends) for ends in zip(source.tolist(), target.tolist(), strict=True)]
    return place(Traffic.from_tasks("all_to_all", servers, tasks), fabric, name="sprayed", routing="spray", seed=SEED)


def dragonfly(rounds: int = 20) -> World:
    shape = {"nodes": 24, "routers": 48, "groups": 96}
    servers = 24 * 48 * 96
    fabric = Dragonfly(25e9, 1, 150e-9, **shape, global_links=12).build(servers, Demand(servers))
    motif = Motif(Gpu("none", {"float32": 1.0}, 1.0, 1.0, 1.0), "allpingpong", iterations=rounds)
    traffic = lower(motif, Ranks().place(motif, servers))
    return place(traffic, fabric, name="dragonfly", routing="adaptive_local", seed=SEED)


LARGE: dict[str, Callable[[], World]] = {"dragonfly": dragonfly}


def measure(world: World, model: Packet) -> None:
    layout = layout_of(world.graph, model, world.routing)
    batch = pack([world], [layout], [numbers(world, layout, model)])
    one_thread = [run(batch, model, 1) for _ in range(ROUNDS)]
    best, state = min(sample.cpu for sample in one_thread), one_thread[0].state
    hops = int(batch.arrays["packets"].sum())
    print(f"{world.name}.packet_hops {hops}")
    print(f"{world.name}.makespan_ms {batch.arrays['finish'].max() / 1e9:.6f}")
    print(f"{world.name}.cpu_s {best:.3f}")
    print(f"{world.name}.million_packet_hops_per_s {hops / best / 1e6:.1f}")
    print(f"{world.name}.state_mb {state / 1e6:.2f}")
    print(f"{world.name}.arrays_mb {sum(array.nbytes for array in batch.arrays.values()) / 1e6:.2f}", flush=True)
    if layout.ports >= 2 * PORTS_OF_A_THREAD:
        shared = [run(batch, model, 2) for _ in range(ROUNDS)]
        ratio = min(sample.elapsed for sample in one_thread) / min(sample.elapsed for sample in shared)
        print(f"{world.name}.two_threads {ratio:.2f}", flush=True)


def side_by_side(world: World, count: int, device: DeviceMemory) -> None:
    draw, layout = np.random.default_rng(SEED), layout_of(world.graph, MODEL)
    spread = [world.latency * draw.uniform(0.8, 1.2, len(world.latency)) for _ in range(count)]
    worlds = [replace(world, name=f"{world.name} {i}", latency=latency) for i, latency in enumerate(spread)]
    arrays = pack(worlds, [layout] * count, [numbers(variant, layout, MODEL) for variant in worlds]).arrays
    if device.torch is not None:
        shared = {name: device.shared(len(arrays[name])) for name in SHARED}
        arrays = device.put({name: array for name, array in arrays.items() if name not in SHARED}) | shared
    status, times = np.asarray(arrays["status"]), []
    for _ in range(1 + ROUNDS):  # the first loads the kernel
        status[:] = 0
        device.wait()
        begin = time.perf_counter()
        _C.packets(arrays, MODEL.kernel(), device.memory, device.stream, 0, PORTS_OF_A_THREAD)
        device.wait()
        times.append(time.perf_counter() - begin)
        if (status != _C.DONE).any():
            raise RuntimeError(f"{world.name}: all worlds must be simulated, got status {np.unique(status)}")
    hops = int(device.numpy(arrays["packets"]).sum())
    print(f"{world.name}.worlds {count}")
    print(f"{world.name}.worlds.packet_hops {hops}")
    print(f"{world.name}.worlds.seconds {min(times[1:]):.3f}")
    print(f"{world.name}.worlds.million_packet_hops_per_s {hops / min(times[1:]) / 1e6:.1f}", flush=True)


class Ran(NamedTuple):
    cpu: float  # s
    elapsed: float  # s
    state: int  # B


def run(batch: PacketBatch, model: Packet, threads: int) -> Ran:
    batch.arrays["status"][:] = 0
    cpu, begin = time.process_time(), time.perf_counter()
    state = _C.packets(batch.arrays, model.kernel(), HOST_MEMORY, 0, threads, PORTS_OF_A_THREAD)
    measurement = Ran(time.process_time() - cpu, time.perf_counter() - begin, state)
    if batch.arrays["status"].tolist() != [_C.DONE]:
        raise RuntimeError(f"{batch.worlds[0].name}: must be simulated, got status {batch.arrays['status']}")
    return measurement


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    names = options.pop("cases", ",".join(CASES)).split(",")
    device, worlds = options.pop("device", "cpu"), options.pop("worlds", None)
    cases = CASES if worlds else CASES | LARGE
    if options or not set(names) <= set(cases):
        sys.exit(f"cases: must be some of {', '.join(cases)}, got {' '.join(sys.argv[1:])}")
    if worlds is None and device != "cpu":
        sys.exit(f"worlds: must be the number of worlds on device={device}, got none")
    if worlds is not None and (not worlds.isdecimal() or int(worlds) < 1):
        sys.exit(f"worlds: must be a whole number of at least 1, got {worlds}")
    try:
        memory = DeviceMemory.named(device)
    except ValueError as error:
        sys.exit(str(error))
    for name in names:
        if worlds is None:
            measure(cases[name](), TAPERED if name in LARGE else MODEL)
        else:
            side_by_side(CASES[name](), int(worlds), memory)


if __name__ == "__main__":
    main()
