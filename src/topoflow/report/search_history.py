"""History of a search: times of its proposals and of its simulated candidates, round by round.

Shapes: H steps of all chains at once, R rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Floats


@dataclass(frozen=True)
class Round:
    """A round of a search: the candidates simulated at its end, and what was kept."""

    simulated: tuple[float, ...]  # s, of every candidate
    time: float  # s, of the best in this and all rounds before
    new_strategy: bool
    new_topology: bool
    temperatures: tuple[float, ...] = ()  # s, at the end of the round, ascending; () without chains


@dataclass(frozen=True, eq=False)
class History:
    """The steps [H] and rounds [R] of a search.

    Constraints: columns have equal lengths, and proposals ascend.
    """

    proposals: Floats  # [H] proposals so far, of all chains
    round: Floats  # [H] from 0
    best: Floats  # [H] s, the least estimate of its round so far
    current: Floats  # [H] s, the estimate of the chain at the lowest temperature
    acceptance: Floats  # [H] share of the step's proposals that were accepted
    rate: Floats  # [H] evaluations per second
    start: float  # s, simulated, of the initial strategy
    rounds: tuple[Round, ...] = ()

    def __post_init__(self) -> None:
        steps = len(self.proposals)
        for name in ("round", "best", "current", "acceptance", "rate"):
            if len(getattr(self, name)) != steps:
                raise ValueError(f"history.{name}: expected [H] = [{steps}], got [{len(getattr(self, name))}]")
        if (np.diff(self.proposals) < 0).any():
            raise ValueError("history.proposals: must ascend")

    @property
    def ends(self) -> Floats:
        """Return [R] the end of every round: its last proposal, or its number if nothing was proposed."""
        if not len(self.proposals):
            return np.arange(1.0, len(self.rounds) + 1)
        last = [self.proposals[self.round <= number] for number in range(len(self.rounds))]
        return np.array([float(proposals[-1]) if len(proposals) else 0.0 for proposals in last])

    @property
    def searched(self) -> bool:
        """Return whether anything other than the start was proposed or simulated."""
        return len(self.proposals) > 0 or any(finished.simulated for finished in self.rounds)
