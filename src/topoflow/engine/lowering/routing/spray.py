"""Packet spraying: every packet of a connection on another path, which is an even share of its bytes on each.

Source: Dixit, Prakash, Hu and Kompella, "On the impact of packet spraying in data center networks", INFOCOM 2013.
"""

from __future__ import annotations

import numpy as np

from topoflow.engine.lowering.routing import Connections, Index, Split


def split(choices: Index, connections: Connections, seed: int) -> Split:
    paths = choices.prod(axis=1)
    connection = np.repeat(np.arange(len(paths)), paths)
    first = np.cumsum(paths) - paths
    return Split(connection, np.arange(len(connection)) - first[connection], 1 / paths[connection])
