"""The answer in sentences: which fabric is fastest, and which is worth its money."""

from __future__ import annotations

from topoflow.report.base import Outcome, Report
from topoflow.units import human

CLOSE = 0.1  # a world within 10% of the fastest is nearly as fast


def answers(report: Report) -> list[str]:
    """One answer per job, in plain words."""
    return [_answer(report, job) for job in report.jobs]


def _answer(report: Report, job: tuple[Outcome, ...]) -> str:
    fastest, row = job[0], job[0].row
    best = row.iteration_time
    text = (
        f"{row.workload} on {row.servers} servers: {_name(report, fastest)} is the fastest with "
        f"{human(best, 's')} per step{_price(fastest)}."
    )
    if len(job) == 1:
        return text.replace("is the fastest with", "takes")
    priced = [outcome for outcome in job if outcome.cost is not None]
    close = [outcome for outcome in priced if outcome.row.iteration_time <= best * (1 + CLOSE)]
    if close:
        cheap = min(close, key=lambda outcome: (outcome.cost or 0.0, outcome.row.iteration_time))
        if cheap is not fastest:
            text += f" Within {CLOSE:.0%} of that, the cheapest is {_name(report, cheap)}{_slower(cheap, best)}."
        else:
            text += f" Nothing cheaper comes within {CLOSE:.0%} of it."
    if priced:
        cheapest = min(priced, key=lambda outcome: (outcome.cost or 0.0, outcome.row.iteration_time))
        if cheapest is not fastest and (not close or cheapest not in close):
            text += f" The cheapest of all is {_name(report, cheapest)}{_slower(cheapest, best)}."
    return text


def _name(report: Report, outcome: Outcome) -> str:
    return report.label(outcome, without=("workload", "servers"))


def _price(outcome: Outcome) -> str:
    return "" if outcome.cost is None else f", for ${outcome.cost:,.0f}"


def _slower(outcome: Outcome, best: float) -> str:
    """How much slower than the fastest, and the price."""
    more = outcome.row.iteration_time / best - 1 if best > 0 else 0.0
    how = f"{more:.1%} slower" if more >= 0.0005 else "just as fast"
    return f": {human(outcome.row.iteration_time, 's')} per step ({how}){_price(outcome)}"
