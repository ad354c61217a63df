"""Inputs like those of practitioners that went wrong once: each is right now, or refused in one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.capture.load import load


@pytest.fixture
def cases(shared_data: Path) -> Path:
    return shared_data / "field_cases"


def step_ms(folder: Path, bandwidth_gbps: float = 10, **keys: Any) -> float:
    """The step time of a recorded job on an ideal switch with one interface per server, ms."""
    options = {"workload": "captured", "degree": 1, "fabric": "ideal_switch", **keys}
    (result,) = topoflow.compare(f"workload.trace={folder}", bandwidth_gbps=bandwidth_gbps, **options)
    return result.iteration_time * 1e3


CASES = ("lost_kernels_at_start", "negative_duration", "on_demand_profile", "xpu_profile", "zero_timestamps")


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_profile_gives_the_step_time_of_the_whole_one(case: str, cases: Path) -> None:
    # 96 ms of kernels and idle host, and an all-reduce of 40 MB between two ranks: 32 ms at 10 Gb/s
    assert step_ms(cases / case) == pytest.approx(128, rel=1e-3)


@pytest.mark.parametrize(("bandwidth_gbps", "expected"), [(100, 80.5), (25, 116.5), (10, 260.5)])
def test_what_waits_for_a_transfer_waits_on_a_slower_network_too(
    bandwidth_gbps: float, expected: float, cases: Path
) -> None:
    # two layers of four chunks of 10 ms; the next chunk waits for 50 MB that are sent while the one before computes
    assert step_ms(cases / "ring_attention_waits", bandwidth_gbps) == pytest.approx(expected, rel=1e-3)


def test_an_unknown_element_type_counts_by_its_size(cases: Path) -> None:
    (gather, _) = load([cases / "fp8_fnuz"]).communications(0)
    assert (gather.op, gather.bytes_out) == ("all_gather", 2_000_000)


def test_names_that_only_wrap_or_create_are_no_operations(cases: Path) -> None:
    trace = load([cases / "flight_recorder_names"])
    assert [(event.op, event.bytes) for event in trace.communications(0)] == [("all_reduce", 2_000_000)] * 3


def test_windows_of_ranks_are_aligned_by_the_numbers_of_their_operations(cases: Path) -> None:
    # all-reduces of 110 MB in ten pieces between four ranks, 1.5 times that at 12.5 GB/s, and 12 us of latency for each
    assert step_ms(cases / "flight_recorder_windows", bandwidth_gbps=100) == pytest.approx(13.32, rel=1e-3)


def test_a_dump_of_a_job_that_hangs_says_which_rank_has_not_begun_what(cases: Path) -> None:
    trace = load([cases / "flight_recorder_hang"])
    assert trace.notes[0] == "rank 0 waits in number 5 of group '0', all_reduce of 2 MB, which rank 1 had not begun"
    assert [len([*trace.communications(rank)]) for rank in (0, 1)] == [4, 4]


def test_a_group_whose_list_is_cut_has_all_ranks_if_its_size_says_so(cases: Path) -> None:
    trace = load([cases / "on_demand_profile" / "of_64"])
    assert {event.group for event in trace.communications(0)} == {tuple(range(64))}


def test_a_header_of_inspector_holds_for_the_lines_below_it(cases: Path) -> None:
    trace = load([cases / "inspector_v43"])
    assert trace.iterations == 2
    assert sum(event.bytes for event in trace.communications(0)) == 2 * 70_000_000


def test_shares_of_an_all_gather_may_differ(cases: Path) -> None:
    trace = load([cases / "uneven_all_gather"])
    assert [event.bytes_out for event in trace.communications(1)] == [16_000_000] * 2
    assert any("shares of different sizes" in note for note in trace.notes)


def test_groups_are_read_from_a_file_of_their_own(cases: Path) -> None:
    trace = load([cases / "chakra_comm_group"])
    expected = [("all_reduce", (4, 5, 6, 7), 1_024_000), ("all_gather", tuple(range(8)), 1_024_000)]
    assert [(event.op, event.group, event.bytes_in) for event in trace.communications(5)] == expected
    assert [(event.op, event.group, event.bytes_in) for event in trace.communications(0)] == expected[1:]


@pytest.mark.parametrize("cables", ["single_homed", "dual_homed"])
def test_a_second_cable_of_a_server_does_not_slow_down_others(cables: str, cases: Path) -> None:
    # each of nine hosts sends 12.5 MB to each other one through a cable of 12.5 GB/s
    file = cases / "server_is_no_switch" / f"{cables}.json"
    (result,) = topoflow.compare(
        f"fabric.file={file}", "workload.bytes=12500000", workload="all_to_all", servers=9, fabric="links"
    )
    assert result.iteration_time * 1e3 == pytest.approx(8.0, rel=1e-3)
