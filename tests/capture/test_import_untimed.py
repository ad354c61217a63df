"""Kernels that a profile lost, or whose times are impossible, never change the time of a step that is whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture.hosts import prefetching, write_profiles
from topoflow.capture.formats.kineto.damage import IMPOSSIBLE, LOST
from topoflow.capture.formats.kineto.rows import DAMAGED
from topoflow.capture.load import load
from topoflow.capture.periods import representative

STEPS = 6
Rows = list[dict[str, Any]]
NOTED = {
    "lost": (LOST,),
    "negative": (DAMAGED, LOST),
    "no start": (IMPOSSIBLE,),
    "no duration": (IMPOSSIBLE,),
    "outlasts the profile": (IMPOSSIBLE,),
    "contains the next of its stream": (IMPOSSIBLE,),
}


def damage(rows: Rows, kernel: dict[str, Any], kind: str, untouched: Rows) -> None:
    """Damage a kernel of ``rows``; take it out of ``untouched``, which are in the order of their start."""
    untouched.remove(kernel)
    later = [row for row in untouched if row["tid"] == kernel["tid"] and row["ts"] > kernel["ts"]]
    match kind:
        case "lost":
            rows.remove(kernel)
        case "negative":
            kernel["dur"] = -kernel["dur"]
        case "no start":
            kernel["ts"] = 0
        case "no duration":
            kernel["dur"] = 0
        case "contains the next of its stream" if later:
            kernel["dur"] = later[0]["ts"] + later[0]["dur"] - kernel["ts"] + 1
            untouched.remove(later[0])
        case _:
            kernel["dur"] = 1e9


@settings(max_examples=40)
@given(
    st.lists(st.integers(200, 3000), min_size=1, max_size=4),
    st.integers(1, STEPS - 1),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 99), st.sampled_from([*NOTED])), min_size=1, max_size=8),
    st.sampled_from(["rows", "numbers", "events"]),
)
def test_the_time_of_a_step_is_that_of_the_undamaged_profile(
    layers: list[int], whole: int, damages: list[tuple[int, int, str]], waits: str
) -> None:
    """Steps ``whole - 1``, whose end is the beginning of ``whole``, and ``whole`` stay as they are on both ranks."""
    ranks = [prefetching(layers, 1_000_000, waits, STEPS) for _ in range(2)]
    kernels = [[row for row in rows if row["cat"] == "kernel"] for rows in ranks]
    per_step = len(kernels[0]) // STEPS
    safe = range(per_step * (whole - 1), per_step * (whole + 1))
    exposed = [[row for at, row in enumerate(rank_kernels) if at not in safe] for rank_kernels in kernels]
    expected = Counter[str]()
    with TemporaryDirectory() as folder:
        write_profiles(Path(folder), ranks)
        undamaged = representative(load([Path(folder)])).seconds
        for rank, at, kind in sorted(damages, key=lambda entry: [*NOTED].index(entry[2])):
            remaining = [row for row in kernels[rank] if any(row is candidate for candidate in exposed[rank])]
            if remaining:
                damage(ranks[rank], remaining[at % len(remaining)], kind, kernels[rank])
                expected.update(NOTED[kind])
        write_profiles(Path(folder), ranks)
        trace = load([Path(folder)])
    assert representative(trace).seconds == pytest.approx(undamaged, rel=1e-9)
    counted = Counter[str]()
    for note in trace.notes:
        counted.update({sentence: int(note.split()[0]) for sentence in expected if sentence in note})
    assert counted == expected


@settings(max_examples=60)
@given(
    st.integers(1, STEPS - 1),
    st.integers(0, 1),
    st.integers(0, 999),
    st.sampled_from(["ts", "dur", "name", "cat", "args", "pid", "tid"]),
    st.sampled_from([None, {}, [], float("nan")]),
    st.sampled_from(["rows", "numbers", "events"]),
)
def test_a_row_without_a_sound_field_does_not_change_the_time_of_a_step(
    whole: int, rank: int, at: int, field: str, value: Any, waits: str
) -> None:
    """Steps ``whole - 1`` and ``whole``, and the mark that ends them, stay as they are."""
    ranks = [prefetching([700, 500], 1_000_000, waits, STEPS) for _ in range(2)]
    per_step = len(ranks[0]) // STEPS
    safe = {*range(per_step * (whole - 1), per_step * (whole + 1)), per_step * (whole + 2) - 1}
    exposed = [row for at, row in enumerate(ranks[rank]) if at not in safe]
    with TemporaryDirectory() as folder:
        write_profiles(Path(folder), ranks)
        undamaged = representative(load([Path(folder)])).seconds
        row = exposed[at % len(exposed)]
        row[field] = value
        if value is None:
            del row[field]
        write_profiles(Path(folder), ranks)
        trace = load([Path(folder)])
    assert representative(trace).seconds == pytest.approx(undamaged, rel=1e-9)


def test_a_file_of_several_ranks_is_refused(tmp_path: Path) -> None:
    rows = prefetching([700, 500], 1_000_000, "rows")
    for rank in range(1, 4):
        rows += [{**row, "pid": row["pid"] + 100 * rank} for row in prefetching([700, 500], 1_000_000, "rows")]
    write_profiles(tmp_path, [rows])
    with pytest.raises(
        ValueError, match=r"rank0.json: must be the profile of one rank, got host rows of processes 1 and"
    ):
        load([tmp_path])


def test_an_operation_that_is_damaged_in_every_step_is_refused(tmp_path: Path) -> None:
    rows = prefetching([700, 500], 1_000_000, "rows")
    for row in rows:
        row["args"].pop("dtype", None)
    write_profiles(tmp_path, [rows])
    with pytest.raises(ValueError, match=r"traceEvents\[0\].args.dtype: must be given"):
        load([tmp_path])
