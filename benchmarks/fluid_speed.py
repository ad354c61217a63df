"""How fast the fluid fidelity is, beside SimGrid and beside its plain-Python twin, on the same worlds in one run.

    python benchmarks/fluid_speed.py

SimGrid takes part where its headers are installed (Debian: libsimgrid-dev); every world is one thread's work for
both, each gets the best of the same number of tries. Our time includes Python, SimGrid's leaves out the building of
its platform. ``batch`` is a sweep of 16 worlds on all cores against SimGrid's time for one of them, times 16.
``difference_to_simgrid`` means something only where ``sensitivity`` (the difference when every capacity grows by one
unit in the last place) is small: flows of uneven size that chase each other round a ring are chaotic.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from topoflow.engine import fluid, reference
from topoflow.engine.base import Floats, Graph, World

BANDWIDTH = 12.5e9  # B/s (100 Gbps)
TWIN_TASKS = 1000  # beyond, the twin takes minutes
SWEEP = 16
TRIES = 3  # of each simulator on each world; the best counts

Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """Flows between servers, each pair with one path; the form that both simulators understand.

    Links have no latency: SimGrid's flows share in inverse proportion to theirs, ours evenly.
    """

    servers: int
    links: int
    route: dict[Pair, list[int]]
    flows: list[tuple[Pair, int, list[int]]]  # pair, bytes, after

    def world(self, name: str) -> World:
        pairs = {pair: index for index, pair in enumerate(self.route)}
        tasks = len(self.flows)
        graph = Graph(
            delay=np.zeros(tasks),
            bytes=np.array([float(size) for _, size, _ in self.flows]),
            release=np.zeros(tasks),
            path=np.array([pairs[pair] for pair, _, _ in self.flows], dtype=np.int32),
            after_offsets=np.cumsum([0, *(len(after) for _, _, after in self.flows)]),
            after=np.array([task for _, _, after in self.flows for task in after], dtype=np.int32),
            path_offsets=np.cumsum([0, *map(len, self.route.values())]),
            path_links=np.array([link for path in self.route.values() for link in path], dtype=np.int32),
            owner=np.arange(tasks, dtype=np.int32),
            owners=tasks,
            links=self.links,
        )
        return World(name, graph, np.full(self.links, BANDWIDTH), np.zeros(self.links))

    def text(self) -> str:
        """What ``simgrid_fluid.cpp`` reads."""
        rows = [f"{self.servers} {self.links} {len(self.route)} {len(self.flows)}"]
        rows += [f"{BANDWIDTH!r} 0"] * self.links
        rows += [" ".join(map(str, [*pair, len(path), *path])) for pair, path in self.route.items()]
        rows += [" ".join(map(str, [*pair, size, len(after), *after])) for pair, size, after in self.flows]
        return "\n".join(rows) + "\n"


def leaf_spine_all_to_all(servers: int, uneven: bool) -> Case:
    """Every server sends to every other over leaves of 8 servers and 4 spines (2:1), a random spine for each pair."""
    random = np.random.default_rng(0)
    leaves, spines = servers // 8, 4
    links = 2 * servers + 2 * leaves * spines
    route: dict[Pair, list[int]] = {}
    for i in range(servers):
        for j in range(servers):
            spine = int(random.integers(spines))
            up = 2 * servers + i // 8 * spines + spine
            down = 2 * servers + leaves * spines + j // 8 * spines + spine
            if i != j:
                route[i, j] = [i, servers + j] if i // 8 == j // 8 else [i, up, down, servers + j]
    sizes = random.integers(500_000, 1_500_000, len(route)) if uneven else np.full(len(route), 1_000_000)
    flows: list[tuple[Pair, int, list[int]]] = [(pair, int(size), []) for pair, size in zip(route, sizes, strict=True)]
    return Case(servers, links, route, flows)


def ring_all_reduce(servers: int, buckets: int, uneven: bool) -> Case:
    """2(n-1) steps for each bucket, one link from each server to the next."""
    random = np.random.default_rng(0)
    route = {(i, (i + 1) % servers): [i] for i in range(servers)}
    flows: list[tuple[Pair, int, list[int]]] = []
    for _ in range(buckets):
        first = len(flows)
        for step in range(2 * (servers - 1)):
            for i in range(servers):
                size = int(random.integers(500_000, 1_500_000)) if uneven else 1_000_000
                after = [first + (step - 1) * servers + (i - 1) % servers] if step else []
                flows.append(((i, (i + 1) % servers), size, after))
    return Case(servers, servers, route, flows)


CASES: dict[str, Callable[[], Case]] = {
    "all_to_all_16": lambda: leaf_spine_all_to_all(16, uneven=False),
    "all_to_all_16_uneven": lambda: leaf_spine_all_to_all(16, uneven=True),
    "all_to_all_64": lambda: leaf_spine_all_to_all(64, uneven=False),
    "all_to_all_64_uneven": lambda: leaf_spine_all_to_all(64, uneven=True),
    "ring_16x2_uneven": lambda: ring_all_reduce(16, 2, uneven=True),
    "ring_32x2": lambda: ring_all_reduce(32, 2, uneven=False),
    "ring_128x2": lambda: ring_all_reduce(128, 2, uneven=False),
    "ring_128x2_uneven": lambda: ring_all_reduce(128, 2, uneven=True),
}


def build_simgrid(folder: Path) -> Path | None:
    """The peer's program, or None where SimGrid is not installed."""
    source, program = Path(__file__).with_name("simgrid_fluid.cpp"), folder / "simgrid_fluid"
    command = ["g++", "-O3", "-std=c++17", str(source), "-lsimgrid", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print("SimGrid is left out, its headers were not found", file=sys.stderr)
        return None
    return program


def run_simgrid(program: Path, case: Case, folder: Path) -> tuple[float, Floats]:
    file = folder / "world.txt"
    file.write_text(case.text())
    tries = []
    for _ in range(TRIES):
        printed = subprocess.run([program, file], capture_output=True, text=True, check=True).stdout.split()
        tries.append(float(printed[0]))
    return min(tries), np.array(printed[1:], dtype=float)


def seconds(call: Callable[[], object], times: int = TRIES) -> float:
    """The best of some tries."""
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def difference(one: Floats, other: Floats) -> float:
    """The largest relative difference between two sets of finish times."""
    return float(np.max(np.abs(one - other) / other))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build_simgrid(folder)
        for case_name, make in CASES.items():
            case = make()
            world = case.world(case_name)
            print(f"fluid.{case_name}.tasks {len(case.flows)}")
            alone = seconds(partial(fluid.simulate, [world]))
            print(f"fluid.{case_name}.seconds {alone:.4g}")
            if len(case.flows) <= TWIN_TASKS:
                twin = seconds(partial(reference.simulate, world), times=1)
                print(f"fluid.{case_name}.times_faster_than_twin {twin / alone:.4g}")
            if program is None:
                continue
            peer, finish = run_simgrid(program, case, folder)
            ours = fluid.simulate([world])[0].finish
            sweep = [replace(world, capacity=world.capacity * (1 + i / SWEEP)) for i in range(SWEEP)]
            batch = seconds(partial(fluid.simulate, sweep))
            print(f"fluid.{case_name}.simgrid_seconds {peer:.4g}")
            print(f"fluid.{case_name}.times_faster_than_simgrid {peer / alone:.4g}")
            print(f"fluid.{case_name}.batch_times_faster_than_simgrid {SWEEP * peer / batch:.4g}")
            nudged = fluid.simulate([replace(world, capacity=np.nextafter(world.capacity, np.inf))])[0].finish
            print(f"fluid.{case_name}.difference_to_simgrid {difference(ours, finish):.2g}")
            print(f"fluid.{case_name}.sensitivity {difference(ours, nudged):.2g}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
