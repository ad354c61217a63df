"""Exchange: an all-to-all on one network, for all message sizes as one batch; the base of MOTION's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from topoflow.case.base import Job
from topoflow.engine.base import Timeline, World
from topoflow.report.draw.axis import Axis
from topoflow.study.figures.base import Experiment, Heading, Row
from topoflow.study.figures.setup import Setup
from topoflow.units import check_positive
from topoflow.workload.messages.all_to_all import AllToAll

SIZE = Axis("message", "B", log=True)


@dataclass(frozen=True)
class Exchange(Experiment):
    """An exchange among ``servers`` of the grid on the network of each series, for each message size in ``sizes``."""

    sizes: Sequence[float]  # B
    in_place_of: ClassVar[Mapping[str, str]] = {"workload.bytes": "sizes"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("grid", "servers")
        if not self.sizes:
            raise ValueError("experiment.sizes: must have an entry, got none")
        for size in self.sizes:
            check_positive("experiment.sizes", size)

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each message size."""
        world = exchange_on(setup)
        graph = world.graph
        worlds = [
            replace(world, name=f"{size:g} B", graph=replace(graph, bytes=np.full(graph.tasks, float(size))))
            for size in self.sizes
        ]
        timelines = setup.problem.fidelity.simulate(worlds, setup.run)
        return [
            {"bytes": size, **crossing_of(world), **_times(timeline)}
            for size, timeline in zip(self.sizes, timelines, strict=True)
        ]

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "bytes": Heading("message", "B"),
            "slowest_bytes": Heading("message of the least", "B"),
            "fastest_bytes": Heading("message of the greatest", "B"),
            "completion": Heading("completion time", "s"),
            "least": Heading("least speedup", "x"),
            "greatest": Heading("greatest speedup", "x"),
            "crossing": Heading("messages that cross the spine", "%"),
            "application": Heading("time over that of the baseline", "%"),
            "ratio": Heading("communication", "%"),
        }


def exchange_on(setup: Setup) -> World:
    """Place the exchange of a point on its network. Raises ``ValueError`` for a workload that is no exchange."""
    problem = setup.problem
    if not isinstance(problem.workload, AllToAll):
        raise ValueError(f"workload: must be all_to_all for this figure, got {problem.workload.name}")
    traffic = Job(problem.workload, problem.start).traffic
    return setup.placer.place(traffic, f"{setup.servers} servers")


def crossing_of(world: World) -> Row:
    """Count the messages, and the share of N^2 that cross more than the two links of a leaf.

    Messages of a server to itself are not sent, but count among the N^2, as in MOTION.
    """
    graph = world.graph
    assert world.fabric is not None
    links = np.diff(graph.path_offsets)[graph.path]
    far = int(np.count_nonzero(links > 2))
    return {"messages": graph.tasks, "crossing": far / world.fabric.servers**2}


def _times(timeline: Timeline) -> Row:
    """Return the arrival of the last message and, after a simulation of packets, the latencies at ports."""
    ports = timeline.ports
    latency: Row = {}
    if ports is not None:
        latency = {
            "packet_hops": int(ports.packets.sum()),
            "latency_mean": ports.latency.mean,
            "latency_p99": ports.latency.quantile(0.99),
        }
    return {"completion": timeline.makespan, **latency}
