"""Worlds that cannot be run: an error that names the world, the task and the law, and never a hang."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.fluid import batch
from topoflow.fabric.ring import Ring
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

LARGE = 2**31  # the first number that 32 bits with a sign do not have


def zeros(length: int, dtype: type) -> np.ndarray:
    """As many zeros, of which one is stored."""
    return np.broadcast_to(np.zeros(1, dtype), (length,))


INTEGERS = np.int32
LAST = 2**63 - 1


def several(**changed: Any) -> Alternatives:
    """Two alternatives of the first path, one without links of the second."""
    some = {"offsets": [0, 2, 3], "hop_offsets": [0, 1, 2, 2], "links": [0, 1], "share": [0.5, 0.5, 1.0]}
    return Alternatives(**{name: np.array(changed.get(name, values)) for name, values in some.items()})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("path_weight", np.array([1.0, 0.0]), "path_weight[1]: must be positive, got 0.0"),
        ("path_weight", np.array([1.5, 1.0]), "path_weight[0]: must be at most 1, got 1.5"),
        ("path_weight", np.array([np.nan, 1.0]), "path_weight[0]: must be positive, got nan"),
        ("path_weight", np.array([1.0]), "path_weight: expected [H] = [2], got [1]"),
        ("path_limit", np.array([0.0, np.inf]), "path_limit[0]: must be positive, got 0.0"),
        ("path_limit", np.array([1.0, -1.0]), "path_limit[1]: must be positive, got -1.0"),
        ("path_limit", np.array([np.nan, np.inf]), "path_limit[0]: must be positive, got nan"),
        ("path_limit", np.array([1e300, np.inf]), "path_limit[0]: must be at most 1e+18, got 1e+300"),
        ("path_limit", np.array([1.0, 1.0]), "path_limit[1]: a path without links must have none, got 1.0"),
        ("path_limit", np.array([1.0]), "path_limit: expected [P] = [2], got [1]"),
        (
            "path_links",
            np.array([1, 1], INTEGERS),
            "path_links: path 0 must cross a link at most once, got link 1 again",
        ),
        ("path_links", np.array([0, 2], INTEGERS), "path_links[1]: must be in 0..1, got 2"),
        ("path_offsets", np.array([0, 3, 2]), "path_offsets: must rise from 0 to 2, got 0 to 2"),
        ("path", np.array([0, 2, -1], INTEGERS), "path[1]: must be in -1..1, got 2"),
        ("path", np.array([-1, 1, -1], INTEGERS), "path[0]: a task with bytes must have a path, got -1"),
        (
            "path",
            np.array([0.0, 1.0, -1.0]),
            "path: must be a 1-dimensional array of int32 or int64, got float64 [3]",
        ),
        ("path", [0, 1, -1], "path: must be a 1-dimensional array of int32 or int64, got list"),
        ("bytes", np.array([1.0, 1.0, np.inf]), "bytes[2]: must be finite, got inf"),
        ("bytes", np.array([np.nan, 1.0, 1.0]), "bytes[0]: must be finite, got nan"),
        ("delay", np.array([0.0, -1.0, 0.0]), "delay[1]: must not be negative, got -1.0"),
        ("release", np.array([0.0, 0.0]), "release: expected [T] = [3], got [2]"),
        ("owner", np.array([0, 1, 3], INTEGERS), "owner[2]: must be in 0..2, got 3"),
        ("owners", -1, f"owners: must be a whole number within 0..{LAST}, got -1"),
        ("links", 2.0, f"links: must be a whole number within 0..{LAST}, got 2.0"),
        ("rounds", 0, f"rounds: must be a whole number within 1..{LAST}, got 0"),
        ("after", np.array([0], INTEGERS), "after_offsets: must rise from 0 to 1, got 0 to 0"),
        ("after_offsets", np.array([0, 1, 1, 1]), "after_offsets: must rise from 0 to 0, got 0 to 1"),
        (
            "carried",
            np.zeros((2, 1), INTEGERS),
            "rounds: must be at least 2 where tasks wait for the round before, got 1",
        ),
        ("ends", np.zeros((3, 2), INTEGERS), "ends: expected [3, T] = [3, 3], got [3, 2]"),
        ("ends", np.array([[0, 1, -1], [1, 1, 0], [0, 0, 0]]), "ends[1][2]: a task must have both ends or none, got 0"),
        ("alternatives", several(offsets=[0, 3, 3]), "alternatives.offsets[1]: a path must have an alternative, got 3"),
        ("alternatives", several(links=[0, 2]), "alternatives.links[1]: must be in 0..1, got 2"),
        (
            "alternatives",
            several(share=[0.5, 0.5, np.nan]),
            "alternatives.share[2]: must be positive, got nan",
        ),
        (
            "alternatives",
            several(hop_offsets=[0, 0, 2, 2]),
            "alternatives.hop_offsets[0]: an alternative must have links where its path has some, got 0",
        ),
    ],
)
def test_a_graph_that_breaks_a_law_cannot_be_built(field, value, message, make_world):
    graph = make_world([{"path": [0, 1], "bytes": 1}, {"path": [], "bytes": 1}, {}], [1, 1]).graph
    with pytest.raises(ValueError, match=f"^{re.escape(f'graph.{message}')}$"):
        replace(graph, **{field: value})


def test_a_send_to_itself_over_circuits_that_change_is_refused():
    keys = ["fabric=sip_ml", "servers=4", "degree=2", "workload=all_to_all", "workload.bytes=1000"]
    (point,) = Builder().build(grid(keys, check))
    world = point.cases[0].world
    assert world.changes_circuits
    send = int(np.flatnonzero(world.graph.path >= 0)[0])
    ends = world.graph.ends.copy()
    ends[1, send] = ends[0, send]
    message = (
        rf"^graph\.ends\[1\]\[{send}\]: a task that crosses circuits must have two different ends, got {ends[0, send]}$"
    )
    with pytest.raises(ValueError, match=message):
        replace(world, graph=replace(world.graph, ends=ends))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("capacity", np.array([1.0, np.inf]), "capacity[1]: must be finite, got inf"),
        ("capacity", np.array([1e300, 1.0]), "capacity[0]: must be at most 1e+18, got 1e+300"),
        ("latency", np.array([0.0, -1e-6]), "latency[1]: must not be negative, got -1e-06"),
        ("latency", np.array([]), "latency: expected [L] = [2], got [0]"),
        ("latency", np.array(["a", "b"]), "latency: must be a 1-dimensional array of float64, got <U1 [2]"),
        ("until", np.nan, "until: must be a number that is not negative, got nan"),
        ("seed", -1, f"seed: must be a whole number within 0..{2**64 - 1}, got -1"),
        ("fabric", Ring(1.0, 2, 0.0).build(4, Demand(4)), "fabric: must have 2 links, as its graph, got 8"),
    ],
)
def test_a_world_that_breaks_a_law_cannot_be_built(field, value, message, make_world):
    world = make_world([{"path": [0, 1], "bytes": 1}], [1, 1], name="w")
    with pytest.raises(ValueError, match=f"^{re.escape(f'w.{message}')}$"):
        replace(world, **{field: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path_links": zeros(LARGE, np.int32), "path_offsets": np.array([0, LARGE])}, "hops"),
        ({"path_offsets": zeros(LARGE + 1, np.int64)}, "paths"),
        ({"after": zeros(LARGE, np.int32), "after_offsets": np.array([0, LARGE])}, "dependencies"),
        ({"delay": zeros(LARGE, np.float64)}, "tasks"),
        ({"links": LARGE}, "links"),
    ],
)
def test_a_world_that_32_bits_cannot_number_is_refused_at_once(change, message, make_world):
    world = make_world([{"path": [0], "bytes": 1}], [1], name="w")
    with pytest.raises(ValueError, match=rf"^graph: must have less than 2\^31 {message}, got {LARGE}$"):
        replace(world.graph, **change)


@pytest.mark.parametrize(
    ("tasks", "change"),
    [
        (0, {"path_links": np.arange(4, dtype=INTEGERS), "path_offsets": np.array([0, 4])}),
        (0, {"path_offsets": np.zeros(5, np.int64)}),
        (2, {"after": np.zeros(4, INTEGERS), "after_offsets": np.array([0, 0, 4])}),
        (4, {}),
    ],
    ids=["hops", "paths", "dependencies", "tasks"],
)
def test_no_piece_of_a_batch_has_more_than_its_numbers_reach(tasks, change, make_world, monkeypatch):
    # 4 each: one fits, two together are more than 7. Worlds that share a graph number it once.
    monkeypatch.setattr(batch, "MAX_INT32", 7)
    world = make_world([{}] * tasks, [1] * 4)
    first, other = (replace(world, graph=replace(world.graph, **change)) for _ in range(2))
    cut = list(batch.pieces([first, replace(first, name="again"), other, first], budget=2**60))
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
