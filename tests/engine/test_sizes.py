"""``rings`` and ``fluid.merge`` as ``auto``: the number of sends of a job decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topoflow
from topoflow.api.results import Results
from topoflow.collectives.algorithm import algorithms, names
from topoflow.demand import Demand
from topoflow.engine import fluid
from topoflow.engine.fluid import MAX_EXACT, MERGE, Fluid
from topoflow.engine.lowering import placement
from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.engine.lowering.sizes import concurrent_sends, ring_sends
from topoflow.fabric.fat_tree import FatTree
from topoflow.study.builder import Builder
from topoflow.study.configure import decide
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.traffic.base import Collective, Traffic, Transfer

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64")
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


@st.composite
def jobs(draw: st.DrawFn) -> Traffic:
    servers = draw(st.integers(2, 9))
    group = st.lists(st.integers(0, servers - 1), min_size=1, max_size=servers, unique=True)
    tasks: list[Collective | Transfer] = []
    for op in draw(st.lists(st.sampled_from(OPS), min_size=1, max_size=4)):
        members = tuple(sorted(draw(group)))
        counted = [name for name in names(op) if algorithms()[name].streams or algorithms()[name].at_once]
        algorithm = draw(st.sampled_from(counted))
        local, size = draw(st.integers(1, 3)), draw(st.sampled_from([0.0, 1e6]))
        tasks.append(Collective(op, size, members, local=local, algorithm=algorithm))
    tasks += [Transfer(1e6, 0, 1)] * draw(st.integers(0, 2))
    return Traffic.from_tasks("job", servers, tasks, 300e9)


@given(jobs())
@settings(max_examples=60, deadline=None)
def test_rings_and_concurrent_sends_are_at_most_as_many_as_are_counted_before_the_job_is_placed(job: Traffic) -> None:
    fabric = FatTree(12.5e9, 1, 1e-6).build(job.servers, job.demand())
    world = Placer(fabric, Lowering(rings="steps")).place(job, "world")
    assert np.count_nonzero(world.graph.path >= 0) <= ring_sends(job, "ring") + concurrent_sends(job, "ring")


@pytest.mark.parametrize(
    "keys",
    [
        ("workload=dlrm", "servers=1024"),
        ("workload=transformer", "strategy=parallel", "servers=1024", "workload.gpus_per_server=8"),
        ("workload=moe", "strategy=parallel", "servers=1024", "workload.gpus_per_server=8"),
    ],
    ids=lambda keys: keys[0],
)
def test_a_job_of_1024_servers_is_a_small_world_by_default(keys: tuple[str, ...]) -> None:
    """Screened or exact: 2 s and 0.2 GB. In steps it is 6 to 200 million sends."""
    (point,) = grid(["fabric=ideal_switch", "fidelity=bound", *keys], check)
    ((case,),) = [built.cases for built in Builder().build([point])]
    assert (point.config["rings"], case.lowering.rings, case.settings.config["rings"]) == ("auto", "flows", "flows")
    assert case.world.graph.tasks < 10 * len(case.job.traffic)
    (note,) = case.settings.notes
    assert note.startswith("rings=flows was chosen")


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 sends in rings are many."""
    monkeypatch.setattr(placement, "MAX_STEPS", 100)
    monkeypatch.setattr(decide, "MAX_STEPS", 100)


def compared(*keys: str) -> Results:
    return topoflow.compare(*keys, *SMALL)


@pytest.mark.usefixtures("small_limit")
def test_what_was_decided_is_stored_and_printed() -> None:
    """Networks differ in their rings, but the job decides: all are simulated in the same way."""
    fabrics = "fabric=fat_tree,ring,topoopt"
    chosen, explicit = compared(fabrics), compared(fabrics, "rings=flows")
    assert "dlrm on 4 servers: rings=flows was chosen" in repr(chosen)
    assert "was chosen" not in repr(explicit)
    assert [(result.row.rings, result.settings.config["rings"]) for result in chosen] == [("flows", "flows")] * 3
    assert [result.row for result in chosen] == [result.row for result in explicit]


def test_a_small_job_is_simulated_in_steps_and_exactly() -> None:
    fabrics = "fabric=fat_tree,ring"
    chosen, explicit = compared(fabrics), compared(fabrics, "rings=steps", "fluid.merge=0")
    assert "was chosen" not in repr(chosen)
    assert [result.row for result in chosen] == [result.row for result in explicit]
    assert [result.settings.config for result in chosen] == [result.settings.config for result in explicit]
    assert {result.row.rings for result in chosen} == {"steps"}


def test_merge_is_decided_by_the_concurrent_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = Fluid("auto")
    assert (auto.decided(MAX_EXACT), auto.decided(MAX_EXACT + 1)) == (Fluid(0.0), Fluid(MERGE))
    assert Fluid(0.5).decided(MAX_EXACT + 1) == Fluid(0.5)
    monkeypatch.setattr(fluid, "MAX_EXACT", 20)  # 4 tables on 4 servers: 24 transfers
    keys = ("fabric=fat_tree", "rings=flows", "bandwidth_gbps=10")
    (chosen,), (explicit,) = compared(*keys), compared(*keys, f"fluid.merge={MERGE}")
    assert any(note.startswith(f"fluid.merge={MERGE} was chosen") for note in chosen.settings.notes)
    assert chosen.settings.config == explicit.settings.config
    assert chosen.row == explicit.row


def test_a_world_that_knows_no_job_is_merged_by_its_own_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = FatTree(12.5e9, 1, 1e-6).build(6, Demand(6))
    sizes = np.random.Generator(np.random.Philox(7)).uniform(1e6, 1.001e6, 30)
    pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
    job = Traffic.from_tasks("t", 6, [Transfer(s, i, j) for s, (i, j) in zip(sizes, pairs, strict=True)])
    world = Placer(fabric, Lowering()).place(job, "world")

    def finish(merge: float | str) -> bytes:
        return Fluid(merge).simulate([world])[0].finish.tobytes()

    assert finish("auto") == finish(0.0) != finish(MERGE)
    monkeypatch.setattr(fluid, "MAX_EXACT", 29)
    assert finish("auto") == finish(MERGE)


def test_sends_that_wait_for_sends_are_not_concurrent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of 6 ranks in 3 chunks is more than 20 sends, of which few can run at the same time: it is exact."""
    fabric = FatTree(12.5e9, 1, 1e-6).build(6, Demand(6))
    job = Traffic.from_tasks("t", 6, [Collective("all_reduce", 3e6, tuple(range(6)), algorithm="double_binary_tree")])
    world = Placer(fabric, Lowering()).place(job, "world")
    assert np.count_nonzero(world.graph.path >= 0) > 20
    assert concurrent_sends(job, "ring") == 0
    monkeypatch.setattr(fluid, "MAX_EXACT", 20)
    exact, auto = (Fluid(merge).simulate([world])[0].finish.tobytes() for merge in (0.0, "auto"))
    assert exact == auto
