"""Placing requests: laws for any requests and policy, a scheduler in plain Python, and small cases by hand."""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.scheduling.base import GroupedCluster, Request
from topoflow.scheduling.policies import policies, policy_named
from topoflow.scheduling.scheduler import FRAGMENTATION, Outcome, schedule
from topoflow.units import gib

CLUSTERS = st.builds(
    GroupedCluster,
    groups=st.integers(1, 4),
    servers_per_group=st.integers(1, 3),
    cores=st.just(4.0),
    memory_gib=st.just(8.0),
    network_gbps=st.just(10.0),
    gpus=st.just(2.0),
)
LISTS = st.lists(
    st.builds(
        Request,
        name=st.just("r"),
        arrival=st.integers(0, 6).map(float),
        lifetime=st.sampled_from([0.0, 1.0, 2.5, 6.0, inf]),
        machines=st.integers(1, 6),
        cores=st.sampled_from([0.3, 1.0, 2.0, 3.0]),
        memory=st.sampled_from([0.0, 2.0**30, 5 * 2.0**30]),
        network=st.sampled_from([0.0, 1.25e8]),
        network_share=st.sampled_from([0.0, 0.1, 1 / 3]),
        gpus=st.sampled_from([0.0, 0.5, 2.0]),
    ),
    max_size=10,
)


def possible(cluster: GroupedCluster, requests: list[Request]) -> list[Request]:
    """Those that the empty cluster holds."""
    return [r for r in requests if 0 < r.machines <= cluster.machines_per_server(r) * cluster.servers]


def amounts(cluster: GroupedCluster, request: Request) -> list[float]:
    """What a machine needs: cores, B, B/s, GPUs."""
    network = request.network + request.network_share * cluster.network_gbps * 1.25e8
    return [request.cores, request.memory, network, request.gpus]


def running(outcomes: list[Outcome], time: float) -> list[Outcome]:
    return [o for o in outcomes if not o.denied and o.request.arrival <= time < o.request.arrival + o.request.lifetime]


@pytest.mark.parametrize("name", policies())
@given(cluster=CLUSTERS, requests=LISTS)
def test_laws(name: str, cluster: GroupedCluster, requests: list[Request]) -> None:
    requests = possible(cluster, requests)
    done = schedule(cluster, requests, policy_named(name))
    assert [o.request for o in done.outcomes] == sorted(requests, key=lambda r: r.arrival), "nothing is lost"
    has = np.array([cluster.cores, cluster.memory_gib * 2**30, cluster.network_gbps * 1.25e8, cluster.gpus])
    for number, outcome in enumerate(done.outcomes):
        request = outcome.request
        before = running(list(done.outcomes[:number]), request.arrival)
        used = np.zeros((cluster.servers, 4))
        for other in before:
            for server, machines in zip(other.servers, other.machines, strict=True):
                used[server] += np.array(amounts(cluster, other.request)) * machines
        free = has - used
        assert (free >= -1e-6 * has).all(), "no server has more than it can"
        need = np.array(amounts(cluster, request))
        room = [min(int(has_ // n + 1e-9) for has_, n in zip(row, need, strict=True) if n) for row in free + 1e-6 * has]
        assert bool(outcome.denied) == (sum(room) < request.machines), "denied exactly where there is no room"
        if outcome.denied:
            short = (free.sum(axis=0) < need * request.machines - 1e-6 * has).any()
            assert (outcome.denied == FRAGMENTATION) == (not short)
            assert not outcome.servers
            continue
        assert sum(outcome.machines) == request.machines, "a request is placed whole"
        assert len(set(outcome.servers)) == len(outcome.servers)
        assert all(m <= room[s] for s, m in zip(outcome.servers, outcome.machines, strict=True))
        groups = {server // cluster.servers_per_group for server in outcome.servers}
        assert outcome.groups == len(groups) >= cluster.fewest_groups(request)
        if name == "fewest_groups":
            assert outcome.groups == fewest(room, request.machines, cluster)
        if name == "topology_aware" and cluster.fewest_groups(request) == 1:
            assert outcome.groups == 1 or fewest(room, request.machines, cluster) > 1, "in one where that is possible"


def fewest(room: list[int], machines: int, cluster: GroupedCluster) -> int:
    """The least number of groups that hold ``machines``, by trying all sets of groups."""
    size = cluster.servers_per_group
    of_groups = [sum(room[group * size : (group + 1) * size]) for group in range(cluster.groups)]
    return next(
        count
        for count in range(1, cluster.groups + 1)
        if any(sum(chosen) >= machines for chosen in combinations(of_groups, count))
    )


@given(cluster=CLUSTERS, requests=LISTS)
def test_first_fit_machine_by_machine(cluster: GroupedCluster, requests: list[Request]) -> None:
    """First fit as a textbook has it: one machine after the other, each on the first server with room."""
    requests = possible(cluster, requests)
    done = schedule(cluster, requests, policy_named("first_fit"))
    for number, outcome in enumerate(done.outcomes):
        if outcome.denied:
            continue
        used = np.zeros((cluster.servers, 4))
        for other in running(list(done.outcomes[:number]), outcome.request.arrival):
            for server, machines in zip(other.servers, other.machines, strict=True):
                used[server] += np.array(amounts(cluster, other.request)) * machines
        has = np.array([cluster.cores, cluster.memory_gib * 2**30, cluster.network_gbps * 1.25e8, cluster.gpus])
        need, chosen = np.array(amounts(cluster, outcome.request)), []
        for _ in range(outcome.request.machines):
            first = next(s for s in range(cluster.servers) if (used[s] + need <= has * (1 + 1e-6)).all())
            used[first] += need
            chosen.append(first)
        assert dict(zip(outcome.servers, outcome.machines, strict=True)) == {s: chosen.count(s) for s in chosen}


@given(cluster=CLUSTERS, requests=LISTS)
def test_all_that_ends_is_free_again(cluster: GroupedCluster, requests: list[Request]) -> None:
    requests = possible(cluster, requests)
    done = schedule(cluster, requests, policy_named("first_fit"))
    stay = sum(
        o.request.machines * o.request.cores for o in done.outcomes if not o.denied and o.request.lifetime == inf
    )
    assert done.utilization[-1, 0] == pytest.approx(stay / (cluster.cores * cluster.servers))
    assert (np.diff(done.time) >= 0).all()
    assert (done.utilization >= 0).all()
    assert (done.utilization <= 1).all()


@given(cluster=CLUSTERS, requests=LISTS)
def test_resources_in_use_are_those_of_the_requests_that_run(cluster: GroupedCluster, requests: list[Request]) -> None:
    requests = possible(cluster, requests)
    scheduled = schedule(cluster, requests, policy_named("fewest_groups"))
    ends = [o.request.arrival + o.request.lifetime for o in scheduled.outcomes]
    for time in set(scheduled.time.tolist()):
        used = scheduled.utilization[np.flatnonzero(scheduled.time == time)[-1]]
        placed = [(o.request, end) for o, end in zip(scheduled.outcomes, ends, strict=True) if not o.denied]
        cores = sum(request.machines * request.cores for request, end in placed if request.arrival <= time < end)
        assert used[0] == pytest.approx(cores / (cluster.cores * cluster.servers))


def test_utilization_is_a_mean_over_time_until_the_last_arrival() -> None:
    """Half of the cores for 3 s of 4, all of them in the last; what runs afterwards does not count."""
    requests = [Request("a", 0.0, 100.0, 1, 2.0), Request("b", 3.0, 100.0, 1, 2.0), Request("c", 4.0, 1.0, 1, 4.0)]
    done = schedule(GroupedCluster(1, 1, 4.0), requests, policy_named("first_fit"))
    assert done.mean_utilization[0] == pytest.approx((3 * 0.5 + 1.0) / 4)
    assert done.outcomes[-1].denied == "cores"


def test_a_machine_that_ends_makes_room_for_one_that_arrives_then() -> None:
    cluster = GroupedCluster(1, 1, 4.0)
    requests = [Request("a", 0.0, 1.0, 1, 4.0), Request("b", 1.0, 1.0, 1, 4.0), Request("c", 1.5, 1.0, 1, 1.0)]
    assert [o.denied for o in schedule(cluster, requests, policy_named("first_fit")).outcomes] == ["", "", "cores"]


def test_fragmentation_is_no_lack() -> None:
    """The example of MOTION's 4.A: 16 cores are free on every server, and a machine wants 32."""
    cluster = GroupedCluster(1, 4, 48.0)
    requests = [Request("a", 0.0, inf, 4, 32.0), Request("b", 1.0, inf, 2, 32.0), Request("c", 2.0, inf, 1, 32.0)]
    done = schedule(cluster, requests, policy_named("first_fit"))
    assert [o.denied for o in done.outcomes] == ["", FRAGMENTATION, FRAGMENTATION]
    full = [*requests[:1], Request("d", 3.0, inf, 4, 16.0), requests[2], Request("e", 4.0, inf, 1, 16.0)]
    assert [o.denied for o in schedule(cluster, full, policy_named("first_fit")).outcomes] == [
        "",
        FRAGMENTATION,
        "",
        "cores",
    ]


def test_small_from_the_first_group_and_big_from_the_last() -> None:
    """Three groups of two servers: small requests get group 0, then 1; one for two groups gets 2 and 1."""
    cluster, policy = GroupedCluster(3, 2, 1.0), policy_named("topology_aware")
    small = [Request(f"small {number}", float(number), inf, 2, 1.0) for number in range(2)]
    done = schedule(cluster, [*small, Request("big", -1.0, 1.0, 3, 1.0)], policy)
    assert [outcome.servers for outcome in done.outcomes] == [(2, 4, 5), (0, 1), (2, 3)]
    done = schedule(cluster, [*small, Request("big", -1.0, inf, 3, 1.0)], policy)
    assert [outcome.denied for outcome in done.outcomes] == ["", "", "cores"]
    scattered = [Request("a", 0.0, inf, 5, 1.0), Request("b", 1.0, inf, 1, 1.0)]
    assert schedule(cluster, scattered, policy).outcomes[1].servers == (1,)


def test_what_no_cluster_holds_is_named() -> None:
    cluster, policy = GroupedCluster(2, 2, 4.0, memory_gib=8.0), policy_named("first_fit")
    with pytest.raises(ValueError, match=r"^big\.cores: must be at most the 4 of a server, got 5$"):
        schedule(cluster, [Request("big", 0.0, 1.0, 1, 5.0)], policy)
    with pytest.raises(ValueError, match=r"^big\.memory: must be at most the 8 GiB of a server, got 9 GiB$"):
        schedule(cluster, [Request("big", 0.0, 1.0, 1, 1.0, memory=gib(9))], policy)
    with pytest.raises(ValueError, match=r"^gpu\.gpus: must be at most the 0 of a server, got 1$"):
        schedule(cluster, [Request("gpu", 0.0, 1.0, 1, 1.0, gpus=1.0)], policy)
    with pytest.raises(ValueError, match=r"^many\.machines: must be at most the 8 that fit, got 9$"):
        schedule(cluster, [Request("many", 0.0, 1.0, 9, 2.0)], policy)
    with pytest.raises(ValueError, match=r"^tiny: must need at least one of 0\.001 of its cores"):
        schedule(cluster, [Request("tiny", 0.0, 1.0, 1, 1e-9)], policy)
    with pytest.raises(ValueError, match=r"^share: must need at least one of"):
        schedule(cluster, [Request("share", 0.0, 1.0, 1, 0.0, network_share=0.5)], policy)
    with pytest.raises(ValueError, match=r"^vast\.cores: must be at most the 4 of a server, got"):
        schedule(cluster, [Request("vast", 0.0, 1.0, 1, 1e300)], policy)
    with pytest.raises(ValueError, match=r"^cluster\.cores: must be at most .* of all servers together, got 1e\+300"):
        GroupedCluster(2, 2, 1e300)
    with pytest.raises(ValueError, match=r"^cluster\.groups: must fit in the .* of memory"):
        GroupedCluster(10**12, 10, 1.0)
    with pytest.raises(ValueError, match=r"^policy: must be one of .*, got 'best'$"):
        policy_named("best")
