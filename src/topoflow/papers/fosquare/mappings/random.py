"""Random cores, each choice equally likely."""

from __future__ import annotations

import numpy as np

from topoflow.papers.fosquare.mappings import Index


def place(packets: Index, rack: Index, seed: int) -> Index:
    random = np.random.Generator(np.random.Philox(key=seed))
    return random.permutation(len(rack))[: len(packets)]
