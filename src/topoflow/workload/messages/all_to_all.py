"""All-to-all: every rank sends a message to every other, in phases that use a tapered network evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topoflow.arrays import Offsets
from topoflow.memory import check_memory
from topoflow.units import check_count, check_positive
from topoflow.workload.base import BYTES_PER_MESSAGE, Messages, Motif
from topoflow.workload.gpu import Gpu


@dataclass(frozen=True)
class AllToAll(Motif):
    """N ranks in groups of S exchange ``bytes`` with each other in N phases; a message to itself is not sent.

    In each phase every rank sends one message and gets one. Phase q G + r, with G = N / S groups, takes rank s of
    group g to group (g + s + r) mod G, and there to rank (s + q) mod S:

        G = 2, S = 2, phase 0     0 -> 0    1 -> 3    2 -> 2    3 -> 1      half of each group's messages leave it
                      phase 1     0 -> 2    1 -> 1    2 -> 0    3 -> 3      and the other half stay
                      phase 2     0 -> 1    1 -> 2    2 -> 3    3 -> 0
                      phase 3     0 -> 3    1 -> 0    2 -> 1    3 -> 2

    So each group sends S / G messages to every group, also to itself, in every phase (rounded up or down, where G does
    not divide S). Any two halves of an even number of groups then exchange exactly half of the messages, the least
    that an all-to-all can have cross them in every phase: a network with half of the full bisection bandwidth carries
    it. With ``group`` None all ranks are one group, and phase p is a shift by p.

    Nothing separates the phases: a rank sends its messages one after the other.

    Source: MOTION (Maniotis et al., JOCN 2022), 4, which takes it from its reference [37]; we have not seen that one,
    so the order of the phases is ours: the law above is what MOTION says of it.
    """

    name: ClassVar[str] = "all_to_all"
    gpu: Gpu
    bytes: float = 4096.0
    group: int | None = None

    def __post_init__(self) -> None:
        check_positive("workload.bytes", self.bytes)
        if self.group is not None:
            check_count("workload.group", self.group)

    def build(self) -> AllToAll:
        return self

    def check(self, ranks: int) -> None:
        if self.group is not None and ranks % self.group:
            raise ValueError(f"workload.group: must divide the {ranks} servers, got {self.group}")

    def messages(self, ranks: int) -> Messages:
        """[N (N - 1)], phase by phase. Raises ``ValueError`` where they do not fit in memory."""
        count = ranks * (ranks - 1)
        check_memory("servers", f"{count} messages of {ranks} servers", count * BYTES_PER_MESSAGE)
        target = self.targets(ranks)
        source = np.broadcast_to(np.arange(ranks), target.shape)
        others = source != target
        return Messages(source[others], target[others], np.full(int(others.sum()), float(self.bytes)))

    def targets(self, ranks: int) -> Offsets:
        """[phases, ranks] to whom each rank sends, once to itself."""
        self.check(ranks)
        size = ranks if self.group is None else self.group
        groups = ranks // size
        shift, turn = (each[:, None] for each in np.divmod(np.arange(ranks), groups))
        group, place = np.divmod(np.arange(ranks), size)
        found: Offsets = (group + place + turn) % groups * size + (place + shift) % size
        return found
