"""The settings of the slotted model."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow import _C

PROTOCOLS = {"request_grant": _C.REQUEST_GRANT, "ideal": _C.IDEAL, "direct": _C.DIRECT}
MIN_QUEUE = 2  # Source: Sirius, 4.3: a cell may come before that of the epoch before has left
WORD = 2**32


@dataclass(frozen=True)
class Settings:
    """Who may send when, and how much a node has room for."""

    protocol: str = "request_grant"
    queue: int = 4  # Q, cells at a node for each destination
    seed: int = 0

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"slotted.protocol: must be one of {', '.join(PROTOCOLS)}, got {self.protocol!r}")
        for field, least, most in (("queue", MIN_QUEUE, _C.MOST_RESERVATIONS), ("seed", 0, WORD - 1)):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ValueError(f"slotted.{field}: must be a whole number within {least}..{most}, got {value!r}")
