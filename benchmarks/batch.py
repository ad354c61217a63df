"""Many worlds at once: ``batch``, 256 C-worlds on one core and on two; ``gpu``, 4,096 of them on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from cases import CASES, many_c
from measure import ROUNDS, Kernel, in_turn, say
from simgrid_peer import SimGrid

from topoflow import _C
from topoflow.engine.batch import pack
from topoflow.engine.fluid import MEMORY

BATCH, GPU_BATCH = 256, 4096


def batch(merge: float) -> None:
    """Worlds per second of wall time, with one thread and with two."""
    kernel = Kernel.of(many_c(BATCH))
    one, two = in_turn(lambda: kernel.run(merge=merge, threads=1).wall, lambda: kernel.run(merge=merge, threads=2).wall)
    say("fluid.batch.worlds", BATCH)
    say("fluid.batch.one_core.worlds_per_second", BATCH / one)
    say("fluid.batch.two_cores.worlds_per_second", BATCH / two)
    say("fluid.batch.two_cores.ratio_to_one_core", one / two)


def gpu(peer: SimGrid | None, merge: float) -> None:
    """Worlds per second with the arrays on the GPU, and with the copies there and back; SimGrid beside on one core.

    Raises ``ValueError`` where there is no GPU, or topoflow._C was built without CUDA.
    """
    torch = _torch()
    arrays = pack(many_c(GPU_BATCH)).arrays
    stream = torch.cuda.current_stream().cuda_stream

    def copied() -> dict[str, Any]:
        return {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}

    def launch(tensors: dict[str, Any]) -> None:
        tensors["status"].zero_()
        _C.simulate(tensors, MEMORY, stream, merge, 0)

    def round_trip() -> None:
        tensors = copied()
        launch(tensors)
        for name in ("start", "finish", "status"):
            tensors[name].cpu()

    resident = copied()
    launch(resident)  # the first launch of a kernel loads it
    if bool((resident["status"] != _C.DONE).any()):
        raise RuntimeError(f"gpu: every world must be simulated, got {resident['status'].unique().tolist()}")
    kernel = _median(lambda: launch(resident), torch.cuda.synchronize)
    copies = _median(round_trip, torch.cuda.synchronize)
    say("fluid.gpu.worlds", GPU_BATCH)
    say("fluid.gpu.worlds_per_second", GPU_BATCH / kernel)
    say("fluid.gpu.with_copies.worlds_per_second", GPU_BATCH / copies)
    if peer is not None:
        files = [peer.write(case) for case in CASES["C"]()]
        simgrid = statistics.fmean(peer.run(file).seconds for file in files)
        say("fluid.gpu.simgrid_worlds_per_second", 1 / simgrid)
        say("fluid.gpu.ratio_to_simgrid", simgrid * GPU_BATCH / kernel)


def _torch() -> Any:
    if not _C.has_cuda:
        raise ValueError("gpu: topoflow._C must be built with nvcc on the path, got a CPU build")
    try:
        import torch
    except ImportError:
        raise ValueError("gpu: torch must be installed, run `pip install 'topoflow[torch]'`") from None
    if not torch.cuda.is_available():
        raise ValueError("gpu: torch must see a GPU, got none")
    return torch


def _median(work: Callable[[], None], finish: Callable[[], None]) -> float:
    """Seconds of wall time until the device is done."""
    taken = []
    for _ in range(ROUNDS):
        finish()
        begin = time.perf_counter()
        work()
        finish()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)
