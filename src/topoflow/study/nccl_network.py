"""How much a network slows down what a collective of NCCL sends between nodes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from topoflow.collectives.algorithms import named
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl_time import NIC, NcclPrediction
from topoflow.demand import Demand
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.attached import Attached
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.hardware.cluster import Cluster
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check
from topoflow.traffic.base import Traffic
from topoflow.traffic.tasks import Transfer
from topoflow.units import gbps

BYTES = 1e9  # that a node sends
NEGLIGIBLE = 1e-6


class NcclNetwork:
    """The network ``name`` of ``fabric=`` between the nodes of a communicator, with simulations that were made."""

    def __init__(self, name: str, comm: Communicator, pxn: bool) -> None:
        self.comm = comm
        self._cluster = Cluster(comm.node, comm.ranks, comm.used)
        ports = [f"bandwidth_gbps={max(comm.ports) / gbps(1):g}", "degree=1"]
        self._design: FabricDesign = build(Grid.of([f"fabric={name}", *ports], check)[0], "fabric")
        self._pxn = pxn
        self._found: dict[str, tuple[float, str]] = {}
        self._fabric = self._attached(self._design)

    def on(self, prediction: NcclPrediction) -> NcclPrediction:
        """Return the prediction with the time that bytes take on this network, named by the switches that limit it."""
        algorithm = prediction.choice.algorithm
        if NIC not in prediction.terms:
            return prediction
        if algorithm not in self._found:
            self._found[algorithm] = self._slowdown(algorithm)
        slowdown, limit = self._found[algorithm]
        terms = {limit if name == NIC else name: value for name, value in prediction.terms.items()}
        return replace(prediction, terms=terms | {limit: prediction.terms[NIC] * slowdown})

    def _slowdown(self, algorithm: str) -> tuple[float, str]:
        """Return how many times as long bytes take as from port to port alone, and the part that limits them."""
        ideal = self._attached(IdealSwitch(max(self.comm.ports), 1, 1e-6))
        (least, _), (time, limit) = (self._sent(algorithm, fabric) for fabric in (ideal, self._fabric))
        slowdown = time / least
        return (slowdown, limit) if slowdown > 1 + NEGLIGIBLE else (1.0, NIC)

    def _sent(self, algorithm: str, fabric: Fabric) -> tuple[float, str]:
        """Return the time (s) in which nodes send, and the kind of switch at the busiest link."""
        size = self._cluster.per_node
        gpus = range(1) if fabric.is_folded else range(size)
        tasks = [
            Transfer(share * BYTES / len(gpus), *(end if fabric.is_folded else end * size + gpu for end in (a, b)))
            for a, b, share in named(algorithm).edges(self.comm.nodes)
            for gpu in gpus
        ]
        traffic = Traffic.from_tasks(algorithm, fabric.servers, tasks)
        (timeline,) = Fluid().simulate([place(traffic, fabric, name=fabric.name)])
        busiest = int(np.argmax(timeline.link_bytes / fabric.bandwidth))
        upper = max(fabric.source[busiest], fabric.target[busiest])  # layers are numbered from the lowest on
        return timeline.makespan, re.sub(r"[\d. ]+$", "", fabric.nodes[upper])

    def _attached(self, design: FabricDesign) -> Fabric:
        cluster = self._cluster
        folded = cluster.node.switched and cluster.per_node > 1
        servers = cluster.nodes if folded else cluster.gpus
        return Attached(design, cluster, self._pxn, folded).build(servers, Demand(servers))
