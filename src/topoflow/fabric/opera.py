"""Opera: rotor switches that turn one after another, so that small messages do not wait for a direct link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topoflow.fabric.circuits.rotors import MAX_CELLS, FailedRotors, Rotating
from topoflow.fabric.circuits.staggered import Staggered, pause_of
from topoflow.fabric.rotornet import ROUNDING, RotorNet
from topoflow.units import check_not_negative, check_whole


@dataclass(frozen=True)
class Opera(RotorNet):
    """RotorNet whose switches turn one after another, and join all racks at any time (Mellette et al., NSDI 2020).

        rotor switch   0     1   ..   uplinks of them; each holds a matching for as many slots as there are switches,
                       |\\   /|        and one of them turns at the end of each slot
        rack           0     1   ..   sends messages below ``bulk`` bytes immediately, over shortest paths of
                      /|\\   /|\\       the other switches, and others by RotorLB
        server        0 ..            each with one cable of degree * bandwidth

    The number of racks is a multiple of ``uplinks``; ``seed`` draws the matchings. Failed racks are additional ones, as
    in RotorNet. In other fidelities than ``slotted`` the network is as in RotorNet: half of the working uplinks.
    """

    name: ClassVar[str] = "opera"

    slot: float = 100e-6  # s from when a switch turns until the next one does
    gap: float = 10e-6  # s in which a switch turns
    bulk: float = 15e6  # B; smaller messages do not wait for their direct link
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("opera.bulk", self.bulk)
        check_whole("opera.seed", self.seed, 0, 2**64 - 1)

    @property
    def payload(self) -> float:
        """Return the bytes that an uplink sends in a slot in which its switch does not turn."""
        return self.uplink_bandwidth * self.slot

    @property
    def most_cells(self) -> int:
        """Return the largest number of cells of a link per slot.

        A rack stores all that a link sends while its switch holds a matching.
        """
        return max(MAX_CELLS // self.uplinks, 1)

    @property
    def sending(self) -> float:
        return 1 - self.gap / (self.uplinks * self.slot)

    @property
    def flight(self) -> float:
        """Return the time (s) from a rack to a switch and on to the next rack."""
        return 2 * self.latency

    def _rotors(self, racks: int, failed: FailedRotors) -> Staggered:
        turning = int(self.cells * (1 - self.gap / self.slot) * (1 + ROUNDING))
        rotors = Staggered(racks, self.uplinks, self.cells, failed, turning, self.seed)
        if failed:
            cut = ~rotors.reach(pause_of(self.flight, self.slot / self.cells))
            nodes = list(failed.nodes)
            cut[nodes] = cut[:, nodes] = False
            if cut.any():
                source, target = np.argwhere(cut)[0]
                rule = "must leave every two racks a path that fits in a slot"
                raise ValueError(f"opera.failed: {rule}, got none from rack {source} to rack {target}")
        return rotors

    def _control(self, servers: int) -> Rotating:
        rotors = self.rotors(servers)
        return Rotating(rotors, self.slot, self.size, self.servers_per_rack, self.gap, self.bulk, self.flight)
