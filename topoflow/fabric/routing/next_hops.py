"""Next hops by address: where a router sends what is for a group, a router of its own group, or an endpoint of its own.

Tables of two levels need memory for routers, not for pairs of endpoints: a dragonfly of 110,592 endpoints with 12
cables between every two groups takes less than 32 MiB.

Shapes: E endpoints, R routers, G groups, A routers of a group, S cables from a group to another, L links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Links = NDArray[np.int32]

NO_LINK = -1
UP, LOCAL, GLOBAL, DOWN = range(4)  # levels of links: from an endpoint, inside a group, between groups, to an endpoint


@dataclass(frozen=True, eq=False)
class NextHops:
    """Router r is number r % A of group r // A.

    Laws: every endpoint has one link up and one down; ``inside`` and ``outside`` lead from their router, those inside
    to the router that they are for, those outside to another group or to the router of the own group that has the
    cable.
    """

    router: Links  # [E] of each endpoint
    up: Links  # [E] link from each endpoint to its router
    down: Links  # [E] and back
    inside: Links  # [R, A] link to each router of the own group; NO_LINK: to itself
    outside: Links  # [R, G, S] link towards each group by way of each of the cables to it; NO_LINK: the own group
    source: Links  # [L] router where the link begins; -1: an endpoint
    target: Links  # [L] router where it ends; -1: an endpoint
    level: NDArray[np.int8]  # [L] UP, LOCAL, GLOBAL or DOWN

    @property
    def routers(self) -> int:
        """R"""
        return len(self.inside)

    @property
    def routers_per_group(self) -> int:
        """A"""
        return int(self.inside.shape[1])

    @property
    def groups(self) -> int:
        """G"""
        return int(self.outside.shape[1])

    @property
    def cables(self) -> int:
        """S"""
        return int(self.outside.shape[2])


@runtime_checkable
class AddressedRoutes(Protocol):
    """A ``Fabric.route`` whose routers forward by address."""

    def next_hops(self) -> NextHops: ...
