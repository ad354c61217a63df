"""What does not fit in the memory of its GPUs is shown, but nobody is told to take it."""

from __future__ import annotations

from dataclasses import replace

from topoflow.api.results import Results
from topoflow.case.base import Result
from topoflow.report.answer import answers, memory_notes, recommended
from topoflow.report.base import Report
from topoflow.report.draw.price import frontier


def with_memory(result: Result, needs: float, has: float, share: float = 1.0) -> Result:
    """The result of a job that needs and has other memory, B per GPU."""
    job = replace(result.case.job, memory=needs, gpu_memory=has, share=share)
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


def test_what_leaves_no_room_for_buffers_and_fragmentation_might_not_run(report: Report) -> None:
    """An estimate of 1.99 GB of 2 GB has none of what it does not count."""
    fastest, *others = report.ranking
    crowded = Report((with_memory(fastest, 1.99e9, 2e9, 0.8), *others), "")
    assert crowded.ranking[-1].settings.world == fastest.settings.world
    (note,) = memory_notes(crowded)
    assert note.endswith("needs 1.99 GB per GPU, may take 1.6 GB: might not run (gpu.memory_share)")
    assert Report((with_memory(fastest, 1.59e9, 2e9, 0.8), *others), "").ranking[0].fits


def test_an_ideal_network_is_named_and_never_the_advice(report: Report) -> None:
    ranked = report.jobs[0]
    ideal = replace(ranked[0], case=replace(ranked[0].case, fabric=replace(ranked[0].fabric, is_ideal=True)))
    ideal = replace(ideal, timeline=replace(ideal.timeline, world=replace(ideal.world, fabric=ideal.case.fabric)))
    first = Report((ideal, *ranked[1:]), "")
    (answer,) = answers(first)
    assert recommended(first.jobs[0]) == ranked[1:]
    assert ": " + ranked[1].settings.fabric in answer
    assert ", which cannot be built, takes " in answer
    assert Results(first).fastest is ranked[1]
    assert ideal not in frontier(first.outcomes)
    assert frontier((ideal,)) == [ideal]
    (alone,) = answers(Report((ideal,), ""))
    assert "cannot be built" not in alone


def test_the_frontier_of_price_has_only_what_fits(report: Report) -> None:
    best = frontier(report.outcomes)
    full = tuple(with_memory(outcome, 2.0, 1.0) for outcome in report.outcomes)
    assert best
    assert frontier(full) == []


def test_where_nothing_is_known_about_memory_nothing_is_said(report: Report) -> None:
    assert memory_notes(report) == []
    assert all(outcome.fits for outcome in report.outcomes)
