"""NSCC in plain Python: a window of bytes that follows marks and the time that packets wait in queues.

All numbers are whole: ps, B, and B^2 of what a window will rise by, divided by itself. Source:
``csrc/packet/controls/nscc.h``.
"""

from __future__ import annotations

from dataclasses import dataclass

TICK = 1024  # ps of the timestamps of NICs
NO_WAIT = 1_000_000  # ps


@dataclass
class NsccWindow:
    """The window of one message."""

    idle: int  # ps, the longest round trip of the network when it is idle
    target: int  # ps
    size: int  # B of a packet
    largest: int  # B
    unit: int  # B: a packet, times the bandwidth-delay product over that of 100 Gb/s and 12 us
    trims: bool

    def __post_init__(self) -> None:
        self.window, self.shortest = self.largest, self.idle
        self.average = self.increase = self.arrived = self.achieved = self.adapt_end = 0
        self.ignored = self.to_ignore = self.calm = self.last_cut = self.last_adjust = self.under_way = 0
        self.is_fast = self.has_lost = False

    @property
    def packets(self) -> int:
        return self.window // self.size

    def sent(self, size: int) -> int:
        """Return ps until the next packet may be sent."""
        self.under_way += 1
        return 0

    def on_ack(self, size: int, round_trip: int, marked: bool, now: int) -> None:
        """A packet of ``size`` bytes has arrived."""
        self.under_way -= 1
        self.shortest = min(self.shortest, round_trip)
        wait = round_trip - self.shortest
        sample = self.shortest // 4 if wait > self.target and not marked else wait
        self.average = (79 * self.average + sample) // 80
        self.achieved += size
        self.arrived += size
        self.ignored += size
        if self.adapts(marked, wait, now):
            return
        if wait >= self.target:
            if marked:
                self.decrease(now)
            else:
                self.increase += 5 * self.unit * size
        elif not marked:
            self.rise(size, wait)
        self.bound()
        if self.arrived > 8 * self.size or now - self.last_adjust > self.idle:
            self.window += self.increase // self.window
            if now - self.last_adjust >= self.idle:
                self.window += 3 * self.unit // 20
                self.last_adjust = now
            self.increase = self.arrived = 0
        self.bound()

    def on_loss(self, size: int, now: int) -> None:
        """A packet of ``size`` bytes was trimmed or dropped."""
        adapts = False
        if self.trims:
            self.ignored += size
            self.average = (79 * self.average + self.idle) // 80
            self.has_lost = True
            adapts = self.adapts(True, 0, now)
        if not adapts:
            self.window -= size
            self.bound()
        self.under_way -= 1

    def adapts(self, is_bad: bool, wait: int, now: int) -> bool:
        """Quick adapt: set the window to what arrived in an interval in which packets were lost or waited for long."""
        done = is_bad and self.ignored < self.to_ignore
        if not done and now > self.adapt_end:
            is_jammed = self.has_lost or wait > 4 * self.target
            if self.adapt_end and is_jammed and self.achieved < self.largest // 8:
                self.window = max(self.achieved, self.size)
                self.to_ignore, self.ignored = self.under_way * self.size, 0
                self.has_lost, done = False, True
            self.achieved, self.adapt_end = 0, now + self.shortest + self.target
        if done:
            self.increase = self.arrived = 0
        return done

    def rise(self, size: int, wait: int) -> None:
        self.calm = self.calm + size if wait < NO_WAIT else 0
        self.is_fast = wait < NO_WAIT and (self.is_fast or self.calm > self.window)
        if self.is_fast:
            self.window += size * self.unit // (4 * self.size)
        else:  # 4 unit size (target - wait) / 12 us
            self.increase += self.unit * size * ((self.target - wait) // TICK) * 16 // 46_875

    def decrease(self, now: int) -> None:
        self.is_fast, self.calm = False, 0
        if self.average <= self.target or now - self.last_cut <= self.shortest:
            return
        cut = 4 * self.window * ((self.average - self.target) // TICK) // (5 * (self.average // TICK))
        self.window -= min(cut, self.window // 2)
        self.last_cut = now

    def bound(self) -> None:
        self.window = min(max(self.window, self.size), self.largest)
