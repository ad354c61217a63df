"""Worlds of case C per second that the fluid kernel should reach on a GPU, from counts that need none.

    python benchmarks/gpu_prediction.py

Prints ``path.metric value`` lines, which ``benchmarks/results/gpu_predictions.txt`` keeps. A run on a GPU
(``throughput.py cases=gpu``) tests the model, which has three bounds, and predicts the lowest:

    latency    a team waits for what it reads: its chain of requests, some of which are under way at once, times the
               latency of where they lie, its barriers and exchanges between lanes, and its instructions
    issue      instructions of all teams of a multiprocessor over what its schedulers issue
    memory     sectors of all teams over the bandwidth, where their state does not fit in the L2 cache

``first`` is the model as it was before the first run, and its kernels: ``before`` is a block of 64 threads for each
world, ``after`` a warp, whose counts per event of 54 hosts were those of 16 hosts times the ratio of the barriers,
192 / 113. It said 6,185 worlds/s, the H100 ran 1,046. ``corrected`` has what that run found (results/gpu_h100.md):
one request under way, counts of 54 hosts, and what instructions take that wait for nothing. It says 1,588 of that
kernel. ``landed`` is another model, of the kernel whose counts ``results/gpu_counts.txt`` has (``Levels``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COUNTS = Path(__file__).resolve().parent / "results" / "gpu_counts.txt"

EVENTS = 2862  # of case C
CASES = ((54, EVENTS), (16, 240))  # hosts and events: case C, and the same on a fat-tree of radix 4
STATE = 497e3  # B of one team (throughput.py cases=C)
SECTOR = 32  # B
WORLDS = 4096

# Cycles: Luo et al., Dissecting the NVIDIA Hopper Architecture through Microbenchmarking and Multiple Level Analysis,
# arXiv 2501.12084.
SHARED, L2, DRAM = 30, 270, 500
# Cycles: assumptions, of the order of a shared-memory access.
BLOCK_BARRIER, WARP_BARRIER, EXCHANGE = 40, 10, 30
# Instructions of a warp for each request to memory, address and branches included: the assembly of the loops.
PER_REQUEST = 12
# Share of the cycles in which a scheduler with a few warps that wait for memory issues. An assumption.
ISSUES = 0.7
# Of the sectors that are asked for, those that no cache has, where the state of all teams is larger. An assumption.
MISSES = 0.5


@dataclass(frozen=True)
class Model:
    under_way: float  # requests of one thread, at once
    instruction: float  # cycles from one instruction of a warp to the next, where it does not wait for memory


# An assumption: most loops read three to six arrays at a known index.
FIRST = Model(under_way=4, instruction=0)
# Nsight Compute, one warp on each multiprocessor: an instruction every 9.3 cycles, 55 % of which wait for memory.
CORRECTED = Model(under_way=1, instruction=9.3 * 0.45)


@dataclass(frozen=True)
class Gpu:
    processors: int
    clock: float  # Hz
    bandwidth: float  # B/s
    l2: float  # B


# NVIDIA's data sheets of the SXM modules; the clock under load is an assumption.
GPUS = {"h100": Gpu(132, 1.7e9, 3.35e12, 50e6), "h200": Gpu(132, 1.7e9, 4.8e12, 50e6)}


@dataclass(frozen=True)
class Kernel:
    """What one event of case C costs a team, on average."""

    teams: int  # on a multiprocessor
    barriers: float
    barrier: int  # cycles
    exchanges: float
    chain: float  # requests of global memory by the slowest warp
    shared_chain: float
    requests: float
    sectors: float

    def worlds_per_second(self, gpu: Gpu, model: Model) -> dict[str, float]:
        """The three bounds."""
        teams = min(self.teams * gpu.processors, WORLDS)
        fits = min(1.0, gpu.l2 / (teams * STATE))
        latency = fits * L2 + (1 - fits) * (MISSES * DRAM + (1 - MISSES) * L2)
        cycles = (self.chain * latency + self.shared_chain * SHARED) / model.under_way
        cycles += self.barriers * self.barrier + self.exchanges * EXCHANGE
        cycles += self.requests * PER_REQUEST * model.instruction
        return {
            "latency": teams * gpu.clock / (EVENTS * cycles),
            "issue": gpu.processors * 4 * ISSUES * gpu.clock / (EVENTS * self.requests * PER_REQUEST),
            "memory": gpu.bandwidth / (EVENTS * self.sectors * SECTOR * MISSES * max(1 - fits, 1e-9)),
        }


@dataclass(frozen=True)
class Levels:
    """Cycles of an event where each request is answered by the least level whose share of the team has its sectors.

    Not calibrated on a run: latencies, and the counts: ``chain`` requests that return something, how many of them find
    no sector in the last so many KiB that the team used (``gpu_counts.py``), and requests of shared memory.
    """

    chain: float
    past: dict[int, float]  # by KiB
    shared_chain: float
    requests: float  # of both kinds

    # Cycles: Luo et al., as above; of the first level: the same.
    L1, L2, DRAM = 41, 263, 479
    # Calibrated on the first run: 57,000 instructions (530,000 cycles, one every 9.3) for 5,549 requests, 45 % of whose
    # cycles wait for no memory.
    PER_REQUEST, INSTRUCTION = 57_000 / 5_549, 9.3 * 0.45
    # Calibrated on the second run (third version, 128 registers), with the counts of the kernel that landed: requests
    # under way from 0.579 s of one world, and how much longer an event takes in a full GPU than by this model.
    UNDER_WAY, CROWDED = 2.9, 2.4
    CLOCK = 1.98e9  # Hz, as the runs had it
    TEAMS = 16  # on a multiprocessor
    FIRST_LEVEL = 60 * 1024  # B that 16 teams leave of a multiprocessor's 256 KiB, 196 of which are shared memory

    @classmethod
    def read(cls, case: str) -> Levels:
        rows = (line.split() for line in COUNTS.read_text().splitlines() if line.startswith(f"fluid.{case}."))
        counts = {name.removeprefix(f"fluid.{case}."): float(value) for name, value in rows}
        past = {int(name.split("_")[-2]): value for name, value in counts.items() if "chain_past" in name}
        requests = counts["global_requests"] + counts["shared_requests"]
        return cls(counts["global_chain"], past, counts["shared_chain"], requests)

    def beyond(self, size: float) -> float:
        """Requests that ``size`` B of a cache do not answer: by the largest size counted that is no more."""
        known = [kib for kib in self.past if kib * 1024 <= size]
        return self.past[max(known)] if known else self.chain

    def cycles(self, first_level: float, second_level: float) -> float:
        """Of an event; B of either cache that the team has for itself."""
        far = self.beyond(second_level) if second_level < STATE else 0
        waits = self.chain * self.L1 + self.beyond(first_level) * (self.L2 - self.L1) + far * (self.DRAM - self.L2)
        return waits / self.UNDER_WAY + self.shared_chain * SHARED + self.requests * self.PER_REQUEST * self.INSTRUCTION

    def alone(self, gpu: Gpu, events: int) -> float:
        """s of a world that has the GPU for itself."""
        return events * self.cycles(self.FIRST_LEVEL, gpu.l2) / self.CLOCK

    def full(self, gpu: Gpu, events: int) -> float:
        """Worlds/s of a full GPU if teams did not wait for each other but for what caches do not hold."""
        teams = self.TEAMS * gpu.processors
        each = self.cycles(self.FIRST_LEVEL / self.TEAMS, gpu.l2 / teams)
        return teams * self.CLOCK / (events * each)


def landed(gpu_name: str, gpu: Gpu) -> None:
    for hosts, events in CASES:
        kernel, path = Levels.read(f"all_to_all_{hosts}_hosts"), f"prediction.{gpu_name}.landed.{hosts}_hosts"
        quiet = kernel.full(gpu, events)
        print(f"{path}.one_world.seconds {kernel.alone(gpu, events):.3g}")
        print(f"{path}.uncrowded.worlds_per_second {quiet:.0f}")
        print(f"{path}.worlds_per_second {quiet / Levels.CROWDED:.0f}")


# As it was counted before (commit 54c3a53; two warps, so twice the requests of the chain).
BEFORE = Kernel(14, 1003, BLOCK_BARRIER, 1418, 7000, 0, 14000, 25000)
# 16 warps on a multiprocessor by registers (128 of 65,536 for each of 32 threads).
AFTER = Kernel(16, 192, WARP_BARRIER, 248, 1072, 1581, 2958, 3672)
# The same kernel (773438f) as it is counted on 54 hosts; 20 warps by its 96 registers.
COUNTED = Kernel(20, 192, WARP_BARRIER, 459, 1553, 3394, 5549, 14229)

PREDICTIONS = {
    "before": (BEFORE, FIRST),
    "after": (AFTER, FIRST),
    "corrected": (COUNTED, CORRECTED),
}


def main() -> None:
    for gpu_name, gpu in GPUS.items():
        for name, (kernel, model) in PREDICTIONS.items():
            bounds = kernel.worlds_per_second(gpu, model)
            for bound, worlds in bounds.items():
                print(f"prediction.{gpu_name}.{name}.{bound}_bound.worlds_per_second {worlds:.0f}")
            print(f"prediction.{gpu_name}.{name}.worlds_per_second {min(bounds.values()):.0f}")
        landed(gpu_name, gpu)
    # as throughput.py names what it measures
    for path, (hosts, events) in {"fluid.gpu": CASES[0], "fluid.gpu.16_hosts": CASES[1]}.items():
        found = Levels.read(f"all_to_all_{hosts}_hosts").full(GPUS["h100"], events) / Levels.CROWDED
        print(f"{path}.worlds_per_second {found:.0f}")


if __name__ == "__main__":
    main()
