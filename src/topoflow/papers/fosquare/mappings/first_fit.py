"""First fit: each process gets the next core, in the order of their numbers."""

from __future__ import annotations

import numpy as np

from topoflow.papers.fosquare.mappings import Index


def place(packets: Index, rack: Index, seed: int) -> Index:
    return np.arange(len(packets))
