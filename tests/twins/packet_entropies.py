"""Entropies that a sender chooses, in plain Python. Source: ``csrc/packet/routing/entropies.h``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

RECENT, EXPLORED = 8, 16
FREEZE = 10**10  # ps


@dataclass
class Recycled:
    """REPS: a message takes an entropy again whose packet was acknowledged without a mark."""

    recent: list[int] = field(default_factory=list)  # the last good ones, as a ring
    head: int = 0  # where the next one goes
    fresh: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))  # of these, those that were not taken
    place: int = 0  # of the next one while it freezes
    thaws: int | None = None  # ps; None: it does not freeze
    explored: int = 0

    def next(self, drawn: int) -> int:
        if self.explored:
            self.explored -= 1
            return drawn
        if self.thaws is None:
            return self.fresh.popleft() if self.fresh else drawn
        if not self.recent:
            return drawn
        reused = self.recent[self.place]
        self.place = (self.place + 1) % len(self.recent)
        return reused

    def on_timeout(self, now: int) -> None:
        if self.thaws is None and not self.explored:
            self.thaws = now + FREEZE
        self.thaw(now)

    def on_ack(self, entropy: int, marked: bool, now: int) -> None:
        self.thaw(now)
        if marked:
            return
        if len(self.recent) < RECENT:
            self.recent.append(entropy)
        else:
            self.recent[self.head] = entropy
        self.head = (self.head + 1) % RECENT
        self.fresh.append(entropy)

    def thaw(self, now: int) -> None:
        if self.thaws is not None and now > self.thaws:
            self.__init__(explored=EXPLORED)  # type: ignore[misc]


@dataclass
class Flowlets:
    """A message takes the next entropy once it has sent nothing for ``gap``."""

    gap: int  # ps
    last: int = 0  # ps
    number: int = 0

    def next(self, now: int) -> int:
        self.number += now - self.last >= self.gap
        self.last = now
        return self.number
