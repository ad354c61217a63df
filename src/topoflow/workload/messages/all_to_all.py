"""All-to-all: every rank sends a message to every other rank, in phases that use a tapered network evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topoflow.arrays import Offsets
from topoflow.memory import check_memory
from topoflow.units import check_count, check_positive
from topoflow.workload.base import BYTES_PER_MESSAGE, MessagePattern, Messages
from topoflow.workload.gpu import Gpu


@dataclass(frozen=True)
class AllToAll(MessagePattern):
    """An exchange of ``bytes`` between all N ranks, in groups of S, in N phases; no rank sends to itself.

    In each phase every rank sends one message and gets one. Phase q G + r, with G = N / S groups, takes rank s of
    group g to group (g + s + r) mod G, and there to rank (s + q) mod S:

        G = 2, S = 2, phase 0     0 -> 0    1 -> 3    2 -> 2    3 -> 1      half of each group's messages leave it
                      phase 1     0 -> 2    1 -> 1    2 -> 0    3 -> 3      and the other half stay
                      phase 2     0 -> 1    1 -> 2    2 -> 3    3 -> 0
                      phase 3     0 -> 3    1 -> 0    2 -> 1    3 -> 2

    In every phase each group sends S / G messages to every group including itself (rounded up or down if G does not
    divide S). Two halves of an even number of groups then exchange exactly half of the messages in every phase, the
    least possible for an all-to-all, so that half of the full bisection bandwidth is enough. With ``group`` None all
    ranks are one group, and phase p is a shift by p.

    Phases are not synchronized: a rank sends its messages one after the other.

    Source: MOTION (Maniotis et al., JOCN 2022), section 4, which cites its reference [37]. We have not seen [37], so
    the order of the phases is ours; it has the property above, which MOTION states.
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
        """Return N (N - 1) messages, phase by phase. Raises ``ValueError`` where they do not fit in memory."""
        count = ranks * (ranks - 1)
        check_memory("servers", f"{count} messages of {ranks} servers", count * BYTES_PER_MESSAGE)
        target = self.targets(ranks)
        source = np.broadcast_to(np.arange(ranks), target.shape)
        is_sent = source != target
        return Messages(source[is_sent], target[is_sent], np.full(int(is_sent.sum()), float(self.bytes)))

    def targets(self, ranks: int) -> Offsets:
        """Return [phases, ranks] the target of each rank; once it is the rank itself."""
        self.check(ranks)
        size = ranks if self.group is None else self.group
        groups = ranks // size
        shift, turn = (quotients[:, None] for quotients in np.divmod(np.arange(ranks), groups))
        group, place = np.divmod(np.arange(ranks), size)
        target: Offsets = (group + place + turn) % groups * size + (place + shift) % size
        return target
