"""The settings of the slotted model."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow import _C
from topoflow.units import check_among, check_whole

PROTOCOLS = {"request_grant": _C.REQUEST_GRANT, "ideal": _C.IDEAL, "direct": _C.DIRECT}
CABLES = {"turns": _C.TURNS, "arrival": _C.ARRIVAL}
LOSSES = ("none", "drop")
MAX_INT32 = 2**31 - 1
MIN_QUEUE = 2  # Source: Sirius, 4.3: a cell may come before that of the epoch before has left
WORD = 2**32


@dataclass(frozen=True)
class SlottedSettings:
    """The settings of senders, and the buffer of a node."""

    protocol: str = "request_grant"
    queue: int = 4  # Q, cells at a node for each destination
    credits: int | None = 32  # cells that a server may have in LOCAL; None: any number
    cable: str = (
        "turns"  # of a node to a server: flows whose cells wait take turns, or (arrival) first come, first served
    )
    loss: str = "none"  # what becomes of a packet that finds the buffers of an OnDemand network's transceivers full
    seed: int = 0

    def __post_init__(self) -> None:
        for field, known in (("protocol", PROTOCOLS), ("cable", CABLES), ("loss", LOSSES)):
            check_among(f"slotted.{field}", getattr(self, field), known)
        ranges = {"queue": (MIN_QUEUE, _C.MOST_RESERVATIONS), "credits": (1, MAX_INT32), "seed": (0, WORD - 1)}
        for field, (least, most) in ranges.items():
            value = getattr(self, field)
            if value is None and field == "credits":
                continue
            check_whole(f"slotted.{field}", value, least, most)
