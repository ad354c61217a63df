"""SiP-ML: wavelengths between servers that follow the demand within tens of microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits.demand_driven import DemandDriven
from topoflow.fabric.circuits.reconfigurable import check_reconfiguration, reconfigurable
from topoflow.fabric.wiring import check_count, check_interfaces, direct_bill


@dataclass(frozen=True)
class SipMl:
    """SiP-ML (Khani et al., SIGCOMM 2021) as modelled by TopoOpt (5.1, Appendix F): Algorithm 5 with Discount = 1.

        server 0  1 .. n-1         ``degree`` wavelengths from each to any, hosts do not forward
           \\__|______/ silicon photonics

    We read Discount = 1 as line 11 of Algorithm 5: a pair's next wavelength has the same value as the previous one, so
    that the highest demand takes all wavelengths of its servers.

    The bill has a NIC port, a transceiver, a fiber and a port of an optical switch (for the micro-rings that add and
    drop a wavelength) for every wavelength of each of the ``gpus_per_server`` GPUs: TopoOpt gives wavelengths "to each
    SiP-ML GPU", but no prices.
    """

    bandwidth: float  # B/s of one wavelength, each direction
    degree: int  # wavelengths per server
    latency: float  # s per circuit
    interval: float  # s between two measurements of the demand
    pause: float  # s that a reconfiguration takes
    gpus_per_server: int  # changes the bill only
    start: str = "job"
    iterations: int = 1  # consecutive iterations that are simulated; the last one is reported

    def __post_init__(self) -> None:
        check_interfaces("sip_ml", self.bandwidth, self.degree, self.latency)
        check_reconfiguration("sip_ml", self.interval, self.pause, self.start, 1, self.iterations)
        check_count("sip_ml.gpus_per_server", self.gpus_per_server)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("sip_ml.servers", servers)
        wavelengths = servers * self.gpus_per_server * self.degree
        return reconfigurable(
            "sip_ml",
            servers,
            demand,
            start=self.start,
            control=DemandDriven(
                self.interval, self.pause, forwarding=False, discount=1.0, paths=1, iterations=self.iterations
            ),
            bandwidth=self.bandwidth,
            degree=self.degree,
            latency=self.latency,
            bill=(*direct_bill(wavelengths, wavelengths, self.bandwidth), Item("ocs_port", wavelengths)),
        )
