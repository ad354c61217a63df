"""Reliability: how often the parts of a cluster fail, and how much of a run of weeks is new training (goodput).

A failure of any part ends the step. The job then waits for ``restart_minutes`` and repeats what it trained since its
last checkpoint. Failures are independent and exponential, so that the expected time between two checkpoints is

    mtbf * exp(restart / mtbf) * (exp((interval + checkpoint) / mtbf) - 1)

for ``interval`` seconds of new training. Source: J. T. Daly, "A higher order estimate of the optimum checkpoint
interval for restart dumps", Future Generation Computer Systems 22, 2006, equations 20 and 37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, lgamma, log, sqrt

from topoflow.fabric.base import Item
from topoflow.units import check_count, check_not_negative, check_positive

PARTS = ("gpu", "host", "nic_port", "switch_port", "transceiver", "fiber", "software")
PARTS_OF_NODES = ("gpu", "host", "nic_port")  # a failure of one takes its node out for repair
HOUR, DAY = 3600.0, 86400.0
MOST_EXPONENT = 700.0  # beyond it no interval ends without a failure


@dataclass(frozen=True)
class Goodput:
    """A long run on a cluster."""

    share: float  # of the time in which new steps are trained
    failures_per_day: float
    interval: float | None  # seconds of training between two checkpoints; None: no part fails


@dataclass(frozen=True)
class Reliability:
    """The mean time between failures of each part, and what a job does about failures."""

    mtbf_hours: Mapping[str, float]  # by part, of ``PARTS``; host is a GPU's share of it, software is counted per GPU
    restart_minutes: float  # from a failure until steps are trained again
    checkpoint_gbytes_per_s: float  # at which each GPU writes its share of the weights and the optimizer's state
    checkpoint_minutes: float | None = None  # of training between two checkpoints; None: the best interval
    spares: int = 0  # nodes that replace failed ones
    repair_hours: float = 0.0  # until a failed node can be used again; 0: always replaced
    slow_share: float = 0.0  # of GPUs that are slower than the others
    slow_factor: float = 1.1  # by which these take longer

    def __post_init__(self) -> None:
        for part, hours in self.mtbf_hours.items():
            if part not in PARTS:
                raise ValueError(f"reliability.mtbf_hours: must be of {', '.join(PARTS)}, got {part!r}")
            check_positive(f"reliability.mtbf_hours.{part}", hours)
        check_not_negative("reliability.restart_minutes", self.restart_minutes)
        check_positive("reliability.checkpoint_gbytes_per_s", self.checkpoint_gbytes_per_s)
        if self.checkpoint_minutes is not None:
            check_positive("reliability.checkpoint_minutes", self.checkpoint_minutes)
        if self.spares != 0:
            check_count("reliability.spares", self.spares)
        check_not_negative("reliability.repair_hours", self.repair_hours)
        if not 0 <= self.slow_share <= 1:
            raise ValueError(f"reliability.slow_share: must be within 0..1, got {self.slow_share}")
        if not 1 <= self.slow_factor < inf:
            raise ValueError(f"reliability.slow_factor: must be at least 1, got {self.slow_factor}")

    def goodput(self, bill: Sequence[Item], gpus: int, state_bytes: float) -> Goodput:
        """Return the goodput of a job on the parts of ``bill``; ``state_bytes`` are its weights and optimizer state."""
        rate = sum(self._failures(bill, gpus).values())
        saving = state_bytes / (gpus * self.checkpoint_gbytes_per_s * 1e9)
        if self.checkpoint_minutes is not None:
            interval = self.checkpoint_minutes * 60
        elif rate == 0:
            return Goodput(1.0, 0.0, None)
        else:
            interval = best_interval(saving, 1 / rate)
        share = share_of_training(interval, saving, self.restart_minutes * 60, rate)
        return Goodput(share * self._share_with_all_nodes(bill, gpus), rate * DAY, interval)

    def waiting(self, compute: float, gpus: int) -> float:
        """Return the seconds that a step with ``compute`` seconds of computation waits for slow GPUs, in the mean."""
        return compute * (self.slow_factor - 1) * (1 - (1 - self.slow_share) ** gpus)

    def with_spares(self, bill: Sequence[Item], nodes: int) -> tuple[Item, ...]:
        """Return the bill of a cluster of ``nodes`` with that of its spare nodes."""
        more = 1 + self.spares / nodes
        of_nodes = [_part(item) in PARTS_OF_NODES for item in bill]
        return tuple(
            Item(item.component, item.count * more, item.bandwidth) if spare else item
            for item, spare in zip(bill, of_nodes, strict=True)
        )

    def _failures(self, bill: Sequence[Item], gpus: int) -> dict[str, float]:
        """Return the failures per second of each part."""
        counts = {"software": float(gpus)}
        for item in bill:
            counts[_part(item)] = counts.get(_part(item), 0.0) + item.count
        return {part: counts.get(part, 0.0) / (hours * HOUR) for part, hours in self.mtbf_hours.items()}

    def _share_with_all_nodes(self, bill: Sequence[Item], gpus: int) -> float:
        """Return the share of the time in which the spares suffice: nodes under repair are a Poisson number."""
        failures = self._failures(bill, gpus)
        mean = sum(failures.get(part, 0.0) for part in PARTS_OF_NODES) * self.repair_hours * HOUR
        if mean == 0:
            return 1.0
        return min(1.0, sum(exp(count * log(mean) - mean - lgamma(count + 1)) for count in range(self.spares + 1)))


def share_of_training(interval: float, saving: float, restart: float, rate: float) -> float:
    """Return the share of new training of a run that fails ``rate`` times a second. All times in seconds."""
    if rate == 0:
        return interval / (interval + saving)
    if (interval + saving + restart) * rate > MOST_EXPONENT:
        return 0.0
    return interval * rate * exp(-restart * rate) / expm1((interval + saving) * rate)


def best_interval(saving: float, mtbf: float) -> float:
    """Return the interval (s) between checkpoints of ``saving`` seconds that wastes the least (Daly, equation 37)."""
    if saving >= 2 * mtbf:
        return mtbf
    ratio = saving / (2 * mtbf)
    return sqrt(2 * saving * mtbf) * (1 + sqrt(ratio) / 3 + ratio / 9) - saving


def _part(item: Item) -> str:
    """Return the part of ``PARTS`` that an item of a bill is: ``gpu`` for ``gpu_h100``."""
    return item.component.partition("_")[0] if item.component.startswith(("gpu_", "host_")) else item.component
