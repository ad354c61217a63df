"""First fit: each machine goes to the first server with room; groups are ignored.

Source: Maniotis et al., "Toward higher-radix switches with co-packaged optics for improved network locality in data
center and HPC networks", JOCN 2022, section 4.A.
"""

from __future__ import annotations

import numpy as np

from topoflow.scheduling.base import GroupedCluster, Index, Request


def order(room: Index, request: Request, cluster: GroupedCluster) -> Index:
    return np.arange(cluster.servers)
