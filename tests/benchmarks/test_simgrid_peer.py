"""SimGrid runs the same worlds and gives the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from measure import difference
from peers.simgrid_peer import EXACT, SimGrid, content
from worlds.cases import Case, all_to_all, dlrm, ring_all_reduce
from worlds.random_worlds import random_world

from topoflow.engine.fluid import Fluid
from topoflow.worldfile import world_file

WORLDS: dict[str, Callable[[], Case]] = {
    "all_to_all.even": lambda: all_to_all("even", 4, ecmp=True, uneven=False),
    "all_to_all.dmodk": lambda: all_to_all("dmodk", 4, ecmp=False, uneven=True),
    "all_to_all.ecmp": lambda: all_to_all("ecmp", 4, ecmp=True, uneven=True),
    "ring": lambda: ring_all_reduce("ring", 4, 1e9),
    "dlrm.topoopt": lambda: dlrm("dlrm.topoopt", "topoopt", 4, servers=8),
    "dlrm.fat_tree": lambda: dlrm("dlrm.fat_tree", "fat_tree", 1, servers=8),
    **{f"random.{seed}": partial(random_world, seed) for seed in range(10)},
}


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
def test_a_file_says_what_the_arrays_say(make: Callable[[], Case], tmp_path: Path) -> None:
    case = make()
    file = tmp_path / "world.json"
    file.write_text(json.dumps(content(case)))
    read = world_file.read(file)
    ours, theirs = Fluid().simulate([case.world, read.world])
    np.testing.assert_allclose(theirs.task_finish[list(read.place)], ours.finish, rtol=1e-12)


@pytest.mark.slow  # compiling against SimGrid's headers takes ten seconds
@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
def test_every_end_is_simgrids(make: Callable[[], Case], simgrid: SimGrid) -> None:
    case = make()
    (timeline,) = Fluid().simulate([case.world])
    answer = simgrid.run(simgrid.write(case), EXACT)
    # Sizes are rounded to 2^-20 B, 1e-10 of 10 kB.
    assert difference(timeline.finish, answer.finish) < 1e-9


@pytest.mark.slow
def test_simgrid_as_it_comes_is_within_a_millionth(simgrid: SimGrid) -> None:
    case = WORLDS["all_to_all.ecmp"]()
    (timeline,) = Fluid().simulate([case.world])
    assert difference(timeline.finish, simgrid.run(simgrid.write(case)).finish) < 1e-6


@pytest.mark.slow
def test_flows_between_the_same_hosts_keep_their_own_paths(simgrid: SimGrid, tmp_path: Path) -> None:
    """Two ways from a to b: each flow of 100 B has a link of its own; on one path they would take 2 s."""
    rows = {
        "links": [{"src": "a", "dst": "b", "bandwidth": 100.0}, {"src": "a", "dst": "b", "bandwidth": 50.0}],
        "tasks": [
            {"id": "x", "type": "transfer", "bytes": 100.0, "path": [0]},
            {"id": "y", "type": "transfer", "bytes": 100.0, "path": [1]},
        ],
    }
    file = tmp_path / "two.json"
    file.write_text(json.dumps(rows))
    assert simgrid.run(file, EXACT).finish == pytest.approx([1.0, 2.0])


@pytest.mark.slow
def test_a_task_starts_at_its_time_and_after_those_it_waits_for(simgrid: SimGrid, tmp_path: Path) -> None:
    compute = {"type": "compute", "seconds": 1.0}
    rows = {
        "links": [],
        "tasks": [
            {"id": "first", **compute},
            {"id": "early", **compute, "start": 0.5, "after": ["first"]},  # 1 + 1
            {"id": "late", **compute, "start": 5.0, "after": ["first"]},  # 5 + 1
            {"id": "join", "type": "compute", "seconds": 0.0, "after": ["early", "late"]},
        ],
    }
    file = tmp_path / "starts.json"
    file.write_text(json.dumps(rows))
    assert simgrid.run(file, EXACT).finish.tolist() == [1.0, 2.0, 6.0, 6.0]


@pytest.mark.slow
def test_what_simgrid_shares_differently_is_refused_by_name(simgrid: SimGrid) -> None:
    case = WORLDS["ring"]()
    slow = replace(case, world=replace(case.world, latency=np.full_like(case.world.latency, 1e-6)))
    with pytest.raises(RuntimeError, match=r"links\[0\]\.latency: must be 0.*got 1e-06"):
        simgrid.run(simgrid.write(slow))


def test_a_task_that_waits_and_sends_is_refused_by_name() -> None:
    case = WORLDS["ring"]()
    graph = case.world.graph
    mixed = replace(case.world, graph=replace(graph, delay=np.full(graph.tasks, 1e-3)))
    with pytest.raises(ValueError, match="ring: a task must be a delay or a flow, got both in task 0"):
        content(replace(case, world=mixed))
