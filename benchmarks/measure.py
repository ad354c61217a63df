"""Clocks and lines: the kernel alone on packed arrays, runs in alternation, ``path.metric value``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow import _C
from topoflow.engine.base import Floats, World
from topoflow.engine.device import HOST_MEMORY
from topoflow.engine.fluid.batch import FluidBatch, pack

SHORT = 0.05  # s: what is shorter is repeated until that much is measured
LONG = 30.0  # s: what is longer is measured once
ROUNDS = 3  # of us, them, us, them, ..


@dataclass(frozen=True)
class Run:
    """One run of the kernel over a batch."""

    cpu: float  # s, all threads
    wall: float  # s
    finish: Floats  # [T] s, the worlds one after the other
    bytes: int  # arrays of the batch and the state of one team


@dataclass(frozen=True)
class Kernel:
    """A batch of worlds, packed once, so that a run is what ``topoflow._C`` does and nothing else."""

    batch: FluidBatch

    @staticmethod
    def of(worlds: Sequence[World]) -> Kernel:
        return Kernel(pack(worlds))

    def run(self, *, merge: float = 0.0, threads: int = 1) -> Run:
        """Raises ``RuntimeError`` when a world could not be simulated."""
        arrays = self.batch.arrays
        arrays["status"][:] = 0
        cpu, wall = time.process_time(), time.perf_counter()
        state = _C.simulate(arrays, HOST_MEMORY, 0, merge, threads)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if np.any(arrays["status"] != _C.DONE):
            raise RuntimeError(f"{self.batch.worlds[0].name}: must be simulated, got status {arrays['status']}")
        return Run(cpu, wall, arrays["finish"].copy(), state + sum(array.nbytes for array in arrays.values()))


def repeated(seconds: Callable[[], float]) -> float:
    """The median of as many runs as fill ``SHORT``."""
    times = [seconds()]
    while sum(times) < SHORT:
        times.append(seconds())
    return statistics.median(times)


def in_turn(*clocks: Callable[[], float]) -> list[float]:
    """The medians of ``ROUNDS`` rounds in which each has its turn; of one where a round is ``LONG``."""
    rounds = [[clock() for clock in clocks]]
    while len(rounds) < ROUNDS and sum(rounds[0]) < LONG:
        rounds.append([clock() for clock in clocks])
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def on_gpu(work: Callable[[], object]) -> float:
    """The median wall time of ``work`` until the device is done, of ``ROUNDS``; one more before loads the kernels."""
    import torch

    times = []
    for _ in range(1 + ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def difference(one: Floats, other: Floats) -> float:
    """The largest relative difference between two sets of finish times; two zeros are equal."""
    larger = np.maximum(np.abs(one), np.abs(other))
    return float(np.max(np.abs(one - other) / np.where(larger > 0, larger, 1.0), initial=0.0))


def say(path: str, value: float) -> None:
    """One line of the result; a ratio has 4 digits, a count all."""
    print(f"{path} {value}" if isinstance(value, int) else f"{path} {value:.4g}", flush=True)


def settings(arguments: list[str], defaults: dict[str, int]) -> dict[str, int]:
    """``defaults`` as the command line changes them. Raises ``ValueError`` for what is none."""
    chosen = dict(defaults)
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in defaults or not value.isdigit() or int(value) < 1:
            raise ValueError(f"{argument}: must be one of {', '.join(defaults)} and a whole number of at least 1")
        chosen[key] = int(value)
    return chosen
