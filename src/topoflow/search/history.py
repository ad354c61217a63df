"""History: the progress of a search. Shapes: H steps of all chains, R rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fields import Fields

Floats = NDArray[np.float64]
COLUMNS = ("round", "proposals", "best", "current", "acceptance", "rate")


@dataclass(frozen=True)
class SearchRound:
    """The result of one round; times are in s."""

    round: int
    steps: int  # of every chain in this stage
    strategies: tuple[float, ...]  # times of the candidates on the network of the previous round
    topologies: tuple[float, ...]  # times of the candidates on networks built for them
    time: float  # of the best so far, after the round
    new_strategy: bool
    new_topology: bool
    temperatures: tuple[float, ...]  # s, of every rung at the end, ascending: the median of all ladders; (): no walk

    @property
    def simulated(self) -> tuple[float, ...]:
        """Return the times of all candidates (s)."""
        return self.strategies + self.topologies


@dataclass(frozen=True)
class SearchHistory:
    """The history of a search: ``steps`` [H, 6] with the columns of the properties, and the rounds.

    Rates depend on the clock; all other values are equal for equal seeds.
    """

    steps: Floats = field(default_factory=lambda: np.zeros((0, len(COLUMNS))))
    rounds: tuple[SearchRound, ...] = ()

    @property
    def round(self) -> Floats:
        """Return [H] the round, from 0."""
        return self.steps[:, 0]

    @property
    def proposals(self) -> Floats:
        """Return [H] the proposals so far, in all rounds."""
        return self.steps[:, 1]

    @property
    def num_proposals(self) -> int:
        """Return the number of proposals of all rounds."""
        return int(self.proposals[-1]) if len(self.steps) else 0

    @property
    def best(self) -> Floats:
        """Return [H] the least estimate in the round so far (s)."""
        return self.steps[:, 2]

    @property
    def current(self) -> Floats:
        """Return [H] the estimate of the chain at the lowest temperature (s)."""
        return self.steps[:, 3]

    @property
    def acceptance(self) -> Floats:
        """Return [H] the share of the step's proposals that were accepted."""
        return self.steps[:, 4]

    @property
    def rate(self) -> Floats:
        """Return [H] the evaluations per second."""
        return self.steps[:, 5]

    @property
    def ends(self) -> Floats:
        """Return [R] the end of every round: its last proposal, or its number if nothing was proposed."""
        if not len(self.steps):
            return np.arange(1.0, len(self.rounds) + 1)
        last = [self.proposals[self.round <= number] for number in range(len(self.rounds))]
        return np.array([float(proposals[-1]) if len(proposals) else 0.0 for proposals in last])

    @property
    def searched(self) -> bool:
        """Return whether anything other than the start was proposed or simulated."""
        return len(self.steps) > 0 or any(finished.simulated for finished in self.rounds)

    def rounds_to_json(self) -> list[dict[str, Any]]:
        return [asdict(finished) for finished in self.rounds]

    @classmethod
    def from_json(cls, steps: NDArray[Any], rounds: Sequence[Any]) -> SearchHistory:
        """Read a history. Raises ``ValueError`` with field, rule and value for an invalid one."""
        if steps.dtype != np.float64 or steps.ndim != 2 or steps.shape[1] != len(COLUMNS):
            rule = f"must be float64 [H, {len(COLUMNS)}]"
            raise ValueError(f"history: {rule}, got {steps.dtype} {list(steps.shape)}")
        if not (np.isfinite(steps).all() and (steps >= 0).all()):
            raise ValueError("history: must be finite and not negative, got others")
        return cls(steps, tuple(_round(Fields.of(f"rounds[{index}].", plain)) for index, plain in enumerate(rounds)))


def _round(plain: Fields) -> SearchRound:
    return SearchRound(
        round=plain.integer("round"),
        steps=plain.integer("steps"),
        strategies=tuple(plain.numbers("strategies")),
        topologies=tuple(plain.numbers("topologies")),
        time=plain.number("time"),
        new_strategy=plain.boolean("new_strategy"),
        new_topology=plain.boolean("new_topology"),
        temperatures=tuple(plain.numbers("temperatures")),
    )
