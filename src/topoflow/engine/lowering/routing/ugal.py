"""UGAL-L by address: the route, minimal or not, with the smaller product of hops and occupied space at its port.

As ``adaptive_local``, with the hops between routers of both routes in place of the threshold. Source: Singh,
"Load-balanced routing in interconnection networks", Ph.D. thesis, Stanford, 2005, 7; with local information as Kim,
Dally, Scott and Abts, ISCA 2008, 4.2, have it.
"""

from topoflow.engine.lowering.addresses import paths
from topoflow.engine.lowering.routing.ecmp import split

__all__ = ["paths", "split"]
