"""RotorNet: racks or servers joined by optical switches that cycle through fixed matchings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits import failures
from topoflow.fabric.circuits.rotors import MAX_CELLS, FailedRotors, Rotating, Rotors
from topoflow.fabric.racks import count_racks, racked
from topoflow.fabric.wiring import check_count, check_interfaces
from topoflow.units import check_positive

JUMBO = 9000  # B of a frame
ROUNDING = 1e-9  # relative error that a whole number of cells may have


@dataclass(frozen=True)
class RotorNet:
    """A flat network of rotor switches, each with a link to every rack (Mellette et al., SIGCOMM 2017).

        rotor switch   0     1   ..   uplinks of them; each holds a matching of all racks for a slot, then the next
                       |\\   /|
        rack           0     1   ..   sends to as many others at a time as it has uplinks
                      /|\\   /|\\
        server        0 ..            each with one cable of degree * bandwidth

    All ``uplinks`` together have the bandwidth of the rack's servers. With ``servers_per_rack=1`` servers have the
    uplinks themselves. A network of few racks uses fewer uplinks: one for each other rack, and one that is not joined.

    Failed racks are additional ones: servers are on the working racks. The capacity of failed parts is lost, since
    matchings are fixed; cells between racks that they joined take detours.

    In other fidelities than ``slotted`` all rotor switches are one switch, and a rack gets half of its working uplinks,
    the least capacity with detours.
    """

    name: ClassVar[str] = "rotornet"

    bandwidth: float  # B/s of one interface of a server, each direction
    degree: int
    latency: float  # s per link
    servers_per_rack: int = 1
    uplinks: int = 4
    slot: float = 200e-6  # s, in which a switch holds a matching, including the gap
    gap: float = 20e-6  # s, in which a switch turns to its next matching
    cell: int | None = None  # B; None: 9000, or more so that at most MAX_CELLS fill a slot
    failed_racks: tuple[int, ...] = ()
    failed_switches: tuple[int, ...] = ()
    failed_transceivers: tuple[tuple[int, int], ...] = ()  # (rack, rotor switch)

    def __post_init__(self) -> None:
        check_interfaces(self.name, self.bandwidth, self.degree, self.latency)
        for field in ("servers_per_rack", "uplinks"):
            check_count(f"{self.name}.{field}", getattr(self, field))
        check_positive(f"{self.name}.slot", self.slot)
        if not 0 <= self.gap < self.slot:
            raise ValueError(
                f"{self.name}.gap: must be at least 0 and less than the slot of {self.slot:g} s, got {self.gap:g} s"
            )
        if self.cell is not None:
            check_count(f"{self.name}.cell", self.cell)
        if not 1 <= self.cells <= self.most_cells:
            rule = f"must be such that 1 to {self.most_cells} fill the {self.payload:g} B of a slot"
            raise ValueError(f"{self.name}.cell: {rule}, got {self.size}")

    @property
    def most_cells(self) -> int:
        """Return the largest number of cells that an uplink may send in a slot."""
        return MAX_CELLS

    @property
    def sending(self) -> float:
        """Return the share of the time in which an uplink sends."""
        return (self.slot - self.gap) / self.slot

    @property
    def uplink_bandwidth(self) -> float:
        """Return the B/s of one uplink."""
        return self.servers_per_rack * self.degree * self.bandwidth / self.uplinks

    @property
    def payload(self) -> float:
        """Return the bytes that an uplink sends in a slot."""
        return self.uplink_bandwidth * (self.slot - self.gap)

    @property
    def size(self) -> int:
        """Return the bytes of a cell."""
        if self.cell is not None:
            return self.cell
        return max(min(JUMBO, int(self.payload)), int(self.payload) // self.most_cells)

    @property
    def cells(self) -> int:
        """Return the number of cells that an uplink sends in a slot."""
        return int(self.payload / max(self.size, 1) * (1 + ROUNDING))

    def rotors(self, servers: int) -> Rotors:
        """Return the cycle of the racks of these servers. Raises ``ValueError`` where there is none."""
        failed = FailedRotors(
            failures.numbers(f"{self.name}.failed_racks", self.failed_racks),
            failures.numbers(f"{self.name}.failed_switches", self.failed_switches),
            failures.pairs(f"{self.name}.failed_transceivers", self.failed_transceivers),
        )
        rotors = self._rotors(self._racks(servers) + len(failed.nodes), failed)
        if failed:
            failures.check_reach(self.name, rotors.joined(), failed.nodes)
        return rotors

    def _rotors(self, racks: int, failed: FailedRotors) -> Rotors:
        return Rotors(racks, min(self.uplinks, racks), self.cells, failed)

    def _control(self, servers: int) -> Rotating:
        return Rotating(self.rotors(servers), self.slot, self.size, self.servers_per_rack, self.gap)

    def build(self, servers: int, demand: Demand) -> Fabric:
        racks = self._racks(servers)
        ports = (racks + len(self.failed_racks)) * self.uplinks
        optics = (
            Item("transceiver", ports, self.uplink_bandwidth),
            Item("ocs_port", ports),  # an upper bound for the price of a rotor switch's port
            Item("fiber", ports, self.uplink_bandwidth),
        )
        return racked(
            self.name,
            self,
            servers,
            core="rotor switches",
            capacity=self.uplinks * self.uplink_bandwidth * self.sending / 2,
            control=self._control(servers) if racks > 1 else None,
            ports=ports,
            optics=optics,
        )

    def _racks(self, servers: int) -> int:
        return count_racks(self.name, servers, self.servers_per_rack)
