"""Runs each kernel once on an emulated GPU and prints what it did; gpu_counts.py starts it.

python benchmarks/gpu/gpu_kernels.py 4,6 [places]       # radices of fat-trees; where warps wait at barriers
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import emulation
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from worlds.cases import all_to_all
from worlds.placements import job

from topoflow.engine.base import Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid, sweep
from topoflow.engine.screen.contention import Contention
from topoflow.search.memory import budget
from topoflow.search.moves import moves
from topoflow.search.placements import choices
from topoflow.search.problem import SearchSettings
from topoflow.search.tempering import Tempering, shares

CHAINS, STEPS, SERVERS = 8, 2, 16
CALLERS = 4  # lines of a place, with those that call it


def main() -> None:
    library = ctypes.CDLL(os.environ["TOPOFLOW_EMULATED"])
    library.emulation_counts.restype = library.emulation_places.restype = ctypes.c_char_p

    def count(name: str, kernel: Callable[[], int]) -> None:
        """Print what ``kernel`` does for each of the events whose number it returns."""
        library.emulation_counts()  # forgets what was counted
        events = kernel()
        print(f"{name}.events {events}")
        places = library.emulation_places().decode() if "places" in sys.argv else ""
        for line in library.emulation_counts().decode().splitlines():
            what, number = line.split()
            print(f"{name}.launches {number}" if what == "launches" else f"{name}.{what} {int(number) / events:.1f}")
        for place, number in barriers(places).most_common():
            print(f"{name}.warp_barriers.{place} {number / events:.1f}", flush=True)

    device = DeviceMemory.named("cuda")
    for radix in map(int, sys.argv[1].split(",")):
        world = all_to_all("C", radix, ecmp=False, uneven=True).world
        case = f"all_to_all_{radix**3 // 4}_hosts"
        count(f"fluid.{case}", lambda world=world: fluid(world, device))
        count(f"bound.{case}", lambda world=world: bound(world, device))
    gradient_of = gradient(all_to_all("C", 4, ecmp=False, uneven=True).world)
    count("gradient.all_to_all_16_hosts", gradient_of)
    count(f"ladder.dlrm_{SERVERS}_servers", ladder(device))


def barriers(places: str) -> Counter[str]:
    """How often a warp waits at a barrier, by ``file:line<file:line of the caller<...``."""
    counts: Counter[str] = Counter()
    for line in places.splitlines():
        number, _, offsets = line.partition(" ")
        lines = re.findall(r" at (\w+\.h:\d+)", "\n".join(emulation.places(offsets)))
        counts["<".join(lines[:CALLERS])] += int(number)
    return counts


def fluid(world: World, device: DeviceMemory) -> int:
    """The times at which flows end."""
    (timeline,) = Fluid().simulate([world], Run(device))
    return len(np.unique(timeline.finish))


def bound(world: World, device: DeviceMemory) -> int:
    Bound().simulate([world], Run(device))
    return 1


def gradient(world: World) -> Callable[[], int]:
    """The backward pass of a sweep, after its forward pass; events are times at which flows end."""
    rows = [torch.from_numpy(row[None].copy()).to("cuda") for row in (world.capacity, world.latency)]
    for row in rows:
        row.requires_grad_()
    result = sweep(world.graph, *rows)
    loss = result.finish.sum()

    def backward() -> int:
        loss.backward()
        return len(np.unique(result.finish.detach().cpu().numpy()))

    return backward


def ladder(device: DeviceMemory) -> Callable[[], int]:
    """Steps of one ladder of chains over placements of a DLRM; an event is a proposal."""
    dlrm = job("topoopt", 4, SERVERS)
    placed = choices(SERVERS, dlrm.strategy.placement.values())
    model = Contention(dlrm.workload, dlrm.fabric, placed.holders, device=device)
    settings = budget(dlrm.workload, placed), moves(dlrm.workload, placed), shares(SearchSettings.acceptance, CHAINS)
    walk = Tempering(model, *settings, 7, 0)
    hybrid = placed.placement(dlrm.workload, dlrm.strategy)
    start = walk.begin(np.tile(hybrid, (1, CHAINS, 1)), SearchSettings().kept_states)
    ladders = walk.ladders()
    ladders.resume({name: value for name, value in vars(start).items() if name != "step"})

    def steps() -> int:
        ladders.advance(0, STEPS)
        return CHAINS * STEPS

    return steps


if __name__ == "__main__":
    main()
