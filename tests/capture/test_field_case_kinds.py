"""Damage of every kind that practitioners reported, done to profiles of whole jobs at random places.

Laws: what is missing is counted and said; a step whose times are known stands for the job; the replay of such a step is
as long as without the damage, on fast and on slow networks; no replay is longer than the recorded step.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.capture.load import load
from topoflow.capture.summary import summarize

Profile = dict[str, Any]
Row = dict[str, Any]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SEEDS = range(2)
NOT_WHOLE = "no iteration is whole"


@pytest.fixture(scope="module")
def ring(shared_data: Path) -> list[Profile]:
    """Return the profiles of ring attention on 4 ranks: 3 steps of 80.5 ms, 260.5 ms at 10 Gb/s."""
    files = sorted((shared_data / "field_cases" / "ring_attention_waits").glob("*.json"))
    return [json.loads(file.read_bytes()) for file in files]


def replayed(folder: Path) -> tuple[float, float, tuple[str, ...]]:
    """Return the step on an infinitely fast network and at 10 Gb/s, s, and the notes."""
    steps = []
    for bandwidth in (1e9, 10):
        network = {"fabric": "ideal_switch", "degree": 1, "bandwidth_gbps": bandwidth, "latency_us": 0}
        (result,) = topoflow.compare(f"workload.trace={folder}", workload="captured", **network)
        steps.append(result.iteration_time)
    return steps[0], steps[1], summarize(load([folder])).notes


def write(profiles: list[Profile], folder: Path) -> Path:
    for rank, profile in enumerate(profiles):
        (folder / f"rank{rank}.json").write_text(json.dumps(profile))
    return folder


def on_device(row: Row) -> bool:
    return row.get("cat") in DEVICE


def rows_of(profile: Profile, dice: random.Random, share: float, matches: Callable[[Row], bool]) -> list[Row]:
    """Return some rows of a profile, one at least."""
    rows = [row for row in profile["traceEvents"] if matches(row)]
    return dice.sample(rows, max(1, round(share * len(rows))))


def lose_kernels(profile: Profile, dice: random.Random) -> None:
    lost = {id(row) for row in rows_of(profile, dice, 0.1, on_device)}
    profile["traceEvents"] = [row for row in profile["traceEvents"] if id(row) not in lost]


def lose_the_first_kernels(profile: Profile, dice: random.Random) -> None:
    starts = sorted(row["ts"] for row in profile["traceEvents"] if on_device(row))
    begin = starts[dice.randrange(1, len(starts) // 2)]
    profile["traceEvents"] = [row for row in profile["traceEvents"] if not on_device(row) or row["ts"] >= begin]


def set_times(key: str, value: float) -> Callable[[Profile, random.Random], None]:
    def change(profile: Profile, dice: random.Random) -> None:
        for row in rows_of(profile, dice, 0.1, on_device):
            row[key] = value

    return change


def zero_both_times(profile: Profile, dice: random.Random) -> None:
    for row in rows_of(profile, dice, 0.1, on_device):
        row |= {"ts": 0, "dur": 0}


def lose_a_time(profile: Profile, dice: random.Random) -> None:
    for row in rows_of(profile, dice, 0.05, on_device):
        del row[dice.choice(["ts", "dur"])]


def stretch_a_kernel(profile: Profile, dice: random.Random) -> None:
    (row,) = rows_of(profile, dice, 0, lambda row: row.get("cat") == "kernel" and row["ts"] < 160_000)
    row["dur"] = 120_000  # us, in a profile of 241,500: others of its stream begin in it


def begin_far_later(profile: Profile, dice: random.Random) -> None:
    (row,) = rows_of(profile, dice, 0, on_device)
    row["ts"] += 5e8  # us, in a profile of 241,500: the kernel would have waited for the whole profile


def spoil_rows(profile: Profile, dice: random.Random) -> None:
    spoiled = {"ts": "x", "dur": None, "args": "x"}
    for key, value in spoiled.items():
        (row,) = rows_of(profile, dice, 0, on_device)
        row[key] = value


DAMAGE: dict[str, Callable[[Profile, random.Random], None]] = {
    "kernels are lost": lose_kernels,
    "the profiler began late": lose_the_first_kernels,
    "durations are 0": set_times("dur", 0),
    "times are 0": set_times("ts", 0),
    "times and durations are 0": zero_both_times,
    "durations are negative": set_times("dur", -5.2),
    "durations are no numbers": set_times("dur", float("nan")),
    "times are infinite": set_times("ts", float("inf")),
    "rows lack times": lose_a_time,
    "one kernel outlasts others": stretch_a_kernel,
    "one kernel begins far later": begin_far_later,
    "rows are spoiled": spoil_rows,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_of_one_rank_is_said_and_changes_no_whole_step(
    kind: str, seed: int, ring: list[Profile], tmp_path: Path
) -> None:
    profiles = copy.deepcopy(ring)
    dice = random.Random(f"{kind} {seed}")
    DAMAGE[kind](dice.choice(profiles), dice)
    fast, slow, notes = replayed(write(profiles, tmp_path))
    assert any("unknown" in note or "damaged" in note for note in notes)
    assert fast <= 0.0805 * (1 + 1e-6)
    if not any(NOT_WHOLE in note for note in notes):
        assert fast == pytest.approx(0.0805, rel=0.01)
        assert slow == pytest.approx(0.2605, rel=0.01)


@pytest.mark.parametrize(
    "category", ["xpu_runtime", "privateuse1_runtime", "mtia_runtime", "npu_runtime", "musa_driver"]
)
def test_calls_of_any_vendor_launch_kernels(category: str, ring: list[Profile], tmp_path: Path) -> None:
    profiles = copy.deepcopy(ring)
    for row in (row for profile in profiles for row in profile["traceEvents"]):
        if row.get("cat") == "cuda_runtime":
            row["cat"] = category
    fast, slow, _ = replayed(write(profiles, tmp_path))
    assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=1e-3)


@pytest.mark.parametrize("category", ["hpu_op", "mtia_ccp_events", "another_vendors_kernel"])
def test_work_of_any_vendors_device_is_work_of_a_device(category: str, ring: list[Profile], tmp_path: Path) -> None:
    profiles = copy.deepcopy(ring)
    for row in (row for profile in profiles for row in profile["traceEvents"]):
        if row.get("cat") == "kernel":
            row["cat"] = category
    fast, slow, _ = replayed(write(profiles, tmp_path))
    assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=1e-3)


@pytest.mark.parametrize("category", ["ac2g", "gpu_user_annotation", "overhead", "a_later_kind_of_annotation"])
def test_rows_of_no_device_change_no_step(category: str, ring: list[Profile], tmp_path: Path) -> None:
    profiles = copy.deepcopy(ring)
    for profile in profiles:
        times = {"ts": 1000, "dur": 200_000, "pid": 0, "tid": 7}
        profile["traceEvents"].append({"ph": "X", "cat": category, "name": "step", "args": {}, **times})
    fast, slow, _ = replayed(write(profiles, tmp_path))
    assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=1e-3)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_of_a_device_is_set_by_its_launches(hours: int, ring: list[Profile], tmp_path: Path) -> None:
    profiles = copy.deepcopy(ring)
    for row in (row for profile in profiles for row in profile["traceEvents"] if on_device(row)):
        row["ts"] += 3_600_000_000 * hours
    fast, slow, notes = replayed(write(profiles, tmp_path))
    assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=1e-3)
    assert any("set by their launches" in note and "3600 s" in note for note in notes)


def test_a_profile_all_of_whose_rows_are_damaged_is_refused_with_the_first(ring: list[Profile], tmp_path: Path) -> None:
    profiles = copy.deepcopy(ring)
    for row in profiles[1]["traceEvents"]:
        row["ts"] = str(row.get("ts"))
    with pytest.raises(ValueError, match=r"rank1.json: traceEvents\[\d+\].ts: must be a number, got '"):
        load([write(profiles, tmp_path)])


def with_large_ids(row: Row) -> Row:
    """Return a row whose thread and correlation need 64 bits."""
    ids = {"tid": row["tid"] + 2**63} if isinstance(row.get("tid"), int) else {}
    args = row.get("args", {})
    shared = {"args": {**args, "correlation": args["correlation"] + 2**63}} if "correlation" in args else {}
    return {**row, **ids, **shared}


SPELLINGS: dict[str, Callable[[Profile], bytes]] = {
    "byte order mark, CRLF": lambda one: b"\xef\xbb\xbf" + json.dumps(one, indent=1).replace("\n", "\r\n").encode(),
    "two gzip members": lambda one: b"".join(
        gzip.compress(part) for part in (json.dumps(one)[:1000].encode(), json.dumps(one)[1000:].encode())
    ),
    "other alphabets": lambda one: json.dumps(one, ensure_ascii=False).replace("flash", "矩阵乘法_Ядро").encode(),
    "fields in reverse": lambda one: json.dumps(
        {**one, "traceEvents": [dict(reversed(row.items())) for row in one["traceEvents"]]}
    ).encode(),
    "ids of 64 bits": lambda one: json.dumps(
        {**one, "traceEvents": [with_large_ids(row) for row in one["traceEvents"]]}
    ).encode(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_how_a_profile_is_spelled_changes_nothing(spelling: str, ring: list[Profile], tmp_path: Path) -> None:
    plain = load([write(ring, tmp_path)])
    for rank, profile in enumerate(ring):
        (tmp_path / f"rank{rank}.json").write_bytes(SPELLINGS[spelling](profile))
    assert load([tmp_path]) == plain


@pytest.mark.parametrize("share", [0.35, 0.6, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_cut_off_keeps_its_whole_steps(
    share: float, packed: bool, ring: list[Profile], tmp_path: Path
) -> None:
    folder = write(ring, tmp_path)
    data = (folder / "rank1.json").read_bytes()
    if packed:
        compressed = gzip.compress(data)
        (folder / "rank1.json.gz").write_bytes(compressed[: int(share * len(compressed))])
        (folder / "rank1.json").unlink()
    else:
        (folder / "rank1.json").write_bytes(data[: int(share * len(data))])
    fast, slow, notes = replayed(folder)
    assert any("files are cut off" in note for note in notes)
    assert fast <= 0.0805 * (1 + 1e-6)
    if not any(NOT_WHOLE in note for note in notes):
        assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=0.01)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("milliseconds", [-40.0, 0.2, 15.0, 7000.0])
def test_a_clock_that_is_wrong_changes_no_step(
    rank: int, milliseconds: float, ring: list[Profile], tmp_path: Path
) -> None:
    profiles = copy.deepcopy(ring)
    for row in profiles[rank]["traceEvents"]:
        if row.get("ph") == "X":
            row["ts"] += milliseconds * 1e3 + 1e6  # times are positive
    for other in profiles:
        for row in other["traceEvents"] if other is not profiles[rank] else ():
            if row.get("ph") == "X":
                row["ts"] += 1e6
    fast, slow, _ = replayed(write(profiles, tmp_path))
    assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=0.02)


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("lost", [0, 2])
def test_a_step_that_one_rank_did_not_profile_is_not_taken(
    rank: int, lost: int, ring: list[Profile], tmp_path: Path
) -> None:
    profiles = copy.deepcopy(ring)
    marks = sorted(
        (row["ts"], row["ts"] + row["dur"])
        for row in profiles[rank]["traceEvents"]
        if row.get("cat") == "user_annotation" and row["name"].startswith("ProfilerStep")
    )
    begin, end = marks[lost]
    profiles[rank]["traceEvents"] = [
        row for row in profiles[rank]["traceEvents"] if row.get("ph") != "X" or not begin <= row["ts"] < end
    ]
    fast, slow, notes = replayed(write(profiles, tmp_path))
    assert any("not all ranks recorded" in note for note in notes)
    assert (fast, slow) == pytest.approx((0.0805, 0.2605), rel=0.01)


def test_a_job_without_marks_of_steps_says_that_an_iteration_is_what_repeats(
    ring: list[Profile], tmp_path: Path
) -> None:
    profiles = copy.deepcopy(ring)
    for profile in profiles:
        profile["traceEvents"] = [
            row for row in profile["traceEvents"] if not str(row.get("name")).startswith("ProfilerStep")
        ]
    *_, notes = replayed(write(profiles, tmp_path))
    assert any("may be a part of a step" in note for note in notes)


def test_a_profile_without_launches_counts_each_operation_once(shared_data: Path, tmp_path: Path) -> None:
    """Kernels say themselves what they do; so do the rows of the host."""
    files = [shared_data / "megatron_tp2" / f"kineto_rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    complete = [list(load(files).communications(rank)) for rank in (0, 1)]
    for rank, file in enumerate(files):
        profile = json.loads(gzip.decompress(file.read_bytes()))
        profile["traceEvents"] = [row for row in profile["traceEvents"] if row.get("cat") != "cuda_runtime"]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(profile))
    trace = load([tmp_path])
    for rank in (0, 1):
        communications = list(trace.communications(rank))
        assert [(event.op, event.bytes) for event in communications] == [
            (event.op, event.bytes) for event in complete[rank]
        ]
        lengths = [(event.end or 0) - (event.start or 0) for event in communications]
        assert lengths == pytest.approx([(event.end or 0) - (event.start or 0) for event in complete[rank]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"world_size": 8}, "must be of one job, got world sizes"),
        ({"rank": 0}, "must be of different ranks, got rank 0 twice"),
        ({"rank": 4}, "rank: must be within 0..3|rank: must be from 0 to 3|rank"),
    ],
)
def test_ranks_that_disagree_about_the_job_are_refused_in_one_line(
    change: dict[str, int], message: str, ring: list[Profile], tmp_path: Path
) -> None:
    profiles = copy.deepcopy(ring)
    profiles[1]["distributedInfo"] |= change
    with pytest.raises(ValueError, match=message) as refused:
        load([write(profiles, tmp_path)])
    assert "rank1.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_of_all_ranks_is_refused_with_what_to_give_instead(ring: list[Profile], tmp_path: Path) -> None:
    merged = copy.deepcopy(ring[0])
    for rank, profile in enumerate(ring[1:], start=1):
        for row in profile["traceEvents"]:
            merged["traceEvents"].append({**row, "pid": f"rank {rank}: {row.get('pid')}"})
    with pytest.raises(ValueError, match=r"rank0.json: must be the profile of one rank.*give the files of all ranks"):
        load([write([merged], tmp_path)])
