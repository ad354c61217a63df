"""D-mod-k: the target alone decides at every branch, so that what goes to different servers is spread evenly.

On the path up a fat-tree a switch with k uplinks sends what is for server d through uplink d mod k; the next layer uses
the next digit of d, floor(d / k) mod k', and so on. In a full fat-tree all flows of a shift permutation (every server
to the one n places on) have a path of their own, and down-links are used by one server's traffic each. InfiniBand's
subnet managers fill forwarding tables so.

Source: Zahavi, Johnson, Kerbyson and Lang, "Optimized InfiniBand fat-tree routing for shift all-to-all communication
patterns", Concurrency and Computation 22(2), 2010.

    two branches with 2 alternatives each, path = 2 * first + second: servers 0 1 2 3 -> paths 0 2 1 3
"""

from __future__ import annotations

import numpy as np

from topoflow.engine.lowering.routing import Connections, Index, Split, one_path


def split(choices: Index, connections: Connections, seed: int) -> Split:
    number, left = np.zeros(len(choices), np.int64), connections.target
    for alternatives in choices.T:
        number = number * alternatives + left % alternatives
        left = left // alternatives
    return one_path(number)
