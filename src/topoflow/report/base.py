"""Report: the simulated worlds and their results, for users and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from topoflow.case.base import Result
from topoflow.case.failures import Failures
from topoflow.case.rows import ResultRow


@dataclass(frozen=True)
class Report:
    """All results of a comparison, in the order of the grid."""

    outcomes: tuple[Result, ...]
    command: str  # as typed, to reproduce the comparison
    left_out: tuple[str, ...] = ()  # worlds that cannot be built (default grid) or did not end, with the reason
    unfinished: tuple[str, ...] = ()  # those of ``left_out`` that did not end

    def __post_init__(self) -> None:
        names = [outcome.case.world.name for outcome in self.outcomes]
        if not names:
            raise ValueError("report: must have at least one world, got none")
        if len(set(names)) != len(names):
            raise ValueError(f"report: worlds must have different names, got {names}")

    @property
    def rows(self) -> list[ResultRow]:
        return [outcome.row for outcome in self.outcomes]

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """Return the keys that have more than one value, in the order of the command line."""
        keys = dict.fromkeys(key for outcome in self.outcomes for key in outcome.settings.swept)
        return tuple(key for key in keys if len({o.settings.swept.get(key) for o in self.outcomes}) > 1)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return world -> its row in ``result.json``, from 0."""
        return {outcome.settings.world: number for number, outcome in enumerate(self.outcomes)}

    @cached_property
    def fabrics(self) -> tuple[str, ...]:
        """Return the distinct names of the fabrics, in the order of the grid, which determines their looks."""
        return tuple(dict.fromkeys(outcome.settings.fabric for outcome in self.outcomes))

    def labels(self, outcomes: Sequence[Result]) -> list[str]:
        """Return short names that distinguish these worlds: ``fat_tree, 25 Gb/s, degree=4``."""
        keys = [key for key in self.swept if key != "fabric"]
        keys = [key for key in keys if len({outcome.settings.swept.get(key) for outcome in outcomes}) > 1]
        return [
            ", ".join([outcome.settings.fabric, *(_short(key, outcome.settings.swept.get(key, "")) for key in keys)])
            for outcome in outcomes
        ]

    @property
    def failures(self) -> list[tuple[str, Failures]]:
        """Return the failures of each world, with the world's short name."""
        if not any(outcome.failures for outcome in self.outcomes):
            return []
        outcomes = [outcome for outcome in self.ranking if outcome.failures]
        labelled = zip(self.labels(outcomes), outcomes, strict=True)
        return [(label, failures) for label, outcome in labelled for failures in outcome.failures]

    @cached_property
    def ranking(self) -> tuple[Result, ...]:
        """Return the results, fastest first, then cheapest; those that do not fit in memory come last."""
        return tuple(
            sorted(self.outcomes, key=lambda o: (not o.fits, o.row.iteration_time, o.cost is None, o.cost or 0.0))
        )

    @cached_property
    def choices_first(self) -> tuple[Result, ...]:
        """The ranking, but networks that cannot be built come after those that can."""
        return tuple(sorted(self.ranking, key=lambda result: (not result.fits, result.fabric.is_ideal)))

    @cached_property
    def jobs(self) -> tuple[tuple[Result, ...], ...]:
        """Return the ranking by job, since times of different jobs cannot be compared."""
        groups: dict[str, list[Result]] = {}
        for outcome in self.outcomes:
            groups.setdefault(outcome.comparable, [])
        for outcome in self.ranking:
            groups[outcome.comparable].append(outcome)
        return tuple(tuple(group) for group in groups.values())

    def representatives(self, most: int) -> tuple[Result, ...]:
        """Return at most ``most`` results to draw: the fastest of each fabric, then the fastest of the others."""
        if len(self.outcomes) <= most:
            return self.outcomes
        first: dict[str, Result] = {}
        for outcome in self.ranking:
            first.setdefault(outcome.settings.fabric, outcome)
        chosen = list(first.values())
        chosen += [outcome for outcome in self.ranking if first[outcome.settings.fabric] is not outcome]
        names = {outcome.settings.world for outcome in chosen[:most]}
        return tuple(outcome for outcome in self.outcomes if outcome.settings.world in names)


def _short(key: str, value: str) -> str:
    return f"{value} Gb/s" if key == "bandwidth_gbps" else f"{key.rpartition('.')[2]}={value}"
