"""The all-to-all exchange: everybody hears from everybody, and in every phase groups send each other equally much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topoflow
from topoflow.cli import main
from topoflow.workload.base import layer_graph
from topoflow.workload.messages.all_to_all import AllToAll

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 24))  # groups, ranks of each


def exchange(group: int | None, **fields: Any) -> AllToAll:
    gpu: Any = None  # it does not count
    return AllToAll(gpu, group=group, **fields)


@given(SIZES)
def test_every_phase_is_a_permutation_and_all_of_them_reach_everybody(sizes: tuple[int, int]) -> None:
    groups, size = sizes
    targets = exchange(size).targets(groups * size)
    everybody = np.arange(groups * size)
    assert (np.sort(targets, axis=0) == everybody[:, None]).all()
    assert (np.sort(targets, axis=1) == everybody).all()


@given(SIZES)
def test_in_every_phase_each_group_sends_as_much_to_every_group(sizes: tuple[int, int]) -> None:
    """S / G messages, rounded up or down."""
    groups, size = sizes
    for targets in exchange(size).targets(groups * size):
        sent = np.bincount(np.arange(groups * size) // size * groups + targets // size, minlength=groups**2)
        assert set(sent.tolist()) <= {size // groups, -(-size // groups)}


@pytest.mark.parametrize(("ranks", "group"), [(96, 48), (384, 48), (384, 96), (768, 48), (768, 96)])
def test_exactly_half_of_the_messages_cross_the_middle_in_every_phase(ranks: int, group: int) -> None:
    """MOTION 4. With two groups that is the spine; with more, all but 1 / G of the messages cross it."""
    targets = exchange(group).targets(ranks)
    half = ranks // 2
    crosses = (targets < half) != (np.arange(ranks) < half)
    assert set(crosses.sum(axis=1).tolist()) == {half}
    leaves = targets // group != np.arange(ranks) // group
    assert leaves.sum() == ranks**2 - ranks * group  # 4.B: M3


def test_without_groups_a_phase_is_a_shift() -> None:
    targets = exchange(None).targets(5)
    assert targets[2].tolist() == [2, 3, 4, 0, 1]


def test_messages_are_in_the_order_of_phases_and_nobody_sends_to_itself() -> None:
    messages = exchange(3, bytes=100.0).messages(6)
    assert len(messages.source) == 6 * 5
    assert (messages.source != messages.target).all()
    assert set(messages.bytes.tolist()) == {100.0}
    targets = messages.target[messages.source == 1]
    expected = exchange(3).targets(6)[:, 1]
    assert targets.tolist() == expected[expected != 1].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workload.group=5"], "workload.group: must divide the 16 servers, got 5"),
        (["workload.group=0"], "workload.group: must be positive, got 0"),
        (["workload.bytes=0"], "workload.bytes: must be positive, got 0"),
        (
            ["strategy=data_parallel"],
            "strategy: must be ranks for all_to_all, whose layers are not known, got data_parallel",
        ),
        (["workload=dlrm", "strategy=ranks"], "strategy: ranks places a motif of messages, e.g. all_to_all, got dlrm"),
    ],
)
def test_what_an_exchange_cannot_be_is_said_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "workload=all_to_all", "fabric=ring", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_exchange_has_no_layers() -> None:
    with pytest.raises(ValueError, match=r"workload: must be a graph of layers, got all_to_all, which has none"):
        layer_graph(exchange(None))


def test_an_exchange_takes_what_its_links_need() -> None:
    """16 servers on one switch: 15 messages of 1 MB each at 12.5 GB/s, and the latency of two links."""
    keys = {"workload.bytes": 1e6, "fabric": "ideal_switch", "degree": 1, "latency_us": 1}
    (result,) = topoflow.compare(workload="all_to_all", **keys)
    assert result.iteration_time == pytest.approx(15 * 1e6 / 12.5e9 + 2e-6)
    assert result.memory is None


def test_more_messages_than_memory_holds_are_refused_before_they_are_written() -> None:
    with pytest.raises(
        ValueError, match=r"^servers: must fit in .* free, got 99999990000000 .*of 10000000 servers \(40 PB\)"
    ):
        exchange(None).messages(10_000_000)
