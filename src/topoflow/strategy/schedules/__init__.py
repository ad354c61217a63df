"""Pipeline schedules by name, or by the CSV file that has one: ``strategy.schedule``."""

from __future__ import annotations

import pkgutil
from functools import cache, lru_cache
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.schedules.base import Schedule, ScheduleRule
from topoflow.strategy.schedules.csv_file import read_schedule

FIELD = "strategy.schedule"
CSV = ".csv"


@cache
def rules() -> dict[str, ScheduleRule]:
    """Return the rule of each schedule by its name, which is that of its file."""
    modules = {info.name: import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}
    return {name: module.RULE for name, module in modules.items() if hasattr(module, "RULE")}


def rule_of(schedule: str | None, virtual: int) -> ScheduleRule:
    """Return the rule by its name; None is 1F1B, interleaved if ranks have several stages."""
    name = schedule or ("one_f_one_b" if virtual == 1 else "interleaved")
    if name not in rules():
        raise ValueError(f"{FIELD}: must be one of {', '.join(sorted(rules()))}, or a file *{CSV}, got {schedule!r}")
    return rules()[name]


def stages_per_rank(schedule: str | None, virtual: int, pipeline: int) -> int:
    """Return the stages of each rank under a schedule, if ``virtual`` are asked for; 1 is the default."""
    if schedule is None or pipeline == 1:
        return virtual
    if schedule.endswith(CSV):
        table = read_schedule(schedule)
        return table.stages // len(table.rows)
    needed = rule_of(schedule, virtual).virtual
    if needed is None or virtual == needed or (not needed and virtual > 1):
        return virtual
    if virtual > 1 or not needed:
        rule = f"must be {needed}" if needed else "must be at least 2"
        raise ValueError(f"parallel.virtual: {rule} with schedule={schedule}, got {virtual}")
    return needed


def stage_ranks(schedule: str | None, ranks: int, microbatches: int, stages: int) -> tuple[int, ...]:
    """Return the rank of each stage. Raise ``ValueError`` if the schedule does not allow these numbers."""
    virtual = stages // ranks
    if ranks == 1:
        return (0,) * stages
    if schedule is not None and schedule.endswith(CSV):
        table = read_schedule(schedule)
        for name, value, needed in (
            ("pipeline", len(table.rows), ranks),
            ("microbatches", table.microbatches, microbatches),
            ("stages", table.stages, stages),
        ):
            if value != needed:
                raise ValueError(f"{FIELD}: {schedule} must have {needed} {name}, got {value}")
        return table.stage_ranks
    rule = rule_of(schedule, virtual)
    stages_per_rank(schedule, virtual, ranks)
    if problem := check_microbatches(schedule, ranks, microbatches, virtual):
        raise ValueError(f"parallel.microbatches: {problem}, got {microbatches}")
    return rule.stage_ranks(ranks, virtual)


def check_microbatches(schedule: str | None, ranks: int, microbatches: int, virtual: int) -> str:
    """Return the law of the schedule that this number of microbatches breaks, or nothing."""
    if ranks == 1:
        return ""
    if schedule is not None and schedule.endswith(CSV):
        needed = read_schedule(schedule).microbatches
        return f"must be {needed} with schedule={schedule}" * (microbatches != needed)
    return rule_of(schedule, virtual).check(ranks, microbatches)


def table_of(schedule: str | None, ranks: int, microbatches: int, stages: int) -> Schedule:
    """Return the table of a schedule."""
    if schedule is not None and schedule.endswith(CSV) and ranks > 1:
        return read_schedule(schedule)
    return _table(schedule, ranks, microbatches, stages)


@lru_cache(maxsize=8)
def _table(schedule: str | None, ranks: int, microbatches: int, stages: int) -> Schedule:
    """Return the table of a rule, which recipes that differ in other choices share."""
    return _rule(schedule, ranks, stages).table(ranks, microbatches, stages // ranks)


def kept_microbatches(schedule: str | None, ranks: int, microbatches: int, stages: int) -> NDArray[np.int64]:
    """Return [stages] the microbatches whose activations a stage keeps when its rank keeps the most."""
    if schedule is not None and schedule.endswith(CSV) and ranks > 1:
        return read_schedule(schedule).kept_microbatches
    rule = _rule(schedule, ranks, stages)
    if rule.kept_microbatches is not None:
        return rule.kept_microbatches(ranks, microbatches, stages // ranks)
    return _kept(schedule, ranks, microbatches, stages)


@lru_cache(maxsize=1024)
def _kept(schedule: str | None, ranks: int, microbatches: int, stages: int) -> NDArray[np.int64]:
    return table_of(schedule, ranks, microbatches, stages).kept_microbatches


def _rule(schedule: str | None, ranks: int, stages: int) -> ScheduleRule:
    return rule_of(schedule if ranks > 1 else None, stages // ranks)


def splits(schedule: str | None, ranks: int) -> bool:
    """Return whether backward passes are split into the gradients of inputs and those of weights."""
    if schedule is None or ranks == 1:
        return False
    if schedule.endswith(CSV):
        return any(action.kind == "W" for row in read_schedule(schedule).rows for action in row)
    return rule_of(schedule, 1).splits
