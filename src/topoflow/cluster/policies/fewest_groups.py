"""As few groups as there can be: those with the most room first, or if one is enough, the fullest that holds it all.

Ours: what a network with locality wants most, whatever the fragments that it leaves. (Filling the largest parts first
needs the fewest, as any k groups hold at most what the k with the most room hold.)
"""

from __future__ import annotations

import numpy as np

from topoflow.cluster.base import Cluster, Index, Request
from topoflow.cluster.policies import in_groups, room_of_groups


def order(room: Index, request: Request, cluster: Cluster) -> Index:
    of_groups = room_of_groups(room, cluster)
    largest = np.argsort(-of_groups, kind="stable")
    holding = of_groups[largest] >= request.machines
    if holding.any():
        return in_groups(largest[np.count_nonzero(holding) - 1 :][:1], cluster)
    return in_groups(largest, cluster)
