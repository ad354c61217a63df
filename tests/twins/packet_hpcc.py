"""HPCC in plain Python: a window of bytes that follows what the ports of a path say of themselves.

Packets carry the readings of all their ports, and the sender compares them with those of the last packet, as in the
paper. All numbers are whole: ps, B, and 2^-20 of a port's rate. Source: ``csrc/packet/controls/hpcc.h``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

WHOLE = 2**20


class Reading(NamedTuple):
    """The telemetry of a port when a packet leaves it."""

    time: int  # ps
    active: int  # ps that it has sent so far
    wait: int  # ps that it takes to send what waits


def share(part: int, whole: int) -> int:
    """Return part / whole, 2^-20, at most 2^10; numbers of more than 32 bits are shortened."""
    if part // 2**10 >= whole:
        return WHOLE * 2**10
    shortened = max(0, whole.bit_length() - 32)
    return (part >> shortened) * WHOLE // (whole >> shortened)


@dataclass
class HpccWindow:
    """The window of one message."""

    round_trip: int  # ps
    size: int  # B of a packet
    largest: int  # B
    target: int  # utilization, 2^-20
    increase: int  # B
    stages: int
    readings: deque[list[Reading]] = field(default_factory=deque)  # of packets that were not acknowledged

    def __post_init__(self) -> None:
        self.window = self.reference = self.largest
        self.utilization = WHOLE
        self.under_way = self.sent_packets = self.acked = self.updated = self.stage = 0
        self.last: list[Reading] = []

    @property
    def packets(self) -> int:
        return -(-self.window // self.size)

    def sent(self, flit_bytes: int) -> int:
        """Return ps until the next packet may be sent."""
        self.under_way += 1
        self.sent_packets += 1
        self.readings.append([])
        return flit_bytes * self.round_trip // self.window if self.window < self.largest else 0

    def on_ack(self, size: int, round_trip: int, marked: bool, now: int) -> None:
        self.under_way -= 1
        self.acked += 1
        is_new = self.acked > self.updated
        if is_new:
            self.updated = self.sent_packets
        last, self.last = self.last, self.readings.popleft()
        if not last:
            return
        time, busiest = 0, 0
        for before, after in zip(last, self.last, strict=True):
            passed = after.time - before.time
            utilization = share(min(before.wait, after.wait), self.round_trip)
            utilization += share(after.active - before.active, passed)
            if utilization > busiest:
                time, busiest = passed, utilization
        if not time:
            return
        weight = share(min(time, self.round_trip), self.round_trip)
        self.utilization = (self.utilization * (WHOLE - weight) + busiest * weight) // WHOLE
        decreases = self.utilization >= self.target or self.stage >= self.stages
        window = self.reference
        if decreases:
            window = window * self.target // max(self.utilization, 1)
        self.window = min(window + self.increase, self.largest)
        if is_new:
            self.stage = 0 if decreases else self.stage + 1
            self.reference = self.window

    def on_loss(self, size: int, now: int) -> None:
        raise AssertionError("ports lose nothing with HPCC")
