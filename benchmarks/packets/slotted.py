"""How fast the slotted fidelity is, and what memory it takes.

    python benchmarks/packets/slotted.py                       one core, each load, then two cores over one
    python benchmarks/packets/slotted.py loads=0.5 worlds=0
    python benchmarks/packets/slotted.py loads= worlds=0 failures=yes    what failures take of the bandwidth

Prints ``path.metric value`` lines. A cell-hop is a cell sent by one uplink; the time is the CPU time of the run loop
with the world packed in memory, the best of ``ROUNDS``. The network is that of Sirius 7: 128 racks of 24 servers, 12
uplinks of 50 Gb/s, cells of 562 B, slots of 100 ns, Q = 4; 200,000 flows of 100 KB between random servers arrive as a
Poisson process, at loads relative to 8 uplinks. ``state`` is what a world takes while it runs, ``arrays`` what Python
hands over. Targets: 50 million cell-hops per second and core, 1.9 times as many on two cores with 64 worlds.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from topoflow import _C
from topoflow.engine.device import HOST_MEMORY
from topoflow.engine.slotted import simulate_cells
from topoflow.engine.slotted.batch import SlottedBatch, pack
from topoflow.engine.slotted.cells import Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.schedule import CircuitSchedule, Failed

ROUNDS = 3
SEED = 1
EPOCHS = 400  # of a network that lost a part
FAILURES = {
    "nothing": Failed(),
    "rack": Failed(nodes=(5,)),
    "four_racks": Failed(nodes=(5, 40, 77, 100)),
    "grating": Failed(gratings=((0, 3),)),
    "transceiver": Failed(transceivers=((5, 2),)),
}
RACKS, SERVERS, UPLINKS = 128, 24, 12
SLOT = 100_000  # ps
CELL = 562  # B
PACE = round(CELL * 8 / (8 * 50 / SERVERS) * 1e3)  # ps: the cables of a rack's servers have 8 * 50 Gb/s in all


def world(load: float, flows: int = 200_000, size: int = 100_000) -> Cells:
    draw = np.random.default_rng(SEED)
    servers = RACKS * SERVERS
    source = draw.integers(0, servers, flows)
    gap = size / CELL * PACE / (load * servers)  # ps between two arrivals
    return Cells(
        name=f"load {load:g}",
        schedule=CircuitSchedule(RACKS, UPLINKS),
        slot=SLOT,
        node=np.repeat(np.arange(RACKS, dtype=np.int32), SERVERS),
        pace=PACE,
        cells=np.full(flows, -(-size // CELL), np.int32),
        source=source.astype(np.int32),
        target=((source + draw.integers(1, servers, flows)) % servers).astype(np.int32),
        delay=np.zeros(flows, np.int64),
        release=np.cumsum(draw.exponential(gap, flows)).astype(np.int64),
        after_offsets=np.zeros(flows + 1, np.int64),
        after=np.zeros(0, np.int32),
    )


def timed(batch: SlottedBatch, threads: int) -> tuple[float, float, int]:
    """CPU and wall seconds, and the bytes of state."""
    batch.arrays["status"][:] = 0
    cpu, wall = time.process_time(), time.perf_counter()
    state = _C.slots(batch.arrays, HOST_MEMORY, 0, threads)
    measurement = time.process_time() - cpu, time.perf_counter() - wall, state
    if (batch.arrays["status"] != _C.DONE).any():
        raise RuntimeError(f"worlds must be simulated to their end, got status {batch.arrays['status']}")
    return measurement


def one_core(load: float) -> None:
    batch = pack([world(load)], SlottedSettings(seed=SEED))
    cpu, _, state = min(timed(batch, 1) for _ in range(ROUNDS))
    hops = int(batch.arrays["hops"].sum())
    time_ms = (batch.arrays["finish"] - batch.arrays["release"]) / 1e9
    name = f"load_{load:g}"
    print(f"{name}.million_cell_hops {hops / 1e6:.1f}")
    print(f"{name}.epochs {batch.arrays['epochs'][0]}")
    print(f"{name}.completion_ms_p99 {np.percentile(time_ms, 99):.3f}")
    print(f"{name}.cpu_s {cpu:.3f}")
    print(f"{name}.million_cell_hops_per_s {hops / cpu / 1e6:.1f}")
    print(f"{name}.state_mb {state / 1e6:.2f}")
    print(f"{name}.arrays_mb {sum(array.nbytes for array in batch.arrays.values()) / 1e6:.2f}", flush=True)


def two_cores(worlds: int) -> None:
    """Wall time: a machine that does something else spoils it."""
    one = world(0.5, 5000)
    batch = pack([replace(one, seed=seed) for seed in range(worlds)], SlottedSettings(seed=SEED))
    walls = {threads: min(timed(batch, threads)[1] for _ in range(ROUNDS)) for threads in (1, 2)}
    print(f"worlds_{worlds}.two_cores_over_one {walls[1] / walls[2]:.2f}", flush=True)


def failures() -> None:
    """Cells between all pairs of racks without end: what a rack that works receives in an epoch, and of that before."""
    full_rate = 0.0
    for name, failed in FAILURES.items():
        schedule = CircuitSchedule(RACKS, UPLINKS, failed)
        works = np.setdiff1d(np.arange(RACKS), failed.nodes).astype(np.int32)
        source, target = (axis.ravel() for axis in np.meshgrid(works, works, indexing="ij"))
        source, target = source[source != target], target[source != target]
        tasks = len(source)
        cells = Cells(
            name=name,
            schedule=schedule,
            slot=SLOT,
            node=np.arange(RACKS, dtype=np.int32),
            pace=1,
            cells=np.full(tasks, EPOCHS, np.int32),
            source=source,
            target=target,
            delay=np.zeros(tasks, np.int64),
            release=np.zeros(tasks, np.int64),
            after_offsets=np.zeros(tasks + 1, np.int64),
            after=np.zeros(0, np.int32),
            until=EPOCHS * schedule.slots * SLOT,
        )
        (result,) = simulate_cells([cells], SlottedSettings(credits=None, seed=SEED))
        rate = float(result.delivered.sum()) / len(works) / EPOCHS
        full_rate = full_rate or rate
        print(f"{name}.cells_per_rack_and_epoch {rate:.2f}")
        print(f"{name}.share {rate / full_rate:.4f}", flush=True)


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    loads, worlds = options.pop("loads", "0.25,0.5,1"), int(options.pop("worlds", "64"))
    lose = options.pop("failures", "no") == "yes"
    if options:
        sys.exit(f"loads, worlds, failures: must be all that is given, got {' '.join(sys.argv[1:])}")
    for load in filter(None, loads.split(",")):
        one_core(float(load))
    if worlds:
        two_cores(worlds)
    if lose:
        failures()


if __name__ == "__main__":
    main()
