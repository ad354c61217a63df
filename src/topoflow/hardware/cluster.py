"""A cluster: equal nodes, whose GPUs are the endpoints of a job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from topoflow.hardware.node import Device, Node, Port
from topoflow.units import check_count


@dataclass(frozen=True)
class Cluster:
    """Equal nodes with ``per_node`` GPUs in use on each; GPU r is number r % ``per_node`` of node r // ``per_node``.

    Raises ``ValueError`` where the GPUs do not fill whole nodes, or have no way out of their node.
    """

    node: Node
    gpus: int
    per_node: int = 0  # 0: all of a node, or all GPUs if they are fewer

    def __post_init__(self) -> None:
        check_count("gpus", self.gpus)
        size = len(self.node.gpus)
        if not 0 <= self.per_node <= size:
            raise ValueError(f"gpus_per_node: must be within 1..{size} of node {self.node.name}, got {self.per_node}")
        if size == 0:
            raise ValueError(f"node {self.node.name}: must have GPUs, got none")
        object.__setattr__(self, "per_node", min(self.per_node or size, self.gpus))
        if self.gpus % self.per_node:
            raise ValueError(f"gpus: must fill whole nodes of {self.per_node}, got {self.gpus}")
        if self.nodes > 1 and not self.ports:
            raise ValueError(f"gpus: node {self.node.name} has no NIC, so at most {size}, got {self.gpus}")

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.gpus // self.per_node

    def endpoint(self, gpus: int) -> str:
        """Return what an endpoint is called that stands for as many ``gpus``."""
        return "GPU" if gpus == 1 else "node" if gpus == self.per_node else "pipeline rank"

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs of a node that are in use."""
        return self.node.gpus[: self.per_node]

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """The ports of a node that these GPUs use, by rail."""
        used = {port for gpu in self.devices for port in self.node.ports_of(gpu)}
        return tuple(sorted(used, key=lambda port: (port.rail, port.plane, port.nic)))
