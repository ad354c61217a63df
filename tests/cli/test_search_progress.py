"""What ``topoflow search`` shows while it runs."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from topoflow.cli.search_progress import SearchTerminal, line

EXPLORING = {
    "activity": "exploring",
    "round": 9,
    "time": 58.47e-3,
    "best": 57e-3,
    "acceptance": 0.31,
    "rate": 123_456.0,
}
SIMULATING = {"activity": "simulating", "round": 9, "time": 58.47e-3, "best": 57e-3, "acceptance": 0.0, "rate": 0.0}


@pytest.mark.parametrize("values", [EXPLORING, SIMULATING])
def test_a_search_is_one_line_of_80_letters(values: dict[str, Any]) -> None:
    terminal = SearchTerminal()
    terminal.stage("topoopt")
    terminal.advance(120, 250)
    terminal.record(**values)
    text = io.StringIO()
    Console(file=text, width=80).print(terminal._progress.get_renderable())
    assert text.getvalue().count("\n") == 1
    assert line(values) in text.getvalue()


def test_what_is_simulated_has_no_evaluations_per_second() -> None:
    assert line(EXPLORING) == "round 10, best 58.47 ms, 123,456 evals/s, 31% accepted"
    assert line(SIMULATING) == "round 10, simulating, best 58.47 ms"
