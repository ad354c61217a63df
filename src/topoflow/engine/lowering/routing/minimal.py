"""Minimal routing by address: at most one cable between groups, drawn among those between the two.

Every router decides by its tables (``fabric.routing.next_hops``), so only ``fidelity=packet`` can take it. The router
of the source draws the cable, for every packet or once for a message (``packet.draws``). Source: Kim, Dally, Scott and
Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, 4.1.
"""

from topoflow.engine.lowering.addresses import paths
from topoflow.engine.lowering.routing.ecmp import split

__all__ = ["paths", "split"]
