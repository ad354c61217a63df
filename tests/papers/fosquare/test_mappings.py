"""Processes to cores: the paper's worked example, and what holds for every mapping."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.papers.fosquare.mappings import between, mappings, opm, place, within

# FOSquare, Table 3: packets from the process of the row to that of the column.
TABLE_3 = np.array(
    [
        [0, 4, 2, 0, 0, 0, 4, 0],
        [6, 0, 2, 0, 4, 0, 0, 0],
        [2, 2, 0, 3, 0, 4, 0, 0],
        [0, 0, 3, 0, 0, 0, 0, 4],
        [0, 4, 0, 0, 0, 2, 6, 2],
        [0, 0, 0, 4, 2, 0, 0, 2],
        [4, 0, 0, 0, 4, 0, 0, 2],
        [0, 0, 4, 0, 0, 2, 2, 0],
    ]
)
TABLE_4 = {(1, 2): 10, (5, 7): 10, (3, 4): 6, (6, 8): 4}
TABLE_5 = np.array([[0, 8, 4, 0], [8, 0, 0, 6], [4, 0, 0, 8], [0, 4, 8, 0]])


def test_pairs_are_those_of_table_4() -> None:
    exchanged = between(TABLE_3)
    pairs = opm.matched(opm.singles(TABLE_3)).tolist()
    assert {(first + 1, second + 1): int(exchanged[first, second]) for first, second in pairs} == TABLE_4


def test_packets_between_groups_are_those_of_table_5() -> None:
    groups = [np.array(group) - 1 for group in TABLE_4]
    order = [groups[0], groups[1], groups[2], groups[3]]
    packets = [
        [int(TABLE_3[np.ix_(row, column)].sum()) if row is not column else 0 for column in order] for row in order
    ]
    assert packets == TABLE_5.tolist()


def test_the_worked_example_ends_as_the_paper_says_but_for_its_last_sentence() -> None:
    """Processes 1, 2, 5, 7 are mapped first. "Processes 3, 4, 6, and 7 are mapped during the follow-up operation"
    contradicts that: 7 is in the first group, so the rest is 3, 4, 6, 8. Both groups have 16 packets between their
    halves, as the paper says; the first is chosen as it has 36 among all of its processes, the other 26.
    """
    both = between(TABLE_3)
    groups = opm.grouped(opm.singles(TABLE_3), 4)
    assert {frozenset(group) for group in (groups.members + 1).tolist()} == {
        frozenset({1, 2, 5, 7}),
        frozenset({3, 4, 6, 8}),
    }
    assert groups.inside.tolist() == [36, 26]
    assert both[np.ix_([0, 1], [4, 6])].sum() == both[np.ix_([2, 3], [5, 7])].sum() == 16
    core = place("opm", TABLE_3, np.array([7, 7, 7, 7, 9, 9, 9, 9]))
    assert set(core[[0, 1, 4, 6]]) == {0, 1, 2, 3}


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_every_mapping_gives_every_process_a_core_of_its_own(seed: int) -> None:
    draw = np.random.default_rng(seed)
    processes = int(draw.integers(1, 17))
    rack = np.sort(draw.integers(0, draw.integers(1, 9), processes + draw.integers(0, 9)))
    packets = draw.integers(0, 9, (processes, processes)) * (draw.random((processes, processes)) < 0.5)
    cores = {name: place(name, packets, rack, seed % 100) for name in mappings()}
    for core in cores.values():
        assert len(set(core.tolist())) == processes
        assert set(core.tolist()) <= set(range(len(rack)))
    inside = {name: within(packets, rack, core) for name, core in cores.items()}
    assert inside["partition"] >= max(inside["opm"], inside["first_fit"])


def as_written(packets: np.ndarray, rack: np.ndarray) -> list[int]:
    """Algorithm 1, step by step, with what its module says of what it leaves open."""
    both, core, free = between(packets), {}, list(range(len(rack)))
    while len(core) < len(packets):
        room = {number: [one for one in free if rack[one] == number] for number in rack[free]}
        cores = max((room[number] for number in sorted(room)), key=len)
        groups = [(process,) for process in range(len(packets)) if process not in core]
        size = 2 ** int(np.log2(min(len(cores), len(groups))))
        while len(groups[0]) < size:
            pairs, groups = [*itertools.combinations(groups, 2)], []
            while pairs:
                groups.append(sum(max(pairs, key=lambda pair: both[np.ix_(*pair)].sum()), ()))
                pairs = [pair for pair in pairs if not {*pair[0], *pair[1]} & {*groups[-1]}]
        chosen = max(groups, key=lambda group: both[np.ix_(group, group)].sum())
        core |= dict(zip(chosen, cores, strict=False))
        free = [one for one in free if one not in core.values()]
    return [core[process] for process in range(len(packets))]


@settings(max_examples=60, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_opm_is_the_algorithm_as_it_is_written(seed: int) -> None:
    draw = np.random.default_rng(seed)
    processes = int(draw.integers(1, 17))
    rack = np.sort(draw.integers(0, draw.integers(1, 6), processes + draw.integers(0, 9)))
    packets = draw.integers(0, 4, (processes, processes)) * (draw.random((processes, processes)) < draw.random())
    assert place("opm", packets, rack).tolist() == as_written(packets, rack)


def test_a_thousand_processes_are_mapped() -> None:
    """Of pairs that send each other the most, none is torn apart: racks have an even number of cores."""
    packets = np.zeros((1024, 1024), int)
    one = np.arange(1024)
    packets[one, one ^ 1], packets[one, (one + 7) % 1024] = 9, 1
    rack = np.repeat(np.arange(64), 24)
    core = place("opm", packets, rack)
    assert (rack[core[::2]] == rack[core[1::2]]).all()


def test_what_fits_into_a_rack_stays_there() -> None:
    """Two jobs of four processes that do not know each other, numbered in turns, on two racks of four cores."""
    packets = np.kron(np.ones((4, 4), int), np.eye(2, dtype=int))
    rack = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    for name in ("opm", "partition"):
        assert within(packets, rack, place(name, packets, rack)) == packets.sum()
    assert within(packets, rack, place("first_fit", packets, rack)) == packets.sum() / 2


@pytest.mark.parametrize(
    ("name", "packets", "cores", "message"),
    [
        ("opm", np.zeros((3, 3), int), 2, "mapping.processes: must be at most the 2 available cores, got 3"),
        ("best", np.zeros((2, 2), int), 2, "mapping: must be one of first_fit, opm, partition, random, got 'best'"),
        ("opm", np.zeros((2, 3), int), 4, "mapping.packets: expected [M, M], got [2, 3]"),
        ("opm", np.full((2, 2), -1), 4, "mapping.packets: must not be negative, got -1"),
    ],
)
def test_what_cannot_be_mapped_is_one_line(name: str, packets: np.ndarray, cores: int, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        place(name, packets, np.zeros(cores, int))
    assert str(error.value) == message
