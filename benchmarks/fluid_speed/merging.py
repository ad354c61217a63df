"""What ``fluid.merge`` saves and what it costs in accuracy: cases A to F, and random jobs, against the exact answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from measure import Kernel, difference, repeated, say
from worlds.cases import Case, all_to_all

import topoflow
from topoflow.engine.base import World
from topoflow.engine.fluid import MERGE

MERGES = (MERGE, 0.001, 0.01)
JOBS = 1300
FABRICS = ("fat_tree", "leaf_spine", "torus", "hyperx", "dragonfly_plus", "topoopt", "ring")


def merging(name: str, cases: Sequence[Case]) -> None:
    """Lines of one case, or of a family: times are summed, errors are the largest over tasks and over makespans."""
    kernels = [Kernel.of([case.world]) for case in cases]
    exact = [kernel.run() for kernel in kernels]
    seconds = sum(repeated(lambda kernel=kernel: kernel.run().cpu) for kernel in kernels)
    for merge in MERGES:
        merged = [kernel.run(merge=merge) for kernel in kernels]
        duration = sum(repeated(lambda kernel=kernel, merge=merge: kernel.run(merge=merge).cpu) for kernel in kernels)
        pairs = list(zip(exact, merged, strict=True))
        path = f"fluid.merge.{merge}.{name}"
        say(f"{path}.times_faster", seconds / duration)
        say(f"{path}.largest_error", max(difference(one.finish, other.finish) for one, other in pairs))
        say(f"{path}.makespan_error", max(difference(one.finish.max(), other.finish.max()) for one, other in pairs))


def random_jobs(count: int = JOBS) -> None:
    """Lines of random jobs with many concurrent sends, merged as ``auto`` merges larger ones: how far the ends move
    of the tasks that no other waits for, relative to the makespan."""
    ends, makespans = [], []
    for seed in range(count):
        world = random_job(np.random.default_rng(seed), seed)
        if world is None:
            continue
        kernel, graph = Kernel.of([world]), world.graph
        exact, merged = kernel.run().finish, kernel.run(merge=MERGE).finish
        last = np.ones(graph.tasks, bool)
        last[graph.after] = False
        ends.append(float(np.abs(merged - exact)[last].max() / exact.max()))
        makespans.append(abs(float(merged.max() / exact.max()) - 1))
    path = f"fluid.merge.{MERGE}.random_jobs"
    say(f"{path}.jobs", len(ends))
    say(f"{path}.largest_error_of_last_tasks", max(ends))
    say(f"{path}.makespan_error", max(makespans))


def random_job(random: np.random.Generator, seed: int) -> World | None:
    """An uneven all-to-all on a fat-tree, or an iteration of a DLRM or MoE on any fabric; None if it is refused."""
    if seed % 4 == 0:
        case = all_to_all(
            "all-to-all", int(random.choice([4, 6])), ecmp=bool(random.integers(2)), uneven=True, seed=seed
        )
        sizes = 1e6 * 10 ** random.uniform(0, random.choice([0.1, 0.5, 2]), case.world.graph.tasks)
        late = random.random(case.world.graph.tasks) * random.choice([0, 1e-3, 1e-2])
        return replace(case.world, graph=replace(case.world.graph, bytes=sizes, release=late))
    keys = {
        "fabric": str(random.choice(FABRICS)),
        "servers": int(random.choice([8, 12, 16, 24, 32])),
        "routing": str(random.choice(["ecmp", "spray", "dmodk", "valiant"])),
        "degree": int(random.choice([1, 2, 4])),
        "bandwidth_gbps": int(random.choice([25, 100, 400])),
    }
    workload = {"workload": "dlrm"} if seed % 4 < 3 else {"workload": "moe", "strategy": "parallel"}
    try:
        results = topoflow.compare(**keys, **workload, gpu="h100", rings="flows", seed=seed, fluid={"merge": 0})
    except ValueError:  # a fabric of another degree or size
        return None
    return results[0].timeline.world
