"""Pipeline schedules are tables that equal their published formulas, and those of torch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.strategy.schedules import kept_microbatches, rule_of, rules, stage_ranks, table_of
from topoflow.strategy.schedules.base import KINDS, Pass, Schedule
from topoflow.strategy.schedules.csv_file import read_schedule

COST = {"F": 1, "I": 1, "W": 1, "B": 2}
NAMES = sorted(rules())


def table(name: str, ranks: int, groups: int, virtual: int = 2) -> Schedule:
    """Return a table with a number of microbatches and stages that every schedule allows."""
    rule = rule_of(name, virtual)
    per_rank = rule.virtual if rule.virtual else virtual
    assert stage_ranks(name, ranks, 2 * ranks * groups, ranks * per_rank)
    return table_of(name, ranks, 2 * ranks * groups, ranks * per_rank)


def units(schedule: Schedule, rank: int, overlapped: bool) -> list[tuple[Pass, ...]]:
    """Return the passes of a rank; ``overlapped`` joins a forward and a backward pass of different stages (F&B)."""
    row = list(schedule.rows[rank])
    joined: list[tuple[Pass, ...]] = []
    while row:
        pair = overlapped and [action.kind for action in row[:2]] == ["F", "B"] and row[0].stage != row[1].stage
        first = rank == len(schedule.rows) - 1 and row[1:2] == [Pass(row[0].stage + 1, 0, "B")]  # torch's, "NOTE"
        joined.append(tuple(row[: 2 if pair and not first else 1]))
        del row[: len(joined[-1])]
    return joined


def bubble(schedule: Schedule, *, of_rank: bool = False, overlapped: bool = False) -> int:
    """Return the idle time until the last pass ends, or the most of a rank between its own first and last pass."""
    ends: dict[Pass, int] = {}
    ranks = range(len(schedule.rows))
    waiting = [units(schedule, rank, overlapped) for rank in ranks]
    free, begins = [0 for _ in ranks], [0 for _ in ranks]
    while any(waiting):
        for rank in ranks:
            while waiting[rank] and (begin := ready(schedule, waiting[rank][0], ends)) is not None:
                begin = max(begin, free[rank])
                begins[rank] = begin if not free[rank] else begins[rank]
                free[rank] = begin + sum(COST[action.kind] for action in waiting[rank][0])
                ends |= dict.fromkeys(waiting[rank].pop(0), free[rank])
    work = max(sum(COST[action.kind] for action in row) for row in schedule.rows)
    return max(free[rank] - begins[rank] * of_rank for rank in ranks) - work


def ready(schedule: Schedule, unit: tuple[Pass, ...], ends: dict[Pass, int]) -> int | None:
    """Return the time at which the inputs of all passes of a unit are there; None if it is not known yet."""
    times = [0]
    for stage, number, kind in unit:
        before = stage - 1 if kind == "F" else stage + 1
        if kind != "W" and 0 <= before < schedule.stages:
            inputs = [Pass(before, number, input_kind) for input_kind in ("F" if kind == "F" else "IB")]
            known_ends = [ends[input_pass] for input_pass in inputs if input_pass in ends]
            if not known_ends:
                return None
            times += known_ends
    return max(times)


sizes = {"ranks": st.integers(2, 6), "groups": st.integers(1, 3), "virtual": st.integers(2, 4)}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(**sizes)
def test_every_microbatch_passes_every_stage_once_forward_and_once_back(
    name: str, ranks: int, groups: int, virtual: int
) -> None:
    schedule = table(name, ranks, groups, virtual)
    count = Counter((action.stage, action.microbatch, action.kind) for row in schedule.rows for action in row)
    for stage in range(schedule.stages):
        for number in range(2 * ranks * groups):
            forward, inputs, whole, weights = (count[stage, number, kind] for kind in KINDS)
            assert (forward, inputs + whole, inputs) == (1, 1, weights)
    assert len(schedule.order) == sum(map(len, schedule.rows))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(**sizes)
def test_a_pass_follows_that_of_its_neighbour(name: str, ranks: int, groups: int, virtual: int) -> None:
    schedule = table(name, ranks, groups, virtual)
    passes: set[tuple[int, int, bool]] = set()
    for stage, number, kind in schedule.order:
        forward = kind == "F"
        neighbour = stage - 1 if forward else stage + 1
        assert not 0 <= neighbour < schedule.stages or (neighbour, number, forward) in passes
        assert forward or (stage, number, True) in passes
        passes.add((stage, number, forward))


@settings(max_examples=15)
@given(**sizes)
def test_the_bubble_is_that_of_the_publication(ranks: int, groups: int, virtual: int) -> None:
    """F, I and W take 1, B takes 2, F&B takes 3; a pass of an interleaved rank, through all its stages, takes v."""
    gaps = ranks - 1
    assert bubble(table("one_f_one_b", ranks, groups)) == gaps * 3
    assert bubble(table("gpipe", ranks, groups)) == gaps * 3
    assert bubble(table("interleaved", ranks, groups, virtual)) == gaps * 3
    assert bubble(table("zb_h1", ranks, groups, 1)) == gaps * (1 + 1 - 1)
    assert bubble(table("dualpipe_v", ranks, groups), overlapped=True) == gaps * (1 + 2 + 2 - 3)
    assert bubble(table("zb_v", ranks, groups), of_rank=True) == 0


@settings(max_examples=15)
@given(**sizes)
def test_the_first_rank_of_1f1b_keeps_p_microbatches_and_every_rank_of_zb_v_as_much(
    ranks: int, groups: int, virtual: int
) -> None:
    assert table("one_f_one_b", ranks, groups).kept_microbatches.tolist() == list(range(ranks, 0, -1))
    zb_v = table("zb_v", ranks, groups)
    for rank in range(ranks):
        microbatches = sum(
            count for stage, count in enumerate(zb_v.kept_microbatches) if zb_v.stage_ranks[stage] == rank
        )
        assert microbatches == 2 * ranks  # of stages of half the size


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(**sizes)
def test_what_is_kept_follows_from_the_table(name: str, ranks: int, groups: int, virtual: int) -> None:
    schedule = table(name, ranks, groups, virtual)
    counted = kept_microbatches(name, ranks, schedule.microbatches, schedule.stages)
    for rank in range(ranks):
        stages = [stage for stage, owner in enumerate(schedule.stage_ranks) if owner == rank]
        now = peak = 0
        for action in schedule.rows[rank]:
            now += {"F": 1, "I": 0}.get(action.kind, -1)
            peak = max(peak, now)
        assert counted[stages].sum() == schedule.kept_microbatches[stages].sum() == peak


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("name", ["interleaved", "zb_h1", "zb_v", "dualpipe_v"])
def test_a_table_is_that_of_torch(name: str, ranks: int, groups: int) -> None:
    torch = pytest.importorskip("torch.distributed.pipelining.schedules")
    theirs = {
        "interleaved": torch.ScheduleInterleaved1F1B,
        "zb_h1": torch.ScheduleInterleavedZeroBubble,
        "zb_v": torch.ScheduleZBVZeroBubble,
        "dualpipe_v": torch.ScheduleDualPipeV,
    }[name]
    microbatches = ranks * groups
    arguments = SimpleNamespace(
        pp_group_size=ranks,
        n_local_stages=2,
        num_stages=2 * ranks,
        _n_microbatches=microbatches,
        number_of_rounds=groups,
        microbatches_per_round=ranks,
    )
    ours = table_of(name, ranks, microbatches, 2 * ranks)
    for rank in range(ranks):
        row = theirs._calculate_single_rank_operations(arguments, rank)
        flat = [part for action in row if action for part in action.sub_actions or [action]]
        assert list(map(str, flat)) == list(map(str, ours.rows[rank]))


def test_a_file_that_torch_writes_is_the_table_that_it_wrote(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch.distributed.pipelining.schedules")
    pick = table_of("dualpipe_v", 4, 8, 8)
    orders = {rank: [torch._Action.from_str(str(action)) for action in row] for rank, row in enumerate(pick.rows)}
    copied = {rank: list(row) for rank, row in orders.items()}
    comms = torch._add_send_recv(copied, lambda stage: pick.stage_ranks[stage], 8)  # empties what it is given
    for name, order in {"compute_only": orders, "compute_comms": comms}.items():
        file = tmp_path / f"{name}.csv"
        torch.PipelineScheduleMulti._dump_csv(SimpleNamespace(pipeline_order=order), str(file))
        assert read_schedule(str(file)).rows == pick.rows


GOOD = "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,(1B1)OVERLAP_F_B\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (",0B1", "", "row 1: 0B1 is missing"),
        (",1F1", "", "row 2: 1F1 is missing"),
        ("0B1", "0I1", "row 1: the backward pass must be 0B1, or 0I1 and 0W1, got 0I1"),
        ("0B0,0B1", "0B0,0B0", "row 1, column 5: 0B0 must occur once, got it twice"),
        ("1F0,1B0,", "1B0,1F0,", "row 1, column 4: 0B0 waits forever for 1I0 or 1B0 (deadlock)"),
        ("0B1", "0X1", "row 1, column 5: must be an action such as 0F3, 1B3, 1I3 or 1W3, got '0X1'"),
        ("0B1", "1B1", "row 2, column 2: 1F0 must be in s.csv: row 1, as its stage is there"),
        ("1F0", "3F0", "row 2: 1F0 is missing"),
        (GOOD, "", "must have a row of actions for each rank, got none"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_with_row_and_action(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    file = tmp_path / "s.csv"
    file.write_text(GOOD, encoding="utf-8")
    assert read_schedule(str(file)).stages == 2
    file.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"s\.csv") as raised:
        read_schedule(str(file))
    assert problem in str(raised.value).replace(f"{tmp_path}/", "")
    assert "\n" not in str(raised.value)
