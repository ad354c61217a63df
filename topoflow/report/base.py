"""Report: what was simulated and what came out, for a person and for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from topoflow.case.base import Result
from topoflow.case.failures import Failures
from topoflow.case.rows import ResultRow


@dataclass(frozen=True)
class Report:
    """Everything a comparison found, in the order of the grid."""

    outcomes: tuple[Result, ...]
    command: str  # what was typed, to reproduce it
    left_out: tuple[str, ...] = ()  # worlds of the default grid that cannot be built and those without an end, and why
    unfinished: tuple[str, ...] = ()  # of these, those without an end

    def __post_init__(self) -> None:
        names = [outcome.settings.world for outcome in self.outcomes]
        if not names:
            raise ValueError("report: must have at least one world, got none")
        if len(set(names)) != len(names):
            raise ValueError(f"report: worlds must have different names, got {names}")

    @property
    def rows(self) -> list[ResultRow]:
        return [outcome.row for outcome in self.outcomes]

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """Keys that take more than one value, in the order of the command line."""
        keys = dict.fromkeys(key for outcome in self.outcomes for key in outcome.settings.swept)
        return tuple(key for key in keys if len({o.settings.swept.get(key) for o in self.outcomes}) > 1)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """World -> its row in ``result.json``, from 0."""
        return {outcome.settings.world: number for number, outcome in enumerate(self.outcomes)}

    @cached_property
    def fabrics(self) -> tuple[str, ...]:
        """Names of the fabrics, each once, in the order of the grid: what their looks follow."""
        return tuple(dict.fromkeys(outcome.settings.fabric for outcome in self.outcomes))

    def labels(self, outcomes: Sequence[Result]) -> list[str]:
        """What tells these worlds from each other, short: ``fat_tree, 25 Gb/s, degree=4``."""
        keys = [key for key in self.swept if key != "fabric"]
        keys = [key for key in keys if len({outcome.settings.swept.get(key) for outcome in outcomes}) > 1]
        return [
            ", ".join([outcome.settings.fabric, *(_short(key, outcome.settings.swept.get(key, "")) for key in keys)])
            for outcome in outcomes
        ]

    @property
    def failures(self) -> list[tuple[str, Failures]]:
        """What single failures do, each with the short name of its world."""
        if not any(outcome.failures for outcome in self.outcomes):
            return []
        asked = [outcome for outcome in self.ranking if outcome.failures]
        return [(label, each) for label, one in zip(self.labels(asked), asked, strict=True) for each in one.failures]

    @cached_property
    def ranking(self) -> tuple[Result, ...]:
        """Fastest first, the cheaper one where two are as fast; what does not fit in memory after all that does."""
        return tuple(
            sorted(self.outcomes, key=lambda o: (not o.fits, o.row.iteration_time, o.cost is None, o.cost or 0.0))
        )

    @cached_property
    def jobs(self) -> tuple[tuple[Result, ...], ...]:
        """The ranking, job by job: times of different jobs say nothing about each other."""
        groups: dict[str, list[Result]] = {}
        for outcome in self.outcomes:
            groups.setdefault(outcome.comparable, [])
        for outcome in self.ranking:
            groups[outcome.comparable].append(outcome)
        return tuple(tuple(group) for group in groups.values())

    def representatives(self, most: int) -> tuple[Result, ...]:
        """At most this many results, to be drawn: the fastest of each fabric, then the fastest of the rest."""
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
