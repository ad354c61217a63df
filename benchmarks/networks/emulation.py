"""Emulated jobs next to what was predicted: the table of ``benchmarks/results/emulation.md``.

    python benchmarks/networks/emulation.py [SERVERS,.. [DEGREES,.. [BYTES]]] > rows.txt

Needs root, and torch. BYTES are those of the gradients for an interface. For each number of servers and interfaces:
rings alone; with transfers to the opposite server, which others pass on; one switch of the same interfaces
and DDP's own order; the rings less the circuit from 0 to 1 (of one interface there is no way round). ``unshaped``: the
same without rates, as fast as this machine is.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from topoflow.demand import Demand
from topoflow.emulate.base import EmulatedJob, emulate, world_of
from topoflow.emulate.scenario import Scenario
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import simulate
from topoflow.fabric.topoopt import TopoOpt
from topoflow.search.base import Plan
from topoflow.search.routes import plan_of
from topoflow.strategy.as_captured import Recorded
from topoflow.units import gbps

RATE = 20e6 / 8  # B/s of an interface
PER_RING = 5_000_000  # B; 3.5 s of 8 servers
TRANSFER = 1_000_000  # B
ITERATIONS = 2


def plan(servers: int, degree: int) -> Plan:
    """TopoOpt's rings of data parallelism."""
    everyone = tuple(range(servers))
    demand = Demand(servers, {everyone: 1.0})
    fabric = TopoOpt(gbps(100), degree, 0.0, 4).build(servers, demand)
    return plan_of(fabric, EmulatedJob(4, buckets=1).traffic(servers), Recorded("as_captured", servers))


def measure(name: str, scenario: Scenario, job: EmulatedJob, shaped: bool = True) -> None:
    """Print a row: predicted and measured iteration (s), difference (%), least and most bytes of a link (%)."""
    fabric = scenario.fabric()
    (predicted,) = simulate([world_of(fabric, job)], Fluid())
    with tempfile.TemporaryDirectory() as folder:
        measured = emulate(fabric, job, scenario.orders, Path(folder), shaped)
    used = predicted.link_bytes > 0
    ratio = 100 * (measured.timeline.link_bytes[used] / predicted.link_bytes[used] - 1)
    time = measured.timeline.makespan
    reduce = np.median(measured.reduce_times) / (predicted.task_finish[-1] - predicted.task_start[-1]) - 1
    cells = [
        f"{scenario.plan.servers} | {scenario.plan.degree} | {name} | {predicted.makespan:.3f} | {time:.3f}",
        f"{100 * (time / predicted.makespan - 1):+.1f} % | {100 * reduce:+.1f} %",
        f"{ratio.min():+.1f} to {ratio.max():+.1f} %",
        " ".join(f"{seconds:.2f}" for seconds in measured.iteration_times),
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def main(servers: list[int], degrees: list[int], per_ring: int) -> None:
    for count in servers:
        for degree in degrees:
            scenario = Scenario(plan(count, degree), RATE)
            job = EmulatedJob(per_ring * degree, (), ITERATIONS)
            opposite = tuple((i, (i + count // 2) % count, TRANSFER) for i in range(count))
            measure("rings", scenario, job)
            measure("rings and transfers", scenario, replace(job, transfers=opposite))
            measure("switch", replace(scenario, switch=True, own_order=True), job)
            if degree > 1:
                measure("circuit 0 to 1 failed", replace(scenario, failed=(0, 1)), job)
            if degree == max(degrees):
                measure("unshaped", scenario, job, shaped=False)


if __name__ == "__main__":
    counts, interfaces, per_ring = [*sys.argv[1:], *("8,12", "1,2,4", str(PER_RING))[len(sys.argv) - 1 :]]
    main([*map(int, counts.split(","))], [*map(int, interfaces.split(","))], int(per_ring))
