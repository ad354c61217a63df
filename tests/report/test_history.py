"""The history of a search as it is drawn: every step, every simulation, the rounds that changed the topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from topoflow.report.draw import history as histories
from topoflow.search.history import COLUMNS, SearchHistory

Make = Callable[..., SearchHistory]
START = 0.9  # s


def lines(history: SearchHistory) -> Mapping[str, np.ndarray]:
    axes = histories.draw(history, START).axes[0]
    return {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.get_lines()}


def test_history_shows_every_step_and_simulation(make_history: Make) -> None:
    history = make_history(steps=40, chains=4, rounds=2)
    curves = histories.draw(history, START).axes[0].get_lines()
    points = {tuple(np.round(at, 6)) for line in curves for at in np.asarray(line.get_xydata())}
    assert {tuple(np.round(at, 6)) for at in zip(history.proposals, 1e3 * history.best, strict=True)} <= points
    assert len(lines(history)["simulated candidates"]) == 4
    best = lines(history)["start, and best so far (simulated)"]
    assert best.tolist() == [[0.0, 900.0], [160.0, 180.0], [320.0, 180.0]]


def test_a_start_that_is_far_slower_is_in_the_picture(make_history: Make) -> None:
    axes = histories.draw(make_history(), 5.0).axes[0]
    low, high = axes.get_ylim()
    assert low < 5 < high  # in s: the unit is of the longest
    assert axes.get_yscale() == "log"


def test_a_search_that_tried_nothing_has_no_history_to_draw(make_history: Make) -> None:
    """A recorded job that every emphasis builds the same network for."""
    quiet = replace(make_history(), steps=np.zeros((0, len(COLUMNS))))
    assert quiet.searched, "candidates were simulated"
    assert not replace(
        quiet, rounds=tuple(replace(search_round, strategies=(), topologies=()) for search_round in quiet.rounds)
    ).searched


def test_rounds_with_another_topology_are_marked(make_history: Make) -> None:
    plotted = lines(make_history(rounds=3))
    assert plotted["end of a round with a new topology"][0, 0] == 160.0
    assert plotted["end of a round that kept its topology"][0, 0] == 320.0


@pytest.mark.parametrize("steps", [1, 20_000])
def test_history_of_few_and_of_many_steps_can_be_drawn(make_history: Make, steps: int) -> None:
    columns = np.zeros((steps, len(COLUMNS)))
    columns[:, COLUMNS.index("proposals")] = np.arange(1.0, steps + 1)
    figure = histories.draw(replace(make_history(), steps=columns), START)
    assert sum(len(line.get_xdata()) for line in figure.axes[0].get_lines()) < 50_000
