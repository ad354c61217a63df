"""Sirius: racks or servers with tunable lasers, joined by passive gratings that follow a schedule."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits import failures
from topoflow.fabric.circuits.schedule import CircuitSchedule, Cyclic, Failed
from topoflow.fabric.racks import count_racks, racked
from topoflow.fabric.wiring import check_count, check_interfaces
from topoflow.units import check_bandwidth, is_finite

ROUNDING = 1e-9  # error that a whole number of uplinks may have


@dataclass(frozen=True)
class Sirius:
    """A flat network of gratings that join the uplinks of all racks (Ballani et al., SIGCOMM 2020, 4).

            grating   grating  ..     one for each pair of groups of racks; the wavelength selects the output port
              |  \\    /  |
        rack  0    1 ..               uplinks * overprovision tunable transceivers, which follow the schedule
             /|\\  /|\\
        server 0 ..                   each with one cable of degree * bandwidth

    All ``uplinks`` together have the bandwidth of the rack's servers, or ``rack_bandwidth``; there are
    ``overprovision`` times as many, since cells take two hops. With ``servers_per_rack=1`` servers have the uplinks
    themselves.

    Failed racks are additional ones: servers are on the working racks. The capacity of failed parts is lost, since the
    schedule leaves their slots empty. With ``omit_failed`` the schedule has the working racks only, which regains the
    capacity ("the network schedule can be adjusted to omit the failed node", 4.5). Without moving fibers this is
    possible if equally many racks of each group have failed.

    In other fidelities than ``slotted`` all gratings are one switch, and a rack gets half of its uplinks, the least
    capacity with detours (4.2).
    """

    bandwidth: float  # B/s of one interface of a server, each direction
    degree: int
    latency: float  # s per link
    servers_per_rack: int = 1
    uplinks: int = 4
    rack_bandwidth: float | None = None  # B/s of all uplinks without overprovision; None: of the rack's servers
    overprovision: float = 1.5
    slot: float = 100e-9  # s, including the guardband
    guardband: float = 10e-9  # s
    grating_ports: int | None = None  # None: the slots of an epoch
    failed_racks: tuple[int, ...] = ()
    failed_gratings: tuple[tuple[int, int], ...] = ()  # (group whose racks send, group whose racks receive)
    failed_transceivers: tuple[tuple[int, int], ...] = ()  # (rack, uplink)
    omit_failed: bool = False  # whether the schedule leaves out failed racks

    def __post_init__(self) -> None:
        check_interfaces("sirius", self.bandwidth, self.degree, self.latency)
        check_count("sirius.servers_per_rack", self.servers_per_rack)
        check_count("sirius.uplinks", self.uplinks)
        if self.rack_bandwidth is not None:
            check_bandwidth("sirius.rack_bandwidth", self.rack_bandwidth)
        if not (is_finite(self.overprovision) and self.overprovision >= 1):
            raise ValueError(f"sirius.overprovision: must be at least 1, got {self.overprovision}")
        if abs(self.transceivers - self.uplinks * self.overprovision) > ROUNDING:
            rule = f"must make a whole number of transceivers of {self.uplinks} uplinks"
            raise ValueError(f"sirius.overprovision: {rule}, got {self.overprovision:g}")
        if not (is_finite(self.guardband) and self.guardband >= 0):
            raise ValueError(f"sirius.guardband: must be finite and not negative, got {self.guardband}")
        if not (is_finite(self.slot) and self.slot > self.guardband):
            raise ValueError(f"sirius.slot: must be longer than the guardband of {self.guardband:g} s, got {self.slot}")
        if not isinstance(self.omit_failed, bool):
            raise ValueError(f"sirius.omit_failed: must be true or false, got {self.omit_failed!r}")
        if self.cell < 1:
            raise ValueError(f"sirius.slot: must have room for a byte after the guardband, got {self.slot:g} s")

    @property
    def transceivers(self) -> int:
        """Return the number of transceivers of a rack."""
        return round(self.uplinks * self.overprovision)

    @property
    def uplink_bandwidth(self) -> float:
        """Return the B/s of one uplink."""
        servers = self.servers_per_rack * self.degree * self.bandwidth
        return (servers if self.rack_bandwidth is None else self.rack_bandwidth) / self.uplinks

    @property
    def cell(self) -> int:
        """Return the bytes that are sent in a slot."""
        return int(self.uplink_bandwidth * (self.slot - self.guardband) * (1 + ROUNDING))

    def schedule(self, servers: int) -> CircuitSchedule:
        """Return the schedule of the racks of these servers. Raises ``ValueError`` where there is none."""
        failed = self._failed()
        racks = self._racks(servers) + len(failed.nodes)
        if racks % self.uplinks:
            raise ValueError(f"sirius.uplinks: must divide the {racks} racks, got {self.uplinks}")
        complete = CircuitSchedule(racks, min(self.transceivers, racks), failed)
        schedule = self._without_racks(complete) if self.omit_failed else complete
        if schedule.failed:
            failures.check_reach("sirius", schedule.joined(), schedule.failed.nodes)
        if self.grating_ports is not None and self.grating_ports < schedule.slots:
            rule = f"must be at least the {schedule.slots} slots of an epoch"
            raise ValueError(f"sirius.grating_ports: {rule}, got {self.grating_ports}")
        return schedule

    def build(self, servers: int, demand: Demand) -> Fabric:
        racks = self._racks(servers)
        control = None
        if racks > 1:
            control = Cyclic(self.schedule(servers), self.slot, self.cell, self.servers_per_rack)
        used = (self.slot - self.guardband) / self.slot
        ports = (racks + len(self.failed_racks)) * self.transceivers
        optics = (
            Item("tunable_transceiver", ports, self.uplink_bandwidth),
            Item("grating_port", 2 * ports, self.uplink_bandwidth),
            Item("fiber", 2 * ports, self.uplink_bandwidth),
        )
        return racked(
            "sirius",
            self,
            servers,
            core="gratings",
            capacity=self.transceivers * self.uplink_bandwidth * used / 2,
            control=control,
            ports=ports,
            optics=optics,
        )

    def _racks(self, servers: int) -> int:
        return count_racks("sirius", servers, self.servers_per_rack)

    def _failed(self) -> Failed:
        return Failed(
            failures.numbers("sirius.failed_racks", self.failed_racks),
            failures.pairs("sirius.failed_gratings", self.failed_gratings),
            failures.pairs("sirius.failed_transceivers", self.failed_transceivers),
        )

    def _without_racks(self, complete: CircuitSchedule) -> CircuitSchedule:
        if self.failed_gratings or self.failed_transceivers:
            raise ValueError("sirius.omit_failed: must be false where gratings or transceivers failed, got true")
        racks = complete.nodes - len(complete.failed.nodes)
        return CircuitSchedule(racks, min(self.transceivers, racks))
