"""Slowdowns of a job by single failures, as a distribution.

Shapes: F distinct failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("network", "what fails", "single failures", "median", "95th percentile", "worst", "which is", "cut off")

FEWER_SAMPLES = (
    "After a server has failed, a step trains on fewer samples, those of the other servers, so it may even be quicker."
)

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slowdowns:
    """Iteration times before and after each failure."""

    whole: float  # s, nothing has failed
    failed: Values  # [F] s; inf: some server cannot be reached any more

    @property
    def ratio(self) -> Values:
        """Return [F] the iteration time after each failure over that before; 1 for an iteration that takes no time."""
        return np.divide(self.failed, self.whole, out=np.maximum(self.failed, 1.0), where=self.whole > 0)


@dataclass(frozen=True, eq=False)
class Failures:
    """The failures of every single fiber or server of a network; the fibers of one link are equivalent."""

    what: str  # "fiber" or "server"
    names: tuple[str, ...]  # [F] name of the server; for a link "server0 to server3"
    count: NDArray[np.int64]  # [F] number of equivalent fibers; 1 for a server
    slowdowns: Slowdowns  # of F failures
    first: int = 0  # the number of the first

    @property
    def all_slowdowns(self) -> Values:
        """Return the slowdown of every failure; equivalent failures are repeated."""
        return np.repeat(self.slowdowns.ratio, self.count)

    def records(self) -> Iterator[dict[str, object]]:
        """Yield a row per distinct failure; times are null where the job cannot continue."""
        seconds, ratio = self.slowdowns.failed, self.slowdowns.ratio
        for number, name in enumerate(self.names):
            survives = bool(np.isfinite(seconds[number]))
            yield {
                "what": self.what,
                "number": self.first + number,
                "name": name,
                "count": int(self.count[number]),
                "iteration_time": float(seconds[number]) if survives else None,
                "slowdown": float(ratio[number]) if survives else None,
            }

    def cells(self, network: str) -> tuple[str, ...]:
        """Return the row of the network in the table with the header ``COLUMNS``."""
        slowdowns = self.all_slowdowns
        cut_off = np.isinf(self.slowdowns.failed)
        survives = np.where(cut_off, 0.0, self.slowdowns.ratio)
        worst = int(survives.argmax())
        median, percentile_95 = (float(np.quantile(slowdowns, share, method="inverted_cdf")) for share in (0.5, 0.95))
        return (
            network,
            self.what,
            f"{len(slowdowns):,}",
            _times(median),
            _times(percentile_95),
            _times(float(survives[worst])) if survives[worst] else "-",
            self._name(worst) if survives[worst] else "-",
            f"{int(self.count[cut_off].sum()):,}",
        )

    def _name(self, number: int) -> str:
        name = self.names[number]
        return name if self.what == "server" else f"link {self.first + number}, {name}"


def _times(slowdown: float) -> str:
    return f"{slowdown:.2f}x" if np.isfinite(slowdown) else "cut off"
