"""History: how a search went. H steps of all chains at once; R rounds."""

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
class Round:
    """What came out of one round; times are ``fluid``'s, s."""

    round: int
    steps: int  # of every chain: those of its stage
    strategies: tuple[float, ...]  # of the candidates on the network of the round before
    topologies: tuple[float, ...]  # of the candidates on networks of their own
    time: float  # of the best so far, after the round
    new_strategy: bool
    new_topology: bool
    temperatures: tuple[float, ...]  # s, at its end, of every rung, ascending: the median of all ladders; (): no walk


@dataclass(frozen=True)
class History:
    """``steps`` [H, 6]: see the properties. Rates are the clock's; all else is the same for the same seed."""

    steps: Floats = field(default_factory=lambda: np.zeros((0, len(COLUMNS))))
    rounds: tuple[Round, ...] = ()

    @property
    def round(self) -> Floats:
        """[H] the round, from 0."""
        return self.steps[:, 0]

    @property
    def proposals(self) -> Floats:
        """[H] made so far, in all rounds."""
        return self.steps[:, 1]

    @property
    def made(self) -> int:
        """Proposals, of all rounds."""
        return int(self.proposals[-1]) if len(self.steps) else 0

    @property
    def best(self) -> Floats:
        """[H] s, the least in the round so far, as screened."""
        return self.steps[:, 2]

    @property
    def current(self) -> Floats:
        """[H] s, of the chain at the lowest temperature, as screened."""
        return self.steps[:, 3]

    @property
    def acceptance(self) -> Floats:
        """[H] share of the step's proposals that were accepted."""
        return self.steps[:, 4]

    @property
    def rate(self) -> Floats:
        """[H] evaluations per second."""
        return self.steps[:, 5]

    def rounds_to_json(self) -> list[dict[str, Any]]:
        return [asdict(each) for each in self.rounds]

    @classmethod
    def from_json(cls, steps: NDArray[Any], rounds: Sequence[Any]) -> History:
        """Raises ``ValueError`` with field, law and value for what is no history."""
        if steps.dtype != np.float64 or steps.ndim != 2 or steps.shape[1] != len(COLUMNS):
            rule = f"must be float64 [H, {len(COLUMNS)}]"
            raise ValueError(f"history: {rule}, got {steps.dtype} {list(steps.shape)}")
        if not (np.isfinite(steps).all() and (steps >= 0).all()):
            raise ValueError("history: must be finite and not negative, got others")
        return cls(steps, tuple(_round(Fields.of(f"rounds[{index}].", each)) for index, each in enumerate(rounds)))


def _round(plain: Fields) -> Round:
    return Round(
        round=plain.integer("round"),
        steps=plain.integer("steps"),
        strategies=tuple(plain.numbers("strategies")),
        topologies=tuple(plain.numbers("topologies")),
        time=plain.number("time"),
        new_strategy=plain.boolean("new_strategy"),
        new_topology=plain.boolean("new_topology"),
        temperatures=tuple(plain.numbers("temperatures")),
    )
