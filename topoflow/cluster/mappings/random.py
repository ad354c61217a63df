"""Any cores, each choice as likely."""

from __future__ import annotations

import numpy as np

from topoflow.cluster.base import Index


def place(packets: Index, rack: Index, seed: int) -> Index:
    random = np.random.Generator(np.random.Philox(key=seed))
    return random.permutation(len(rack))[: len(packets)]
