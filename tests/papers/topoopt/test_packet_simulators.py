"""An ideal switch against packet simulators on the authors' task graphs; their times are in benchmarks/results."""

from __future__ import annotations

from pathlib import Path

import pytest

from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic.lower import lower
from topoflow.units import gbps
from topoflow.workload.gpu import Gpu
from topoflow.workload.taskgraph import TaskGraph

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "packet_simulators.md"
GPU = Gpu("A100", {"float32": 19.5e12}, 1555e9, 300e9, 40e9)
DCTCP = {
    "100candle_16",
    "400candle_16",
    "10dlrm_16",
}  # where the released simulator's windows and losses count: see the results


def recorded() -> dict[str, tuple[float, float]]:
    """Seconds of the released simulator and of fair packets, by graph."""
    rows = [line.split("|")[1:] for line in RESULTS.read_text().splitlines() if line.startswith("| ")][2:]
    return {row[0].strip(): (float(row[1]) / 1e3, float(row[3]) / 1e3) for row in rows}


def test_every_graph_was_run_by_both(task_graphs: dict[str, Path]) -> None:
    assert set(recorded()) == set(task_graphs)


@pytest.mark.parametrize("name", recorded())
def test_an_ideal_switch_is_within_3_percent_of_fair_packets_and_5_percent_of_the_released_simulator(
    name: str, task_graphs: dict[str, Path]
) -> None:
    workload = TaskGraph(str(task_graphs[name]), GPU).build()
    traffic = lower(workload, AsCaptured().place(workload, None))
    bandwidth = gbps(int(name.rstrip("_0123456789").rstrip("abcdefghijklmnopqrstuvwxyz")))
    fabric = IdealSwitch(bandwidth, degree=1, latency=1e-6).build(traffic.servers, traffic.demand())
    makespan = Fluid().simulate([place(traffic, fabric, name=name)])[0].makespan
    released, fair = recorded()[name]
    assert makespan == pytest.approx(fair, rel=0.03)
    if name not in DCTCP:
        assert makespan == pytest.approx(released, rel=0.05)
