"""Many worlds at once: ``batch``, 256 C-worlds on one core and on two; ``gpu``, 4,096 of them on a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from measure import Kernel, in_turn, on_gpu, say
from peers.simgrid_peer import SimGrid
from worlds.cases import CASES, many_c

from topoflow import _C
from topoflow.engine.base import World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid.batch import SHARED, pack

BATCH, GPU_BATCH = 256, 4096


def batch(merge: float) -> None:
    """Worlds per second of wall time, with one thread and with two."""
    kernel = Kernel.of(many_c(BATCH))
    one, two = in_turn(lambda: kernel.run(merge=merge, threads=1).wall, lambda: kernel.run(merge=merge, threads=2).wall)
    say("fluid.batch.worlds", BATCH)
    say("fluid.batch.one_core.worlds_per_second", BATCH / one)
    say("fluid.batch.two_cores.worlds_per_second", BATCH / two)
    say("fluid.batch.two_cores.ratio_to_one_core", one / two)


def gpu(peer: SimGrid | None, merge: float, worlds: Sequence[World], path: str = "fluid.gpu") -> None:
    """Worlds of case C per second, arrays on the GPU, and with the copies to it and back; next to SimGrid on one core.

    Raises ``ValueError`` where there is no GPU, or topoflow._C was built without CUDA.
    """
    device = DeviceMemory.named("cuda")
    packed = pack(worlds).arrays
    arrays = {name: array for name, array in packed.items() if name not in SHARED}

    def put() -> dict[str, Any]:
        return device.put(arrays) | {"status": device.shared(len(worlds)), "cancel": device.flag()}

    def launch(on_device: dict[str, Any]) -> None:
        on_device["status"].zero_()
        _C.simulate(on_device, device.memory, device.stream, merge, 0)

    def round_trip() -> None:
        on_device = put()
        launch(on_device)
        for name in ("start", "finish"):
            device.numpy(on_device[name])

    resident = put()
    kernel = on_gpu(lambda: launch(resident))
    status = np.asarray(resident["status"])
    if np.any(status != _C.DONE):
        raise RuntimeError(
            f"gpu: every world must be simulated, got {np.count_nonzero(status != _C.DONE)} that were not"
        )
    say(f"{path}.worlds", len(worlds))
    say(f"{path}.worlds_per_second", len(worlds) / kernel)
    say(f"{path}.with_copies.worlds_per_second", len(worlds) / on_gpu(round_trip))
    if peer is not None:
        files = [peer.write(case) for case in CASES["C"]()]
        simgrid = statistics.fmean(peer.run(file).seconds for file in files)
        say(f"{path}.simgrid_worlds_per_second", 1 / simgrid)
        say(f"{path}.ratio_to_simgrid", simgrid * len(worlds) / kernel)
