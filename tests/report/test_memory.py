"""What does not fit in the memory of its GPUs is shown, but nobody is told to take it."""

from __future__ import annotations

from dataclasses import replace

from topoflow.case.base import Result
from topoflow.report.answer import answers, memory_notes
from topoflow.report.base import Report
from topoflow.report.draw.price import frontier


def with_memory(result: Result, needs: float, has: float) -> Result:
    """The result of a job that needs and has other memory, B per GPU."""
    job = replace(result.case.job, memory=needs, gpu_memory=has)
    return replace(result, case=replace(result.case, job=job))


def test_the_fastest_that_does_not_fit_is_ranked_behind_all_that_do(report: Report) -> None:
    fastest, *others = report.ranking
    full = with_memory(fastest, 3e9, 2e9)
    crowded = Report((full, *others), "")
    assert [outcome.settings.world for outcome in crowded.ranking] == [
        outcome.settings.world for outcome in (*others, fastest)
    ]
    assert memory_notes(crowded) == ["toy on 4 servers, strategy by_hand: needs 3 GB per GPU, has 2 GB: would not run"]
    (answer,) = answers(crowded)
    assert answer.startswith("toy on 4 servers, of what fits in memory: ")


def test_the_frontier_of_price_has_only_what_fits(report: Report) -> None:
    best = frontier(report.outcomes)
    full = tuple(with_memory(outcome, 2.0, 1.0) for outcome in report.outcomes)
    assert best
    assert frontier(full) == []


def test_where_nothing_is_known_about_memory_nothing_is_said(report: Report) -> None:
    assert memory_notes(report) == []
    assert all(outcome.fits for outcome in report.outcomes)
