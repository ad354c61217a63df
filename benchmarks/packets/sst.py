"""``packet.model=sst`` and SST itself: the same scripts of ranks on the same dragonflies, idle and under load.

    python benchmarks/packets/sst.py sst=PATH/bin/sst
    python benchmarks/packets/sst.py sst=PATH/bin/sst cases=halo3d26,fft3d cables=1 routing=minimal hosts=firefly
    python benchmarks/packets/sst.py sst=PATH/bin/sst cases=storm,groups routing=valiant_group,adaptive_local seeds=9

Prints ``case.cables.routing.metric value`` lines. A case is a script of each rank, most of them motifs of topoflow,
which SST's Ember replays as traces. A trace of Ember 16 can neither wait for a long isend alone nor call an all-to-all.
So in both the last send of a step blocks, and a collective is its messages. Routers, links and NICs have the
parameters of the tapered dragonfly. With ``hosts=none`` hosts take no time, and all messages are eager: the network and
its NICs alone. With ``hosts=firefly`` they take what firefly's do, on our side ``workload.library=firefly``.

Where hosts take nothing, SST's ranks begin 10 ns after the start, and 2 ns for each receive that they have posted
(``Script.handed``); so do ours, as who is first decides much: ``ours_least_us`` to ``ours_most_us`` is what twelve runs
take whose messages begin 0 to 2 ns later and whose routes draw other numbers.

``seeds``: as many runs of both, whose routes draw other numbers, and their means. A router of SST always draws the same
ones; so in its merlin/topology/dragonfly.cc ``XORShiftRNG(rtr_id+1)`` must add 1000 times what the environment has as
``SST_SEED`` (0 where it has none).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from peers.sst_peer import Answer, Script, Sst

from topoflow.demand import Demand
from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.fabric.dragonfly import Dragonfly, DragonflyRoutes
from topoflow.papers.dragonfly.motifs import firefly
from topoflow.papers.dragonfly.motifs.motif import MOTIFS, Motif
from topoflow.papers.dragonfly.motifs.scripts import Writer
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.lower import lower
from topoflow.workload.gpu import Gpu

BANDWIDTH, LATENCY = 12.5e9, 150e-9  # B/s, s: the paper's III-B, as all of the following
MODEL = Packet(
    model="sst",
    size=2048,
    buffer=28672,
    switch_latency=300e-9,
    credit_latency=300e-9,
    nic_latency=1e-9,
    setup=50e-9,
    match=100e-9,
)
GPU = Gpu("none", {"float32": 1.0}, 1.0, 1.0, 1.0)
EAGER = 12_000  # B; firefly's default
RUNS = 12
NODES, ROUTERS, GROUPS = 3, 6, 4
CABLES = (1, 3, 12)
ROUTINGS = ("minimal", "valiant_group", "adaptive_local")

Rule = Any  # (Motif, Writer or Script) -> None


def storm(motif: Motif, writer: Any) -> None:
    """Each rank sends to 20 random others at once."""
    draw = np.random.default_rng(7)
    rank = np.arange(writer.ranks)
    for _ in range(20):
        target = (rank + draw.integers(1, writer.ranks, writer.ranks)) % writer.ranks
        writer.send(rank, target, motif.value("bytes"))
    writer.step()


def all_to_all(motif: Motif, writer: Any) -> None:
    """In lock steps: in the k-th each rank sends to the k-th after it."""
    rank = np.arange(writer.ranks)
    for shift in range(1, writer.ranks):
        writer.send(rank, (rank + shift) % writer.ranks, motif.value("bytes"))
        writer.step()


def groups(motif: Motif, writer: Any) -> None:
    """Each rank sends messages to that of the same number in the next group: the links between groups fill."""
    rank, size = np.arange(writer.ranks), NODES * ROUTERS
    for _ in range(motif.rounds):
        writer.send(rank, (rank + size) % writer.ranks, motif.value("bytes"))
    writer.step()


def walk(motif: Motif, writer: Any) -> None:
    """One message at a time: the last rank sends to each other one, which answers before it sends to the next."""
    last = np.array([writer.ranks - 1])
    for rank in range(writer.ranks - 1):
        for ends in ((last, np.array([rank])), (np.array([rank]), last)):
            writer.send(*ends, motif.value("bytes"))
            writer.step(np.concatenate(ends))


@dataclass(frozen=True)
class Case:
    rule: Rule
    motif: Motif


def motif(name: str, eager: float = EAGER, **parameters: Any) -> Motif:
    return Motif(GPU, name, eager=eager, library="firefly", **parameters)


CASES: Mapping[str, Case] = {
    "idle_eager": Case(walk, motif("random", bytes=1000)),
    "idle_full": Case(walk, motif("random", bytes=11_000)),
    "idle_long": Case(walk, motif("random", bytes=2**20)),
    "storm": Case(storm, motif("random", bytes=12_000)),
    "storm_2k": Case(storm, motif("random", bytes=2_000)),
    "groups": Case(groups, motif("random", bytes=12_000, iterations=10)),
    "alltoall_eager": Case(all_to_all, motif("random", bytes=12_000)),
    "alltoall_long": Case(all_to_all, motif("random", bytes=100_000)),
    **{
        name: Case(MOTIFS[name], motif(name, **parameters))
        for name, parameters in {
            "allpingpong": {"iterations": 20, "bytes": 12_000},
            "allreduce": {},
            "random": {"bytes": 12_000},
            "halo3d": {"cells": 30},
            "halo3d26": {"cells": 30},
            "sweep3d": {"cells": 20},
            "fft3d": {},
        }.items()
    },
}


class Traced(Writer):
    """What SST replays of a trace: the last send of a step blocks, and a collective is its messages (``Script``)."""

    @contextmanager
    def one_call(self) -> Iterator[None]:
        yield
        self.step()

    def step(self, only: Any = None) -> None:
        later, split = np.zeros(self.ranks, np.bool_), []
        for source, target, bytes, blocking in reversed(self._pending):
            for mask, blocks in ((~later[source], True), (later[source], blocking)):
                split.append((source[mask], target[mask], bytes[mask], blocks))
            later[source] = True
        self._pending = split[::-1]
        super().step(only)


class Headed(Traced):
    """Messages with what firefly puts before them."""

    def send(self, source: Any, target: Any, bytes: Any, *, blocking: bool = False) -> None:
        super().send(source, target, bytes + firefly.HEADER, blocking=blocking)


@dataclass(frozen=True)
class Played(Motif):
    """A motif by a case's rule, whose hosts take nothing and whose messages are all eager, or what firefly's take."""

    rule: Any = None
    hosts: bool = False

    def messages(self, ranks: int) -> Any:
        writer = Traced(ranks, self.eager, library=True) if self.hosts else Headed(ranks, np.inf)
        self.rule(self, writer)
        return writer.messages()


def world_of(case: Case, cables: int, routing: str, *, hosts: bool) -> tuple[World, DragonflyRoutes]:
    ranks = NODES * ROUTERS * GROUPS
    fabric = Dragonfly(BANDWIDTH, 1, LATENCY, NODES, ROUTERS, GROUPS, cables).build(ranks, Demand(ranks))
    played = Played(**vars(case.motif), rule=case.rule, hosts=hosts)
    traffic = lower(played, Ranks().place(played, ranks))
    plan: Any = fabric.route
    world = place(traffic, fabric, name="sst", routing=routing, seed=0)
    return world if hosts else handed(world, case), plan


def handed(world: World, case: Case) -> World:
    """Its messages not before SST's hosts hand them to their NICs, which matters where ranks begin."""
    graph, script = world.graph, Script(NODES * ROUTERS * GROUPS)
    case.rule(case.motif, script)
    release = graph.release.copy()
    for rank, times in enumerate(script.handed()):
        release[(graph.source == rank) & (graph.bytes > 0)] = times
    return replace(world, graph=replace(graph, release=release))


def ours(world: World) -> tuple[Timeline, float, list[float]]:
    """A timeline, its CPU time, and s that runs take in which messages begin a little later."""
    begin = time.process_time()
    (timeline,) = MODEL.simulate([world], Run(threads=1))
    seconds, graph, variants = time.process_time() - begin, world.graph, []
    for seed in range(RUNS):
        later = np.random.default_rng(seed).integers(0, 3, graph.tasks) * 1e-9 * (graph.bytes > 0)
        variants.append(replace(world, graph=replace(graph, delay=graph.delay + later), seed=seed))
    return timeline, seconds, [variant.makespan for variant in MODEL.simulate(variants, Run(threads=1))]


def theirs(program: Sst, case: Case, plan: DragonflyRoutes, routing: str, *, hosts: bool, seed: int = 0) -> Answer:
    script = Script(NODES * ROUTERS * GROUPS)
    case.rule(case.motif, script)
    eager = EAGER if hosts else max(script.most, EAGER)
    return program.run(script, plan, (BANDWIDTH, LATENCY), routing, MODEL, eager, hosts=hosts, seed=seed)


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    program = options.pop("sst", "sst")
    cases = options.pop("cases", ",".join(CASES)).split(",")
    cables = options.pop("cables", ",".join(map(str, CABLES))).split(",")
    routings = options.pop("routing", ",".join(ROUTINGS)).split(",")
    hosts, seeds = options.pop("hosts", "none"), options.pop("seeds", "1")
    allowed = {"cases": CASES, "cables": map(str, CABLES), "routing": ROUTINGS, "hosts": ("none", "firefly")}
    for key, values in (("cases", cases), ("cables", cables), ("routing", routings), ("hosts", [hosts])):
        names = [*allowed[key]]
        if not {*values} <= {*names}:
            sys.exit(f"{key}: must be of {', '.join(names)}, got {','.join(values)}")
    if not seeds.isdecimal() or int(seeds) < 1:
        sys.exit(f"seeds: must be a whole number of at least 1, got {seeds}")
    if options:
        sys.exit(f"sst, cases, cables, routing, hosts, seeds: must be the only keys, got {' '.join(sys.argv[1:])}")
    missing = Sst.missing(program)
    if missing is not None:
        sys.exit(missing)
    with tempfile.TemporaryDirectory() as folder:
        peer = Sst(Path(program), Path(folder))
        for name, count, routing in product(cases, map(int, cables), routings):
            if seeds == "1":
                compare(peer, name, count, routing, hosts=hosts == "firefly")
            else:
                spread(peer, name, count, routing, int(seeds), hosts=hosts == "firefly")


def compare(peer: Sst, name: str, cables: int, routing: str, *, hosts: bool) -> None:
    case = CASES[name]
    world, plan = world_of(case, cables, routing, hosts=hosts)
    timeline, seconds, others = ours(world)
    other = theirs(peer, case, plan, routing, hosts=hosts)
    ports: Any = timeline.ports
    row = {
        "sst_us": other.makespan * 1e6,
        "ours_us": timeline.makespan * 1e6,
        "ours_least_us": min(others) * 1e6,
        "ours_most_us": max(others) * 1e6,
        "sst_latency_us": other.latency * 1e6,
        "ours_latency_us": ports.latency.mean * 1e6,
        "sst_stalled_us": other.stalled * 1e6,
        "ours_stalled_us": float(ports.stalled.sum()) * 1e6,
        "sst_hops": other.packets,
        "ours_hops": int(ports.packets.sum()),
        "sst_hops_per_s": other.packets / other.cpu,
        "ours_hops_per_s": ports.packets.sum() / seconds,
    }
    for metric, value in row.items():
        print(f"{name}.{cables}.{routing}.{metric} {value:.6g}", flush=True)


def spread(peer: Sst, name: str, cables: int, routing: str, seeds: int, *, hosts: bool) -> None:
    case = CASES[name]
    world, plan = world_of(case, cables, routing, hosts=hosts)
    timelines = MODEL.simulate([replace(world, seed=seed) for seed in range(seeds)], Run(threads=1))
    sst_makespans = [theirs(peer, case, plan, routing, hosts=hosts, seed=seed).makespan for seed in range(seeds)]
    for simulator, makespans in (
        ("sst", np.array(sst_makespans)),
        ("ours", np.array([timeline.makespan for timeline in timelines])),
    ):
        for statistic, value in (("mean", makespans.mean()), ("least", makespans.min()), ("most", makespans.max())):
            print(f"{name}.{cables}.{routing}.{simulator}_{statistic}_us {value * 1e6:.6g}", flush=True)


if __name__ == "__main__":
    main()
