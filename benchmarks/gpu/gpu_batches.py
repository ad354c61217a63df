"""What surrounds the kernel of a batch on a GPU: packing, copies, pieces on one stream and on two, gradients.

    python benchmarks/gpu/gpu_batches.py [worlds=2048] [pieces=8] [device=cuda]

Prints "path.metric value". ``one_stream`` and ``two_streams`` are s for a batch that is cut into pieces: copies to the
GPU, kernels, and copies back. With device=cpu only what the host does is measured.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import topoflow

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import say
from worlds.cases import many_c

from topoflow.engine import fluid, launch
from topoflow.engine.base import Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid.batch import pack
from topoflow.engine.observer import Silent

REPEATS = 3
GRADIENTS = (1, 64, 1024)  # worlds


def seconds(call: Callable[[], object], device: DeviceMemory) -> float:
    """Median wall time of a call, after one that is not counted."""
    times = []
    for _ in range(1 + REPEATS):
        device.wait()
        begin = time.perf_counter()
        call()
        device.wait()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def batches(worlds: Sequence[World], device: DeviceMemory, count: int) -> None:
    size = -(-len(worlds) // count)
    cpu, host = DeviceMemory(), len(worlds)
    say("batches.worlds", host)
    say("batches.host.pack_ms_per_world", 1e3 * seconds(lambda: pack(worlds), cpu) / host)
    packed = {worlds[first].name: pack(worlds[first : first + size]) for first in range(0, host, size)}
    arrays = {name: batch.arrays for name, batch in packed.items()}
    say("batches.host.mb", sum(array.nbytes for batch in arrays.values() for array in batch.values()) / 1e6)
    if not device.on_cuda:
        return
    run = Run(device)

    def pieces(batch_worlds: Sequence[World], memory: int) -> Iterator[Sequence[World]]:
        for first in range(0, len(batch_worlds), size):
            yield batch_worlds[first : first + size]

    def steps(batch_worlds: Sequence[World], memory: DeviceMemory) -> launch.Steps[list[World]]:
        batch = packed[batch_worlds[0].name]
        batch.arrays["status"][:] = 0
        yield from fluid._run(batch, memory, run, 0.0)
        return list(batch_worlds)

    def simulate() -> None:
        launch.in_pieces(worlds, device, Silent(), pieces, steps)

    for kind in ("pageable", "pinned"):
        through = replace(device, pins=kind == "pinned")

        def copies(through: DeviceMemory = through) -> None:
            for array in arrays.values():
                on_device = through.put(array)
                for name in ("start", "finish"):
                    through.numpy(on_device[name])

        begin = time.perf_counter()
        copies()
        device.wait()
        say(f"batches.copies.{kind}.first_s", time.perf_counter() - begin)
        say(f"batches.copies.{kind}.s", seconds(copies, device))
    for streams, name in ((1, "one_stream"), (2, "two_streams")):
        launch.STREAMS = streams
        say(f"batches.{name}.s", seconds(simulate, device))
    say("batches.fluid.worlds_per_second", host / seconds(lambda: fluid.Fluid().simulate(worlds, Run(device)), device))


def gradients(device: DeviceMemory) -> None:
    """Forward and backward passes of a sweep over a DLRM on a torus of 8 servers, on the device and the CPU."""
    world = topoflow.compare("workload.tables=16", servers=8, fabric="torus")[0].timeline.world
    rows = np.tile(world.capacity, (max(GRADIENTS), 1)) * np.random.default_rng(0).uniform(0.5, 2, (max(GRADIENTS), 1))
    for memory in {"cpu": DeviceMemory(torch.device("cpu")), "cuda": device}.values():
        for count in GRADIENTS:
            capacity = torch.tensor(rows[:count], requires_grad=True, device=memory.torch)
            latency = torch.tensor(np.tile(world.latency, (count, 1)), device=memory.torch)
            losses: list[Any] = []

            def forward(capacity: Any = capacity, latency: Any = latency, losses: list[Any] = losses) -> None:
                losses[:] = [fluid.sweep(world.graph, capacity, latency).makespan.sum()]

            def both(forward: Callable[[], None] = forward, losses: list[Any] = losses) -> None:
                forward()
                losses[0].backward()

            forward_s, both_s = seconds(forward, memory), seconds(both, memory)
            say(f"gradients.{memory.torch.type}.{count}.forward_s", forward_s)
            say(f"gradients.{memory.torch.type}.{count}.backward_s", both_s - forward_s)


def main(words: Sequence[str]) -> None:
    options = {"worlds": "2048", "pieces": "8", "device": "cuda"} | dict(word.partition("=")[::2] for word in words)
    device = DeviceMemory.named(options["device"])
    batches(many_c(int(options["worlds"])), device, int(options["pieces"]))
    if device.on_cuda:
        gradients(device)


if __name__ == "__main__":
    main(sys.argv[1:])
