"""Simulate worlds in which links tie, in a build of topoflow._C that verifies the rates after every event.

    python tests/engine/checked_worlds.py cpu 0 1000

simulates the graphs 0 to 999, each with ``SPEEDS`` speeds of its links, with one thread and with two. Prints how many
worlds ran; a law that is broken ends the program with an error that names the worlds.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from ties import tied_world

from topoflow.engine.base import Run
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid

SPEEDS, BATCH = 10, 100


def main(device: str, first: int, count: int) -> None:
    run = Run(DeviceMemory.named(device), threads=2)
    ran = 0
    for seed in range(first, first + count, BATCH):
        graphs = [tied_world(number) for number in range(seed, min(seed + BATCH, first + count))]
        faster = 10 ** np.random.default_rng(seed).uniform(0, 1, SPEEDS)
        worlds = [replace(world, capacity=world.capacity * factor) for world in graphs for factor in faster]
        timelines = Fluid().simulate(worlds, run)
        for world, timeline in zip(worlds[::SPEEDS], timelines[::SPEEDS], strict=True):
            alone = Fluid().simulate([world], Run(run.device, threads=1))[0]
            assert np.array_equal(alone.finish, timeline.finish), f"{world.name}: depends on the number of threads"
        ran += len(worlds)
    print(ran, "worlds")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
