"""Valiant's routing by address: over a group that the router of the source draws, and inside a group over a router.

As ``minimal`` towards the middle and from there on. Source: Valiant, "A scheme for fast parallel communication", SIAM
Journal on Computing 11(2), 1982; on dragonflies Kim, Dally, Scott and Abts, ISCA 2008, 4.1.
"""

from topoflow.engine.lowering.addresses import paths
from topoflow.engine.lowering.routing.ecmp import split

__all__ = ["paths", "split"]
