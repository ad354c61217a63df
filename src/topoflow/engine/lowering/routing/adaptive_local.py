"""Adaptive-local routing by address: non-minimal where the minimal port has several times the other's occupied space.

The router of the source compares what is occupied at its own ports: towards the target, and towards a group (in the
same group: a router) that it draws. ``packet.threshold`` is the factor. Of two cables between groups
that lie next to each other it takes the less occupied. Source: the tapered dragonfly, II-A, Merlin ("the valiant route
is chosen when the output buffer for the direct port has N times more occupied space then the valiant route").
"""

from topoflow.engine.lowering.addresses import paths
from topoflow.engine.lowering.routing.ecmp import split

__all__ = ["paths", "split"]
