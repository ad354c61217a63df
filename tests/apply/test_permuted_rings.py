"""Ring orders of PyTorch jobs: processes of gloo over real sockets, and what needs no process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plans import topoopt_plan
from topoflow.apply.orders import check_orders, cuts, orders_of_plan, orders_of_strides, read_plan, shares
from topoflow.search.base import Plan, PlanRing
from topoflow.strategy.as_captured import Recorded

WORKER = Path(__file__).with_name("rings_worker.py")


def run(*arguments: object) -> None:
    pytest.importorskip("torch")
    if sys.platform != "linux":
        pytest.skip("counts the bytes of sockets in /proc")
    command = [sys.executable, "-W", "error::FutureWarning", str(WORKER), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]


def test_rings_among_processes(tmp_path: Path) -> None:
    """Each law is a function of rings_worker.py."""
    run("what_is_wrong_is_one_line,sums_are_right,bytes_take_the_strides,ddp_learns_the_same", 5, tmp_path)


@pytest.mark.slow
def test_fsdp_subgroups_and_older_torch(tmp_path: Path) -> None:
    run("fsdp_learns_the_same,a_subgroup_has_rings_of_its_own,before_torch_2_12", 5, tmp_path)


def test_emulated_scripts_follow_their_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(topoopt_plan(3, 2).to_json())
    run("a_script_follows_its_plan", 3, tmp_path)


def test_a_dead_rank_is_an_error_on_the_others(tmp_path: Path) -> None:
    run("a_dead_rank_is_an_error", 5, tmp_path)


@pytest.mark.slow
def test_ddp_learns_the_same_for_500_steps(tmp_path: Path) -> None:
    run("ddp_learns_the_same_for_500_steps", 5, tmp_path)


@pytest.mark.slow
def test_under_torchrun(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "5"]
    command = [sys.executable, *launcher, str(WORKER), "bytes_take_the_strides", "torchrun"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert ran.returncode == 0, ran.stderr[-4000:]


@given(st.integers(0, 5000), st.sampled_from([1, 2, 4, 8]), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_shares_cover_a_tensor_once_as_weights_say(count: int, size: int, parts: list[int]) -> None:
    weights = shares([part / sum(parts) for part in parts], len(parts))
    ranges = cuts(count, size, weights)
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == count
    for (first, end), weight in zip(ranges, weights, strict=True):
        assert first <= end
        assert abs((end - first) - weight * count) <= 128 / size + 1
        assert first * size % 128 == 0 or first == count


@given(st.integers(2, 40), st.data())
def test_strides_are_rings_of_all_ranks(size: int, data: st.DataObject) -> None:
    ranks = data.draw(st.permutations(range(size)))
    stride = data.draw(st.integers(1, size - 1))
    if any(stride % factor == size % factor == 0 for factor in range(2, size)):
        with pytest.raises(ValueError, match=rf"^strides: must be co-prime with the {size} ranks, got {stride}$"):
            orders_of_strides([stride], ranks)
        return
    (order,) = check_orders(orders_of_strides([stride], ranks), ranks)
    place = {rank: at for at, rank in enumerate(ranks)}
    for rank, after in zip(order, (*order[1:], order[0]), strict=True):
        assert (place[after] - place[rank]) % size == stride


def a_plan(servers: int, strides: list[int]) -> Plan:
    """A plan with rings among all servers and nothing else that matters here."""
    group = tuple(range(servers))
    rings = (PlanRing(group, tuple(strides), orders_of_strides(strides, group)),)
    strategy = Recorded("as_captured", servers, 1).to_json()
    return Plan(
        workload="none", servers=servers, strategy=strategy, fabric="none", degree=1, bandwidth=1.0, circuits=(),
        rings=rings, trees=(), routes={}, all_reduce="ring", routing="ecmp", seed=0, bound=0.0, fidelity="fluid",
        iteration_time=0.0,
    )  # fmt: skip


def test_a_plan_that_is_not_utf8_is_an_error_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b'{"rings": "\xff"}')
    with pytest.raises(ValueError, match=r"plan\.json: must be UTF-8, got byte 0xff at 11"):
        read_plan(path)


def test_a_plans_rings_are_orders_of_ranks_and_servers_stay_together() -> None:
    plan = a_plan(5, [1, 2])
    assert orders_of_plan(plan, range(5)) == ((0, 1, 2, 3, 4), (0, 2, 4, 1, 3))
    assert orders_of_plan(plan, range(10))[1] == (0, 1, 4, 5, 8, 9, 2, 3, 6, 7)
    with pytest.raises(ValueError, match=r"^plan.servers: must divide the 8 ranks, got 5$"):
        orders_of_plan(plan, range(8))
    with pytest.raises(ValueError, match=r"^plan.rings: must have a group of all 5 servers, got groups of none$"):
        orders_of_plan(replace(plan, rings=()), range(5))
