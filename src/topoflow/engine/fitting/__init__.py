"""The ``fitting`` fidelity: every network in the one that fits it, so that different ones can be compared.

slotted    networks of slots, whose links carry what a schedule or switches without buffers let through
fluid      all others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from topoflow.engine.base import Fidelity, Run, Timeline, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import simulate_each
from topoflow.engine.slotted import Slotted
from topoflow.engine.slotted.cells import has_slots
from topoflow.engine.slotted.settings import SlottedSettings


@dataclass(frozen=True)
class Fitting(SlottedSettings):
    """The settings of ``Slotted``, and ``merge`` of ``Fluid``."""

    name: ClassVar[str] = "fitting"
    lower_bound_of: ClassVar[str] = ""

    merge: float | str = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        Fluid(self.merge)

    def decided(self, sends: int) -> Fitting:
        """The same with ``merge`` a number, as ``Fluid`` decides it."""
        return replace(self, merge=Fluid(self.merge).decided(sends).merge)

    def chosen(self, world: World) -> Fidelity:
        """Return the fidelity that ``world`` is simulated in."""
        if has_slots(world.fabric):
            return Slotted(**{setting.name: getattr(self, setting.name) for setting in fields(SlottedSettings)})
        return Fluid(self.merge)

    def refuses(self, world: World) -> str | None:
        """Return why the chosen fidelity refuses ``world``; None: it does not."""
        return self.chosen(world).refuses(world)

    def keeps_bound(self, world: World) -> bool:
        """Return what the chosen one says."""
        return self.chosen(world).keeps_bound(world)

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        """The timelines of ``worlds``, in their order. Raises ``ValueError`` as the chosen ones do."""
        return simulate_each([(world, self.chosen(world)) for world in worlds], run)
