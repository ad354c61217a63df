"""Ring orders for any fabric: strides that were asked for, and those that a search finds over switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topoflow
from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Path
from topoflow.fabric.channels.strides import strides_to_try, with_strides
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.topoopt.totient_perms import stride as stride_of
from topoflow.search.alternate import search
from topoflow.search.problem import Problem, SearchSettings
from topoflow.strategy.data_parallel import DataParallel
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

SERVERS = 8


@dataclass(frozen=True)
class Rails:
    """Every server has a link to each of two switches; which one carries a connection depends on its stride."""

    bandwidth: float = 1e9

    def build(self, servers: int, demand: Demand) -> Fabric:
        ends = [(server, servers + rail) for server in range(servers) for rail in range(2)]
        links = [link for up, down in ends for link in ((up, down), (down, up))]  # 4 s + 2 r: up, then down

        def route(i: int, j: int) -> tuple[Path, ...]:
            rail = (j - i) % servers // 2 % 2  # strides 1 and 5 take the first, 3 and 7 the other
            return ((4 * i + 2 * rail, 4 * j + 2 * rail + 1),)

        return Fabric(
            name="rails",
            servers=servers,
            nodes=tuple(f"node{number}" for number in range(servers + 2)),
            source=np.array([source for source, _ in links], np.int32),
            target=np.array([target for _, target in links], np.int32),
            bandwidth=np.full(len(links), self.bandwidth),
            latency=np.full(len(links), 1e-6),
            route=route,
            degree=2,
            interface_bandwidth=self.bandwidth,
        )


@given(st.integers(2, 40), st.lists(st.integers(1, 50), min_size=1, max_size=5, unique=True))
def test_a_group_takes_the_strides_that_are_rings_of_it(size: int, strides: list[int]) -> None:
    group, alone = tuple(range(3, 3 + size)), (0, 2)
    fabric = Rails().build(3 + size, Demand(3 + size))
    orders = with_strides(fabric, [group, alone], tuple(strides)).channels.rings
    fitting = [stride for stride in strides if stride < size and gcd(stride, size) == 1]
    assert [stride_of(group, order) for order in orders.get(group, ())] == fitting
    assert all(sorted(order) == list(group) for order in orders.get(group, ()))
    assert (alone in orders) == (1 in strides)


@given(st.integers(2, 300))
def test_sets_to_try_are_rings_and_none_is_the_natural_one(size: int) -> None:
    for strides in strides_to_try(size):
        assert strides != (1,)
        assert len(set(strides)) == len(strides)
        assert all(gcd(stride, size) == 1 and 0 < stride < size for stride in strides)


@pytest.mark.parametrize("fabric", ["ideal_switch", "leaf_spine", "torus"])
def test_each_stride_carries_its_share_on_any_fabric(fabric: str) -> None:
    """2 (n-1)/n S from every server, where n GPUs are a ring, in equal shares to the servers that the strides name."""
    keys = {"servers": SERVERS, "all_reduce": "ring", "workload": "vgg16", "strategy": "data_parallel"}
    (result,) = topoflow.compare(fabric=fabric, strides=[[1, 3]], **keys)
    graph = result.world.graph
    sent = Counter[tuple[int, int]]()
    for source, target, size in zip(graph.source.tolist(), graph.target.tolist(), graph.bytes.tolist(), strict=True):
        if source >= 0:
            sent[source, target] += size
    total = sum(result.traffic.demand().all_reduce.values())
    gpus = 4 * SERVERS  # consecutive ones on a server, of which the last sends to the next server
    share = 2 * (gpus - 1) / gpus * total / 2
    assert {(target - source) % SERVERS for source, target in sent} == {1, 3}
    assert list(sent.values()) == pytest.approx([share] * 2 * SERVERS)


def problem(**keys: Any) -> Problem:
    (point,) = grid(["workload=vgg16", "strategy=data_parallel", f"servers={SERVERS}", "fabric=ideal_switch"], check)
    workload = build(point, "workload").build()
    return Problem(workload, DataParallel().place(workload, SERVERS), Rails(), all_reduce="ring", **keys)


def test_a_search_permutes_rings_over_switches_and_says_what_that_is_worth() -> None:
    """The natural ring takes one rail, several rings can take both; the same job on an ideal switch gains nothing."""
    quick = SearchSettings(proposals=0, chains=1, rounds=2, decide=1)
    assert search(replace(problem(), design=IdealSwitch(1e9, 2, 1e-6)), quick).unpermuted is None
    result = search(problem(), quick)
    assert result.unpermuted is not None
    assert result.best.iteration_time < 0.7 * result.unpermuted.iteration_time
    (ring,) = result.plan.rings
    assert ring.strides == (1, 3), "the fewest rings that take both"
    assert set(ring.orders) == set(result.fabric.channels.rings[ring.group])
    assert result.plan.iteration_time == result.best.iteration_time


@pytest.mark.parametrize(
    ("strides", "message"),
    [
        ("[2]", "strides: must be co-prime with the servers of a group that all-reduces (16) and less, got [2]"),
        ("[17]", "strides: must be co-prime with the servers of a group that all-reduces (16) and less, got [17]"),
        ("[0]", "strides: must be a list of whole numbers of at least 1, or null, got [0]"),
        ("3", "strides: must be a list of whole numbers of at least 1, or null, got 3"),
        ("[]", "strides: must be a list of whole numbers of at least 1, or null, got []"),
    ],
)
def test_wrong_strides_are_one_line(topoflow_cli: Callable[..., Any], strides: str, message: str) -> None:
    ran = topoflow_cli("compare", "fabric=leaf_spine", f"strides={strides}")
    assert ran.returncode != 0
    assert ran.stderr.strip().endswith(message)
    assert ran.stderr.count("\n") == 1
