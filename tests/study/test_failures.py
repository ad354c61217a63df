"""What a failure costs a job: by hand, and for a DLRM on TopoOpt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from topoflow.engine.base import Run, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import without
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.topoopt import TopoOpt
from topoflow.study.failures import fail_fibers, fail_servers
from topoflow.traffic.base import Collective, Traffic, Transfer
from topoflow.traffic.lower import lower


def placed(traffic: Traffic, fabric: Fabric) -> World:
    return place(traffic, fabric, name=fabric.name, all_reduce="ring", rings="flows")


def all_reduce(servers: int) -> Traffic:
    return Traffic.from_tasks("all-reduce", servers, (Collective("all_reduce", 1200.0, tuple(range(servers))),))


def on_topoopt(traffic: Traffic, degree: int) -> Fabric:
    return TopoOpt(10.0, degree, 0.0, degree).build(traffic.servers, traffic.demand())


def test_a_dropped_ring_leaves_its_bytes_to_the_other() -> None:
    # 5 servers, 2 rings, 2 * 4/5 * 1200 / 2 = 960 B each at 10 B/s: 96 s. One ring alone: 192 s.
    job = all_reduce(5)
    result = fail_fibers(job, on_topoopt(job, 2), placed, rings="drop")
    assert result.whole == pytest.approx(96)
    np.testing.assert_allclose(result.failed, 192)
    np.testing.assert_allclose(result.ratio, 2)


def test_a_recovered_hop_shares_the_links_of_its_way_round() -> None:
    # Ring +1 loses 0 -> 1 and goes 0 -> 2 -> .. -> 1: each link on the way then has two flows of 960 B.
    job = all_reduce(5)
    result = fail_fibers(job, on_topoopt(job, 2), placed, rings="recover")
    np.testing.assert_allclose(result.failed, 192)


def test_of_two_ways_to_go_on_the_faster_counts() -> None:
    # A ring that goes round a lost hop over a circuit that one transfer has to itself is better than a ring less;
    # where the way round is over another ring, the ring less is better.
    sparse = Traffic.from_tasks(
        "sparse", 5, (Collective("all_reduce", 1200.0, tuple(range(5))), Transfer(1000.0, 0, 2))
    )
    network = on_topoopt(sparse, 3)
    times = {rings: fail_fibers(sparse, network, placed, rings=rings).failed for rings in ("recover", "drop", "faster")}
    assert (times["recover"] < times["drop"]).any()
    assert (times["drop"] < times["recover"]).any()
    np.testing.assert_array_equal(times["faster"], np.minimum(times["recover"], times["drop"]))


@pytest.mark.parametrize("fabric", [FatTree(10.0, 2, 0.0), TopoOpt(10.0, 4, 0.0, 4)], ids=["fat-tree", "topoopt"])
def test_a_link_that_keeps_a_fiber_keeps_its_paths(fabric: FatTree | TopoOpt) -> None:
    """Such worlds are not placed anew; they are the same as if they were."""
    job = all_reduce(4)
    network = fabric.build(4, job.demand())
    assert (network.bandwidth > network.interface_bandwidth).any()
    anew = [
        Fluid().simulate([placed(job, without(network, fibers=[link]))])[0].makespan for link in range(network.links)
    ]
    np.testing.assert_array_equal(fail_fibers(job, network, placed, rings="recover").failed, anew)


def test_an_observer_sees_how_many_failures_are_done(watching: Any) -> None:
    job = all_reduce(5)
    network = on_topoopt(job, 4)
    fail_fibers(job, network, placed, run=Run(observer=watching))
    assert watching.advances == [(16, network.links), (network.links, network.links)]


def test_a_server_without_a_way_has_an_endless_iteration() -> None:
    traffic = Traffic.from_tasks("one flow", 4, (Transfer(10.0, 0, 1),))
    fabric = FatTree(10.0, 1, 0.0).build(4, traffic.demand())
    at_server = int(np.flatnonzero(fabric.source == 2)[0])
    result = fail_fibers(traffic, fabric, placed, links=[at_server])
    assert result.failed.tolist() == [np.inf]


@pytest.fixture(scope="module")
def dlrm(configured: Callable[..., Any]) -> tuple[Traffic, Traffic]:
    """On 8 servers, and on 7."""
    workload = configured("workload", "workload.tables=8", "workload.rows=1000").build()
    rule = configured("strategy")
    of_eight, of_seven = (lower(workload, rule.place(workload, servers)) for servers in (8, 7))
    return of_eight, of_seven


def test_a_dlrm_on_topoopt_survives_any_fiber_and_any_server(dlrm: tuple[Traffic, Traffic]) -> None:
    traffic, smaller = dlrm
    fabric = TopoOpt(1.25e9, 4, 1e-6, 4).build(8, traffic.demand())
    for rings in ("recover", "drop"):
        fibers = fail_fibers(traffic, fabric, placed, rings=rings)
        assert np.isfinite(fibers.failed).all()
        assert fibers.ratio.mean() > 1
    servers = fail_servers(traffic, smaller, fabric, placed)
    assert len(servers.failed) == 8
    assert np.isfinite(servers.failed).all()


def test_the_smaller_job_has_fewer_servers(dlrm: tuple[Traffic, Traffic]) -> None:
    traffic, _ = dlrm
    with pytest.raises(ValueError, match=r"servers: must be at most 7, got 8"):
        fail_servers(traffic, traffic, on_topoopt(traffic, 2), placed)
