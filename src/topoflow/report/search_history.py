"""History of a search: times of its proposals and of its simulated candidates, round by round.

Shapes: H steps of all chains at once, R rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Floats


@dataclass(frozen=True)
class Round:
    """A round of a search: what was simulated at its end, and what was kept."""

    simulated: tuple[float, ...]  # s, of every candidate
    time: float  # s, of the best in this and all rounds before
    new_strategy: bool
    new_topology: bool
    temperatures: tuple[float, ...] = ()  # s, at the end of the round, ascending; (): no chain walked


@dataclass(frozen=True, eq=False)
class History:
    """The steps [H] and rounds [R] of a search.

    Laws: as many numbers of each kind, proposals ascend, rounds are known.
    """

    proposals: Floats  # [H] made so far, in all chains
    round: Floats  # [H] from 0
    best: Floats  # [H] s, the least of its round so far, as screened
    current: Floats  # [H] s, of the chain at the lowest temperature, as screened
    acceptance: Floats  # [H] share of the step's proposals that were accepted
    rate: Floats  # [H] evaluations per second
    start: float  # s, of what the search began with, as simulated
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
        """Return [R] where every round ended: at its last proposal, or at its number where nothing was proposed."""
        if not len(self.proposals):
            return np.arange(1.0, len(self.rounds) + 1)
        last = [self.proposals[self.round <= number] for number in range(len(self.rounds))]
        return np.array([float(of[-1]) if len(of) else 0.0 for of in last])

    @property
    def searched(self) -> bool:
        """Return whether anything other than the start was proposed or simulated."""
        return len(self.proposals) > 0 or any(each.simulated for each in self.rounds)
