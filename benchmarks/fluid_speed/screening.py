"""``bound``: worlds per second of the fidelity that screens, on the two worlds of case E with links of many speeds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from measure import in_turn, on_gpu, repeated, say
from worlds.cases import CASES, Case

from topoflow.engine.base import Floats
from topoflow.engine.bound import condense, makespans
from topoflow.engine.device import DeviceMemory

WORLDS, GPU_WORLDS = 20_000, 1_000_000


def bound() -> None:
    """On one core and on two, wall time; the analysis of the graph, once, is reported separately."""
    for case in CASES["E"]():
        begin = time.perf_counter()
        graph = condense(case.world.graph)
        path = f"bound.{case.name}"
        say(f"{path}.fold_seconds", time.perf_counter() - begin)
        capacity = speeds(case.world.capacity, np.random.default_rng(0).random((WORLDS, 1)))

        def seconds(threads: int, graph: Any = graph, capacity: Floats = capacity) -> float:
            begin = time.perf_counter()
            makespans(graph, capacity, threads=threads)
            return time.perf_counter() - begin

        one, two = in_turn(lambda: repeated(lambda: seconds(1)), lambda: repeated(lambda: seconds(2)))
        say(f"{path}.one_core.worlds_per_second", WORLDS / one)
        say(f"{path}.two_cores.worlds_per_second", WORLDS / two)


def bound_on_gpu(cases: Sequence[Case], worlds: int = GPU_WORLDS) -> None:
    """``worlds`` of each case, with the links' numbers on the GPU. Raises ``ValueError`` where there is none."""
    device = DeviceMemory.named("cuda")
    import torch

    for case in cases:
        graph = condense(case.world.graph)
        usual = torch.from_numpy(case.world.capacity).to(device.torch)
        capacity = speeds(usual, torch.rand(worlds, 1, dtype=torch.float64, device=device.torch))
        duration = on_gpu(lambda graph=graph, capacity=capacity: makespans(graph, capacity))
        say(f"bound.gpu.{case.name}.worlds_per_second", worlds / duration)


def speeds(usual: Any, factor: Any) -> Any:
    """[W, L] B/s: every world has all its links between half as fast as usual and as usual; ``factor`` is [W, 1]."""
    return usual * (0.5 + 0.5 * factor)
