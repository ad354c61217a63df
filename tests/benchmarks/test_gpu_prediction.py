"""Predictions for a GPU are those of the counts that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_prediction import CASES, COUNTS, EVENTS, GPUS, Levels, main


def test_what_is_kept_is_what_the_model_says_of_the_kept_counts(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    kept = (COUNTS.parent / "gpu_predictions.txt").read_text().splitlines()
    said = capsys.readouterr().out.splitlines()
    assert len(said) > 0
    assert not {*said} - {*kept}


@pytest.mark.parametrize(("hosts", "events"), CASES)
def test_more_teams_are_slower_each_and_more_waiting_is_slower(hosts: int, events: int) -> None:
    kernel = Levels.read(f"all_to_all_{hosts}_hosts")
    h100 = GPUS["h100"]
    alone = kernel.alone(h100, events)
    assert 1 / alone < kernel.full(h100, events) < Levels.TEAMS * h100.processors / alone
    sizes = sorted(kernel.past)
    assert [kernel.past[size] for size in sizes] == sorted(kernel.past.values(), reverse=True)
    assert kernel.beyond(0) == kernel.chain >= kernel.past[sizes[0]]


def test_cases_have_the_events_that_were_counted() -> None:
    counted = dict(line.split() for line in Path(COUNTS).read_text().splitlines() if line.startswith("fluid."))
    assert tuple((hosts, int(counted[f"fluid.all_to_all_{hosts}_hosts.events"])) for hosts, _ in CASES) == CASES
    assert CASES[0][1] == EVENTS
