"""What ``topoflow search`` shows while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from topoflow.cli.search_progress import Searches, told
from topoflow.search.alternate import Progress

EXPLORING = Progress("exploring", 9, 12, 120, 250, 58.47e-3, 57e-3, 58e-3, 0.31, 123_456.0)
SIMULATING = Progress("simulating", 9, 12, 250, 250, 58.47e-3, 57e-3, 58e-3, 0.0, 0.0)


@pytest.mark.parametrize("at", [EXPLORING, SIMULATING])
def test_a_search_is_one_line_of_80_letters(at: Progress) -> None:
    searches = Searches()
    searches.search("topoopt")(at)
    text = io.StringIO()
    Console(file=text, width=80).print(searches._progress.get_renderable())
    assert text.getvalue().count("\n") == 1
    assert told(at) in text.getvalue()


def test_what_is_simulated_has_no_evaluations_per_second() -> None:
    assert told(EXPLORING) == "round 10, best 58.47 ms, 123,456 evals/s, 31% accepted"
    assert told(SIMULATING) == "round 10, simulating, best 58.47 ms"
