"""Placement of small requests from the first group on, if possible each in one group, and of big ones from the last.

A request is small if an empty group holds it. Small and big requests then fragment different ends of the cluster.

Source: Maniotis et al., "Toward higher-radix switches with co-packaged optics for improved network locality in data
center and HPC networks", JOCN 2022, section 4.A. The paper leaves three points open, which are decided here: a small
request that no group holds fills the servers in their order; if several groups hold it, it gets the first; a big
request fills a group's servers in their order.
"""

from __future__ import annotations

import numpy as np

from topoflow.scheduling.base import GroupedCluster, Index, Request
from topoflow.scheduling.policies import in_groups, room_of_groups


def order(room: Index, request: Request, cluster: GroupedCluster) -> Index:
    if cluster.fewest_groups(request) > 1:
        return in_groups(np.arange(cluster.groups)[::-1], cluster)
    holding = np.flatnonzero(room_of_groups(room, cluster) >= request.machines)
    return in_groups(holding[:1] if holding.size else np.arange(cluster.groups), cluster)
