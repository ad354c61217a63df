"""Groups that share servers: the task they become takes the time, and sends the bytes, of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.engine.base import Timeline
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.grid import ParallelGrid
from topoflow.traffic.base import Collective, Label, Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.grid.side_by_side import CollectiveWriter, EqualGroups

B, LOCAL, S = 10e9, 100e9, 4e9  # B/s of a server, B/s of a GPU inside, bytes


def written(op: str, servers: int, groups: EqualGroups) -> Traffic:
    exchange = CollectiveWriter(Columns(), servers, LOCAL)
    exchange.collective(op, S, groups, exchange.none(), Label(op))
    return exchange.tasks.traffic("one", servers, LOCAL, groups.local * groups.side_by_side)


def timeline(op: str, grid: ParallelGrid, axes: tuple[str, ...], *, all_reduce: str = "hierarchical") -> Timeline:
    """``op`` of S bytes in all groups of the grid along ``axes``, alone on an ideal switch."""
    servers = grid.pipeline * grid.servers_per_stage
    traffic = written(op, servers, EqualGroups.of(grid.groups(0, axes)))
    fabric = IdealSwitch(bandwidth=B, degree=1, latency=0.0).build(servers, traffic.demand())
    return Fluid().simulate([place(traffic, fabric, name="one", all_reduce=all_reduce, rings="flows")])[0]


def of(*degrees: int, gpus: int) -> ParallelGrid:
    """tensor, context, expert, data."""
    return ParallelGrid(*degrees, 1, 1, gpus, ((),))


def sent(result: Timeline) -> float:
    """Bytes that leave the servers; each crosses one link up and one down."""
    return float(np.sum(result.link_bytes)) / 2


def test_a_group_inside_a_server_sends_nothing_and_takes_the_time_of_one() -> None:
    # 8 GPUs, two groups of 4 in each of 2 servers: 2 * 3/4 * 4 GB / 100 GB/s = 60 ms
    result = timeline("all_reduce", of(4, 1, 1, 4, gpus=8), ("tensor",))
    assert (result.makespan, sent(result)) == (pytest.approx(0.060), 0)


def test_groups_of_one_member_per_server_share_its_port() -> None:
    # 4 data groups over 2 servers, one per tensor rank: 2 * 1/2 * (4 * 4 GB) / 10 GB/s = 1.6 s
    result = timeline("all_reduce", of(4, 1, 1, 2, gpus=4), ("data",))
    assert (result.makespan, sent(result)) == (pytest.approx(1.6), pytest.approx(2 * 4 * S))


@pytest.mark.parametrize("all_reduce", ["hierarchical", "ring", "halving_doubling"])
def test_groups_with_several_members_per_server_reduce_inside_first(all_reduce: str) -> None:
    # 8 GPUs, 2 groups of 4 members on each of 2 servers: inside 2 * 3/4 * 4 GB / 100 GB/s = 60 ms, between them rings
    # of 2 * 4 GB: 2 * 1/2 * 8 GB / 10 GB/s = 0.8 s
    result = timeline("all_reduce", of(2, 1, 1, 8, gpus=8), ("data",), all_reduce=all_reduce)
    assert (result.makespan, sent(result)) == (pytest.approx(0.860), pytest.approx(2 * 2 * S))


@pytest.mark.parametrize(("op", "inside"), [("all_gather", 3 / 4), ("reduce_scatter", 3 / 4)])
def test_gathering_is_half_of_reducing(op: str, inside: float) -> None:
    # 2 tensor ranks by 8 context ranks: 4 of a group on each of 2 servers; inside 30 ms, between 8 GB / 2 / 10 GB/s
    result = timeline(op, of(2, 8, 1, 1, gpus=8), ("context",))
    assert result.makespan == pytest.approx(inside * S / LOCAL + 2 * S / 2 / B)
    assert sent(result) == pytest.approx(2 * S)


def test_an_all_to_all_hands_each_member_its_part() -> None:
    # groups of 4 on 2 servers with 4 GPUs, two members on each, two groups: a GPU hands 1/4 of 4 GB to each of the two
    # on the other server, 4 GPUs * 2 GB = 8 GB in 0.8 s; to the one beside it 1 GB in 10 ms
    result = timeline("all_to_all", of(2, 1, 4, 1, gpus=4), ("expert",))
    assert (result.makespan, sent(result)) == (pytest.approx(0.8), pytest.approx(2 * 8e9))


def test_an_all_to_all_inside_a_server_takes_its_local_bandwidth() -> None:
    # 8 members: 7/8 * 4 GB / 100 GB/s
    result = timeline("all_to_all", of(1, 1, 8, 2, gpus=8), ("expert",))
    assert (result.makespan, sent(result)) == (pytest.approx(0.035), 0)


def test_one_group_alone_leaves_the_algorithm_to_the_simulation() -> None:
    """Data parallel over all GPUs is the collective that data_parallel lowers to."""
    traffic = written("all_reduce", 2, EqualGroups.of(of(1, 1, 1, 8, gpus=4).groups(0, ("data",))))
    assert traffic.tasks == (Collective("all_reduce", S, (0, 1), name="all_reduce", local=4),)
