"""Several jobs on one network: iteration after iteration, and what they do to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.base import World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.shared_network import dedicated, mean_and_tail, repeated, shared, side_by_side
from topoflow.fabric.base import Fabric
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.papers.topoopt.allocation import allocate
from topoflow.traffic.base import Compute, Traffic, Transfer
from topoflow.traffic.jobs import on_servers
from topoflow.traffic.lower import lower


def placed(traffic: Traffic, fabric: Fabric) -> World:
    return place(traffic, fabric, name=traffic.name, all_reduce="ring", rings="flows")


def placed_all(jobs: Sequence[Traffic], fabric: Fabric) -> list[World]:
    return [placed(job, fabric) for job in jobs]


def sender(name: str, source: int, target: int, bytes_: float, seconds: float) -> Traffic:
    return Traffic.from_tasks(name, 4, (Compute(seconds, source), Transfer(bytes_, source, target, (0,))))


def switch(bandwidth: float = 100.0) -> Fabric:
    return IdealSwitch(bandwidth, 1, 0.0).build(4, Demand(4))


@pytest.fixture(scope="module")
def jobs(configured: Callable[..., Any]) -> list[Traffic]:
    """A DLRM, another one and a data-parallel BERT of two blocks, 4 servers each of 16, anywhere."""
    sizes = ["workload=dlrm", "workload.tables=4", "workload.rows=1000"], ["workload=bert", "workload.layers=2"]
    lowered = []
    for overrides in (sizes[0], sizes[0], sizes[1]):
        workload = configured("workload", *overrides).build()
        lowered.append(lower(workload, configured("strategy", *overrides).place(workload, 4)))
    places = allocate([4, 4, 4], 16, how="random", seed=5)
    return [on_servers(traffic, servers, 16) for traffic, servers in zip(lowered, places, strict=True)]


def tree(oversubscription: int = 1, bandwidth: float = 1e9) -> Fabric:
    return FatTree(bandwidth, 1, 1e-6, None, oversubscription).build(16, Demand(16))


def test_iterations_follow_each_other() -> None:
    # 1 s of compute and 100 B at 100 B/s: 2 s each, from 0.5 s on
    graph = placed(sender("job", 0, 1, 100, 1), switch()).graph
    world = World("job", repeated(graph, 3, 0.5), switch().bandwidth, switch().latency)
    ran = Fluid().simulate([world])[0]
    assert ran.finish[graph.tasks :: graph.tasks + 1].tolist() == pytest.approx([2.5, 4.5, 6.5])
    assert ran.start[0] == 0.5


def test_two_jobs_into_one_server_share_its_link() -> None:
    # 0 and 1 send 100 B each to 2 at 100 B/s, both after 1 s: always together, 1 + 2 s instead of 1 + 1 s.
    both = [sender("one", 0, 2, 100, 1), sender("other", 1, 2, 100, 1)]
    for times in shared(placed_all(both, switch()), rounds=6.1):
        np.testing.assert_allclose(times, [3, 3, 3, 3])


def test_a_job_meets_another_in_some_of_its_iterations_only() -> None:
    # The small one takes 1.5 s alone, the large one 4 s: two of its seconds are sending.
    small, large = sender("small", 0, 2, 50, 1), sender("large", 1, 2, 200, 2)
    times, _ = shared(placed_all([small, large], switch()), rounds=8)
    assert times.min() == pytest.approx(1.5)
    assert times.max() > 1.6
    assert len(times) >= 8 * 4 / 2


def test_a_job_that_others_make_faster_goes_on_to_the_end_too() -> None:
    # 100 B from 0 to 1, then 1.5 s, and 100 B from 0 to 2. Alone both have 50 B/s: 2 + 1.5 s. Two others into 2 leave
    # 100/3 B/s for the way there, so 200/3 B/s for the way to 1: 100 B take 1.5 s, and all is done after 3 s.
    helped = Traffic.from_tasks("helped", 5, (Transfer(100, 0, 1), Transfer(100, 0, 2), Compute(1.5, 1, (0,))))
    others = Traffic.from_tasks("others", 5, (Transfer(1e4, 3, 2), Transfer(1e4, 4, 2)))  # 200 s alone
    fabric = IdealSwitch(100.0, 1, 0.0).build(5, Demand(5))
    times, _ = shared(placed_all([helped, others], fabric), rounds=3.001)
    np.testing.assert_allclose(times, 3)
    assert len(times) == 200


def test_jobs_that_share_no_link_do_not_see_each_other(jobs: list[Traffic]) -> None:
    ideal = IdealSwitch(1e9, 1, 1e-6).build(16, Demand(16))
    alone = [float(times[0]) for times in dedicated(placed_all(jobs, ideal))]
    for times, lone in zip(shared(placed_all(jobs, ideal), rounds=3), alone, strict=True):
        assert len(times) >= 2
        np.testing.assert_allclose(times, lone, rtol=1e-9)


def test_jobs_that_share_links_are_slower_where_the_tree_is_thin(jobs: list[Traffic]) -> None:
    full, thin = (shared(placed_all(jobs, tree(taper)), rounds=3) for taper in (1, 2))
    alone = dedicated(placed_all(jobs, tree()))
    assert np.mean(np.concatenate(full)) >= np.mean(np.concatenate(alone)) * 0.99
    assert max(times.max() for times in thin) > max(times.max() for times in alone)


def test_later_starts_shift_a_job(jobs: list[Traffic]) -> None:
    ideal = IdealSwitch(1e9, 1, 1e-6).build(16, Demand(16))
    for early, late in zip(
        shared(placed_all(jobs, ideal), rounds=2),
        shared(placed_all(jobs, ideal), rounds=2, starts=[0.0, 0.01, 0.02]),
        strict=True,
    ):
        assert early[0] == pytest.approx(late[0], rel=1e-9)


def test_graphs_side_by_side_run_as_they_do_alone(jobs: list[Traffic]) -> None:
    ideal = IdealSwitch(1e9, 1, 1e-6).build(16, Demand(16))
    worlds = [placed(job, ideal) for job in jobs]
    graph = side_by_side([world.graph for world in worlds])
    together = Fluid().simulate([World("together", graph, ideal.bandwidth, ideal.latency)])[0]
    separate = np.concatenate([timeline.finish for timeline in Fluid().simulate(worlds)])
    np.testing.assert_allclose(together.finish, separate, rtol=1e-9)


def test_an_error_of_several_jobs_names_the_job_and_its_task() -> None:
    def job(name: str, source: int) -> Traffic:
        return Traffic.from_tasks(name, 4, (Compute(1.0, source), Transfer(100.0, source, 3, (0,), "gradients")))

    jobs = placed_all([job("early", 0), job("stuck", 1)], switch())
    graph = side_by_side([repeated(world.graph, 2) for world in jobs], [world.name for world in jobs])
    of_one = ["task 0", "task gradients", "the end of an iteration"] * 2
    assert [graph.where(task) for task in range(graph.tasks)] == [
        f"{job}, {task}" for job in ("job 0 (early)", "job 1 (stuck)") for task in of_one
    ]
    unnamed = side_by_side([world.graph for world in jobs])
    assert unnamed.where(3) == "job 1, task gradients"
    network = switch()
    capacity = np.where(np.asarray(network.source) == 1, 1e-300, network.bandwidth)
    with pytest.raises(ValueError, match=r"^both: .* for job 1 \(stuck\), task gradients$"):
        Fluid().simulate([World("both", graph, capacity, network.latency)])


def test_start_times_inside_a_job_are_refused() -> None:
    graph = placed(Traffic.from_tasks("job", 4, (Compute(1.0, 0, start=2.0),)), switch()).graph
    with pytest.raises(ValueError, match="jobs: must not name start times"):
        repeated(graph, 2)


def test_every_job_counts_the_same_in_the_mean_and_the_tail() -> None:
    quick, slow = np.full(98, 1.0), np.array([3.0, 9.0])
    assert mean_and_tail([quick, slow]) == (pytest.approx((1 + 6) / 2), 9.0)
    assert mean_and_tail([quick, slow], 50) == (pytest.approx(3.5), 1.0)
    assert mean_and_tail([quick, slow], 75) == (pytest.approx(3.5), 3.0)


def test_a_job_that_finishes_nothing_is_no_job_without_delay() -> None:
    crowd = [sender(f"job {source}", source, 3, 100, 0) for source in range(3)]
    with pytest.raises(ValueError, match="rounds: must let every job finish an iteration, got 2, too few for job 0"):
        shared(placed_all(crowd, switch()), rounds=2)  # 1 s alone, 3 s together
