"""Swift in plain Python: a window of packets that follows round trips.

All numbers are whole: ps, and 2^-16 packets. Source: ``csrc/packet/controls/swift.h``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PACKET = 2**16
TICK = 1024  # ps of the timestamps of NICs
LEAST, MOST_DROPS = 10, 5  # B of a window; in a row


@dataclass
class SwiftWindow:
    """The window of one message."""

    round_trip: int  # ps, at first that of an idle network
    target: int  # ps, of a window of 100 packets
    scaling: int  # ps
    size: int  # B of a packet
    largest: int  # B
    drops_packets: bool

    def __post_init__(self) -> None:
        self.window = self.largest // self.size * PACKET
        self.last_cut = self.under_way = self.drops = 0

    @property
    def packets(self) -> int:
        return max(1, self.window // PACKET)

    @property
    def is_paced(self) -> bool:
        return self.window < PACKET

    def sent(self, size: int) -> int:
        """Return ps until the next packet may be sent."""
        self.under_way += 1
        return self.round_trip * PACKET // self.window if self.is_paced else 0

    def on_ack(self, size: int, round_trip: int, marked: bool, now: int) -> None:
        self.under_way -= 1
        self.drops, self.round_trip = 0, round_trip
        more = self.scaling * PACKET // math.isqrt(self.window * PACKET) - self.scaling // 10
        target = self.target + min(max(0, more), self.scaling * 306 // 100)
        if round_trip < target:
            self.window += PACKET * PACKET // self.window if self.window >= PACKET else PACKET
        elif now - self.last_cut >= round_trip:
            self.cut(4 * self.window * ((round_trip - target) // TICK) // (5 * (round_trip // TICK)), now)
        self.bound()

    def on_loss(self, size: int, now: int) -> None:
        self.under_way -= 1
        if now - self.last_cut < self.round_trip:
            return
        self.drops = self.drops + 1 if self.drops_packets else 0
        self.cut(self.window // 2, now)
        if self.drops >= MOST_DROPS:
            self.window = 0
        self.bound()

    def cut(self, part: int, now: int) -> None:
        self.window -= min(part, self.window // 2)
        self.last_cut = now

    def bound(self) -> None:
        self.window = min(max(self.window, 1 + LEAST * PACKET // self.size), self.largest // self.size * PACKET)
