"""Incasts under each control of messages: ``python benchmarks/packets/packet_controls.py``.

Servers below one switch, on links of 100 Gb/s and 1 us, send to one of them; ports lose nothing, but for NDP. Prints
``senders.control.metric value`` lines: ms until the last message has arrived, the median latency of a packet in us, and
the first message's time over the last one's.
"""

from __future__ import annotations

from typing import Any

from topoflow.demand import Demand
from topoflow.engine.base import Run
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.traffic.base import Traffic, Transfer

RATE, LATENCY = 12.5e9, 1e-6  # B/s and s of a link
MARKS = {"ecn_from": 12_500, "ecn_to": 50_000, "ecn_most": 1.0, "ecn_at": "departure"}  # 0.2 and 0.8 of 5 us
CONTROLS = {
    "PFC alone": Packet(),
    "NDP": Packet(loss="trim", control="pulls", window="auto", buffer=8 * 4096),
    "DCQCN": Packet(control="dcqcn", ecn_from=5000),
    "NSCC": Packet(control="nscc", window="auto", **MARKS),
    "Swift": Packet(control="swift", window="auto"),
    "HPCC": Packet(control="hpcc", window="auto"),
}
INCASTS = {8: 20e6, 200: 1e6}  # B of a message, by the number of senders


def main() -> None:
    for senders, size in INCASTS.items():
        fabric = LeafSpine(RATE, 1, LATENCY, senders + 1).build(senders + 1, Demand(senders + 1))
        traffic = Traffic.from_tasks(
            "incast", senders + 1, [Transfer(size, sender, senders) for sender in range(senders)]
        )
        world = place(traffic, fabric, name="incast")
        for name, model in CONTROLS.items():
            (timeline,) = model.simulate([world], Run(threads=1))
            finish, ports = timeline.finish[world.graph.bytes > 0], timeline.ports
            assert ports is not None
            latency: Any = ports.latency
            print(f"{senders}.{name}.last_ms {finish.max() * 1e3:.3f}")
            print(f"{senders}.{name}.packet_us {latency.quantile(0.5) * 1e6:.1f}")
            print(f"{senders}.{name}.first_over_last {finish.min() / finish.max():.3f}", flush=True)


if __name__ == "__main__":
    main()
