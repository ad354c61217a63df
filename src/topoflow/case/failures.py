"""What single failures do to a job: how much slower it gets, as a distribution.

Shapes: F failures that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("network", "what fails", "single failures", "median", "95th percentile", "worst", "which is", "cut off")

FEWER_SAMPLES = (
    "After a server has failed, a step trains on the samples of the others: fewer, so that it may even be quicker."
)

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slowdowns:
    """Iteration times before and after each failure."""

    whole: float  # s, nothing has failed
    failed: Values  # [F] s, inf: some server cannot be reached any more

    @property
    def ratio(self) -> Values:
        """[F] how many times as long an iteration takes; 1 of an iteration that takes no time."""
        return np.divide(self.failed, self.whole, out=np.maximum(self.failed, 1.0), where=self.whole > 0)


@dataclass(frozen=True, eq=False)
class Failures:
    """Every fiber or server of a network failed by itself; the fibers of one link are alike."""

    what: str  # "fiber" or "server"
    names: tuple[str, ...]  # [F] of the server, or "server0 to server3" of the link
    count: NDArray[np.int64]  # [F] fibers that are alike, 1 of a server
    slowdowns: Slowdowns  # of F failures

    @property
    def each(self) -> Values:
        """The slowdown of every failure, those that are alike as often as there are of them."""
        return np.repeat(self.slowdowns.ratio, self.count)

    def records(self) -> Iterator[dict[str, object]]:
        """A row per failure that differs; null where the job cannot continue."""
        seconds, ratio = self.slowdowns.failed, self.slowdowns.ratio
        for number, name in enumerate(self.names):
            survives = bool(np.isfinite(seconds[number]))
            yield {
                "what": self.what,
                "number": number,
                "name": name,
                "count": int(self.count[number]),
                "iteration_time": float(seconds[number]) if survives else None,
                "slowdown": float(ratio[number]) if survives else None,
            }

    def cells(self, network: str) -> tuple[str, ...]:
        """A row of the table that ``COLUMNS`` is the head of."""
        each = self.each
        cut_off = np.isinf(self.slowdowns.failed)
        survives = np.where(cut_off, 0.0, self.slowdowns.ratio)
        worst = int(survives.argmax())
        median, most = (float(np.quantile(each, share, method="inverted_cdf")) for share in (0.5, 0.95))
        return (
            network,
            self.what,
            f"{len(each):,}",
            _times(median),
            _times(most),
            _times(float(survives[worst])) if survives[worst] else "-",
            self._name(worst) if survives[worst] else "-",
            f"{int(self.count[cut_off].sum()):,}",
        )

    def _name(self, number: int) -> str:
        name = self.names[number]
        return name if self.what == "server" else f"link {number}, {name}"


def _times(slowdown: float) -> str:
    return f"{slowdown:.2f}x" if np.isfinite(slowdown) else "cut off"
