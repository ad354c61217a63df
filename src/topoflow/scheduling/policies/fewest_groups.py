"""Placement on the fewest groups: groups with the most room first; a request that one group holds gets the fullest one.

Source: our own. It gives a network with locality the most, regardless of the fragments that it leaves. Filling the
groups with the most room first needs the fewest groups, since no k groups hold more than the k with the most room.
"""

from __future__ import annotations

import numpy as np

from topoflow.scheduling.base import GroupedCluster, Index, Request
from topoflow.scheduling.policies import in_groups, room_of_groups


def order(room: Index, request: Request, cluster: GroupedCluster) -> Index:
    of_groups = room_of_groups(room, cluster)
    largest = np.argsort(-of_groups, kind="stable")
    holding = of_groups[largest] >= request.machines
    if holding.any():
        return in_groups(largest[np.count_nonzero(holding) - 1 :][:1], cluster)
    return in_groups(largest, cluster)
