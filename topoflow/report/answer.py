"""The answer in sentences: which fabric is fastest, and which is worth its money."""

from __future__ import annotations

from topoflow.case.base import Result
from topoflow.case.rows import Row
from topoflow.report.base import Report
from topoflow.units import human

CLOSE = 0.1  # a world within 10% of the fastest is nearly as fast


def answers(report: Report) -> list[str]:
    """One answer per job, in plain words."""
    return [_answer(report, job) for job in report.jobs]


def memory_notes(report: Report) -> list[str]:
    """A line for every strategy that needs more memory than a GPU has."""
    keys = [key for key in report.swept if key.partition(".")[0] in ("workload", "strategy", "gpu")]
    notes = []
    for outcome in report.ranking:
        if outcome.memory is not None and not outcome.fits:
            swept = "".join(f", {key}={outcome.settings.swept[key]}" for key in keys if key in outcome.settings.swept)
            needs, has = human(outcome.memory, "B"), human(outcome.gpu_memory, "B")
            who = f"{place(outcome.row)}, strategy {outcome.row.strategy}{swept}"
            notes.append(f"{who}: needs {needs} per GPU, has {has}: would not run")
    return list(dict.fromkeys(notes))


def notes(report: Report) -> list[str]:
    """A line for everything that was decided by the size of a job, and that is assumed of a recorded one."""
    lines = (f"{place(one.row)}: {note}" for one in report.outcomes for note in one.notes)
    return list(dict.fromkeys(lines))


def _answer(report: Report, ranked: tuple[Result, ...]) -> str:
    job = tuple(outcome for outcome in ranked if outcome.fits) or ranked
    fastest, row = job[0], job[0].row
    best = row.iteration_time
    names = dict(zip((outcome.settings.world for outcome in ranked), report.labels(ranked), strict=True))
    how = ", by the lower bound" if fastest.settings.is_lower_bound else ""
    how += ", of what fits in memory" if len(job) < len(ranked) else ""
    first = f"{place(row)}{how}: {names[row.world]}"
    unknown = _unsized(fastest)
    if len(job) == 1:
        return f"{first} takes {human(best, 's')} per step{_price(fastest)}.{unknown}"
    if unknown and not any(outcome.flow_matrix.any() for outcome in job):
        return f"{place(row)}{how}: {human(best, 's')} per step, which says nothing of the network.{unknown}"
    if not any(outcome.flow_matrix.any() for outcome in job):
        return f"{place(row)}{how}: {human(best, 's')} per step on any network, as nothing goes between servers."
    text = f"{first} is the fastest with {human(best, 's')} per step{_price(fastest)}.{unknown}"
    priced = sorted((outcome for outcome in job if outcome.cost is not None), key=lambda outcome: outcome.cost or 0.0)
    if not priced:
        return text
    close = [outcome for outcome in priced if outcome.row.iteration_time <= best * (1 + CLOSE)]
    if close and close[0] is not fastest:
        name = names[close[0].settings.world]
        text += f" Within {CLOSE:.0%} of that, the cheapest is {name}{_slower(close[0], best)}."
    elif close:
        text += f" Nothing cheaper comes within {CLOSE:.0%} of it."
    if priced[0] is not fastest and (not close or priced[0].cost != close[0].cost):
        text += f" The cheapest of all is {names[priced[0].settings.world]}{_slower(priced[0], best)}."
    return text


def _unsized(outcome: Result) -> str:
    """What the answer does not know, where a recorded job communicated without a record of how much."""
    if not outcome.unsized_time:
        return ""
    time = human(outcome.unsized_time, "s")
    return f" Communication of {time} per step has no recorded size and takes that long here on any network."


def place(row: Row) -> str:
    """``dlrm on 16 servers``"""
    return f"{row.workload} on {row.servers} server{'s' if row.servers > 1 else ''}"


def _price(outcome: Result) -> str:
    return "" if outcome.cost is None else f", for ${outcome.cost:,.0f}"


def _slower(outcome: Result, best: float) -> str:
    """How much slower than the fastest, and the price."""
    more = outcome.row.iteration_time / best - 1 if best > 0 else 0.0
    how = "just as fast" if more < 0.0005 else f"{more:.1%} slower" if more < 1 else f"{1 + more:.3g} times as long"
    return f": {human(outcome.row.iteration_time, 's')} per step ({how}){_price(outcome)}"
