"""Worlds that cannot be run: an error that names the world, the task and the law, and never a hang."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.engine.fluid import Fluid
from topoflow.engine.fluid.batch import pieces

LARGE = 2**31  # the first number that 32 bits with a sign do not have


def zeros(length: int, dtype: type) -> np.ndarray:
    """As many zeros, of which one is stored."""
    return np.broadcast_to(np.zeros(1, dtype), (length,))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("path_weight", np.array([1.0, 0.0]), r"w\.path_weight\[1\]: must be in \[1e-06, 1\], got 0\.0"),
        ("path_weight", np.array([1.5, 1.0]), r"w\.path_weight\[0\]: must be in \[1e-06, 1\], got 1\.5"),
        ("path_weight", np.array([np.nan, 1.0]), r"w\.path_weight\[0\]: must be in \[1e-06, 1\], got nan"),
        ("path_weight", np.array([1.0]), r"w\.path_weight: expected \[H\] = \[2\], got \[1\]"),
        ("path_limit", np.array([0.0, np.inf]), r"w\.path_limit\[0\]: must be positive, got 0\.0"),
        ("path_limit", np.array([1.0, -1.0]), r"w\.path_limit\[1\]: must be positive, got -1\.0"),
        ("path_limit", np.array([np.nan, np.inf]), r"w\.path_limit\[0\]: must be positive, got nan"),
        ("path_limit", np.array([1.0, 1.0]), r"w\.path_limit\[1\]: a path without links must have none, got 1\.0"),
        ("path_limit", np.array([1.0]), r"w\.path_limit: expected \[P\] = \[2\], got \[1\]"),
        (
            "path_links",
            np.array([1, 1], np.int32),
            r"w\.path_links: path 0 must cross a link at most once, got .* 1 .*",
        ),
        ("bytes", np.array([1.0, 1.0, np.inf]), r"w\.bytes\[2\]: must be finite and not negative, got inf"),
        ("bytes", np.array([np.nan, 1.0, 1.0]), r"w\.bytes\[0\]: must be finite and not negative, got nan"),
    ],
)
def test_a_graph_that_breaks_a_law_is_refused_by_name(field, value, message, make_world):
    world = make_world([{"path": [0, 1], "bytes": 1}, {"path": [], "bytes": 1}, {}], [1, 1], name="w")
    with pytest.raises(ValueError, match=f"^{message}$"):
        Fluid().simulate([replace(world, graph=replace(world.graph, **{field: value}))])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"path_links": zeros(LARGE, np.int32), "path_offsets": np.array([0, LARGE])}, "hops"),
        ({"path_offsets": zeros(LARGE + 1, np.int64)}, "paths"),
        ({"after": zeros(LARGE, np.int32), "after_offsets": np.array([0, LARGE])}, "dependencies"),
        ({"delay": zeros(LARGE, np.float64)}, "tasks"),
        ({"links": LARGE}, "links"),
    ],
)
def test_a_world_that_32_bits_cannot_number_is_refused_at_once(change, what, make_world):
    world = make_world([{"path": [0], "bytes": 1}], [1], name="w")
    with pytest.raises(ValueError, match=rf"^w: must have less than 2\^31 {what}, got {LARGE}$"):
        Fluid().simulate([replace(world, graph=replace(world.graph, **change))])


@pytest.mark.parametrize(
    "change",
    [
        {"path_links": zeros(LARGE // 2, np.int32)},
        {"path_offsets": zeros(LARGE // 2 + 1, np.int64)},
        {"after": zeros(LARGE // 2, np.int32)},
        {"delay": zeros(LARGE // 2, np.float64)},
    ],
)
def test_no_piece_of_a_batch_has_more_than_32_bits_can_number(change, make_world):
    # 2^30 each: one fits, two together are 2^31. Worlds that share a graph number it once.
    world = make_world([{"path": [0], "bytes": 1}], [1])
    first, other = (replace(world, graph=replace(world.graph, **change)) for _ in range(2))
    cut = list(pieces([first, replace(first, name="again"), other, first], budget=2**60))
    assert cut == [[first, replace(first, name="again")], [other], [first]]


@pytest.mark.parametrize(
    ("after", "stuck"),
    [
        ([[0]], 0),  # itself
        ([[], [0, 2], [1]], 1),  # each other, when another is done
        ([[], [0], [1, 5], [2], [3], [4]], 2),  # in a long circle
        ([[], [2], [], [4], [3], [4]], 3),  # and who waits for a circle waits for ever too
    ],
)
def test_tasks_that_wait_in_a_circle_are_an_error(after, stuck, run, make_world):
    world = make_world([{"after": awaited, "delay": 1} for awaited in after], [], name="knot")
    with pytest.raises(ValueError, match=rf"^knot: every task must become ready, got .*task {stuck}\b"):
        run(world)


def test_a_circle_of_tasks_does_not_keep_flows_from_ending(run, make_world):
    tasks = [{"path": [0], "bytes": 5}, {"after": [0, 2]}, {"after": [1]}]
    with pytest.raises(ValueError, match=r"^knot: every task must become ready, got .*task 1\b"):
        run(make_world(tasks, [1], name="knot"))


@pytest.mark.parametrize("flow", [{}, {"limit": 3}, {"weight": [1, 0.5]}])
def test_a_flow_over_a_link_without_capacity_is_an_error(flow, run, make_world):
    tasks = [{"path": [0], "bytes": 5}, {"delay": 1}, {"path": [0, 1], "bytes": 1, "after": [1], **flow}]
    with pytest.raises(ValueError, match=r"^cut: every flow must get bandwidth, got none for task 2$"):
        run(make_world(tasks, [1, 0], name="cut"))


def test_a_flow_that_would_take_longer_than_numbers_reach_is_an_error(run, make_world):
    # 1e300 B / 1e-300 B/s
    with pytest.raises(ValueError, match=r"^slow: every flow must get bandwidth, got none for task 0$"):
        run(make_world([{"path": [0], "bytes": 1e300}], [1e-300], name="slow"))
