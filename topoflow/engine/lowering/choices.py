"""Lowering: the choices by which traffic becomes a world on a fabric."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.engine.base import World
from topoflow.engine.lowering.algorithms import names
from topoflow.engine.lowering.blocks import RINGS
from topoflow.engine.lowering.placement import place
from topoflow.engine.lowering.routing import routings
from topoflow.fabric.base import Fabric
from topoflow.traffic.base import Traffic


@dataclass(frozen=True)
class Lowering:
    """How collectives become sends, and sends get paths; what each choice means is said by ``placement.place``."""

    all_reduce: str = "hierarchical"  # the algorithm of all-reduces that name none
    routing: str = "ecmp"
    rings: str = "steps"
    seed: int = 0  # of the choice among equal paths

    def __post_init__(self) -> None:
        allowed = {"all_reduce": names("all_reduce"), "routing": routings(), "rings": RINGS}
        for key, options in allowed.items():
            if getattr(self, key) not in options:
                raise ValueError(f"{key}: must be one of {', '.join(options)}, got {getattr(self, key)!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise ValueError(f"seed: must be a whole number from 0 to 2^63 - 1, got {self.seed!r}")

    def place(self, traffic: Traffic, fabric: Fabric, name: str) -> World:
        """``traffic`` as a world on ``fabric``. Raises ``ValueError`` as ``placement.place`` does."""
        return place(
            traffic,
            fabric,
            name=name,
            all_reduce=self.all_reduce,
            routing=self.routing,
            rings=self.rings,
            seed=self.seed,
        )
