"""topoflow's own trace file: what is written is read, equal traces give equal bytes, and errors name the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoflow.capture.base import COLLECTIVES, POINT_TO_POINT, Communication, ComputeSpan, Trace
from topoflow.capture.jsonl import read, write
from topoflow.capture.load import load
from topoflow.units import DTYPE_BYTES

WORLD = 4
times = st.none() | st.floats(-1e9, 1e9)
sizes = st.integers(0, 2**63 - 1)
groups = st.permutations(range(WORLD)).map(tuple)
afters = st.none() | st.just(())
computes = st.builds(
    ComputeSpan,
    name=st.text(max_size=20),
    start=times,
    end=times,
    seconds=st.floats(0, 1e9),
    iteration=st.integers(-1, 2),
    after=afters,
)
communications = st.builds(
    Communication,
    op=st.sampled_from(COLLECTIVES + POINT_TO_POINT),
    group=groups,
    dtype=st.sampled_from(sorted(DTYPE_BYTES)),
    bytes_in=sizes,
    bytes_out=sizes,
    iteration=st.integers(-1, 2),
    splits_in=st.lists(sizes, max_size=4).map(tuple),
    splits_out=st.lists(sizes, max_size=4).map(tuple),
    peer=st.integers(0, WORLD - 1),
    tag=sizes,
    root=st.none() | st.integers(0, WORLD - 1),
    issue=times,
    start=times,
    end=times,
    group_name=st.text(max_size=8),
    after=afters,
)
traces = st.builds(
    Trace,
    name=st.text(max_size=10),
    world_size=st.just(WORLD),
    iterations=st.just(3),
    ranks=st.dictionaries(
        st.integers(0, WORLD - 1), st.lists(computes | communications, max_size=6).map(tuple), min_size=1
    ),
    groups=st.dictionaries(st.text(max_size=5), groups, max_size=3),
    source=st.text(max_size=10),
    notes=st.lists(st.text(max_size=10), max_size=3).map(tuple),
)
relaxed = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(trace=traces, packed=st.booleans())
def test_what_is_written_is_read(trace: Trace, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("trace.jsonl.gz" if packed else "trace.jsonl")
    write(trace, path)
    assert read(path) == trace


def toy(ranks: tuple[int, ...] = (0, 1)) -> Trace:
    events = ComputeSpan("f", 0.0, 0.5, 0.4), Communication("all_reduce", (0, 1), "float32", 8, 8, after=(0,))
    return Trace("toy", 2, 1, dict.fromkeys(ranks, events), {"0": (0, 1)}, "test", ("a note",))


def test_equal_traces_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write(toy(), tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_numbers_of_numpy_are_written_as_equal_ones_of_python(tmp_path: Path) -> None:
    for name, number in (("a.jsonl", 1e-7), ("b.jsonl", np.float64(1e-7))):
        write(Trace("toy", 1, 1, {0: (ComputeSpan("f", 0.0, 0.5, number),)}), tmp_path / name)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_a_whole_trace_loads_as_it_was_written(tmp_path: Path) -> None:
    write(toy(), tmp_path / "trace.jsonl.gz")
    assert load([tmp_path / "trace.jsonl.gz"]) == toy()


def test_files_of_single_ranks_merge_to_the_whole_also_beside_it(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(toy((rank,)), tmp_path / f"rank{rank}.jsonl.gz")
    assert load([tmp_path]) == load(sorted(tmp_path.iterdir())) == toy()
    write(toy(), tmp_path / "trace.jsonl.gz")
    assert load([tmp_path]) == toy()


def test_missing_folders_are_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    write(toy(), tmp_path / "a" / "b" / "trace.jsonl")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["trace.jsonl"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match=r"trace.jsonl"):
        write(toy(), tmp_path / "trace.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


HEADER = {"format": "topoflow-trace", "version": 1, "name": "t", "world_size": 2, "iterations": 1, "ranks": [0]}
SIZES = {"dtype": "float32", "bytes_in": 8, "bytes_out": 8}
EVENT = {"rank": 0, "kind": "communication", "op": "all_reduce", "group": [0, 1], **SIZES}


def changed(row: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in {**row, **fields}.items() if value != "gone"}


@pytest.mark.parametrize(
    ("header", "event", "message"),
    [
        (changed(HEADER, version=2), EVENT, r"t.jsonl:1: version: must be 1, .* got 2"),
        (changed(HEADER, world_size="gone"), EVENT, r"t.jsonl:1: world_size: must be given"),
        (changed(HEADER, world_size=0), EVENT, r"t.jsonl:1: world_size: must be a whole number within 1"),
        (changed(HEADER, iterations=10**9), EVENT, r"t.jsonl:1: iterations: must be a whole number within 1..1048576"),
        (changed(HEADER, groups={"a": [1.5]}), EVENT, r"t.jsonl:1: groups.a: must be a list of whole numbers"),
        (changed(HEADER, notes=[1]), EVENT, r"t.jsonl:1: notes: must be a list of strings"),
        (changed(HEADER, extra=1), EVENT, r"t.jsonl:1: extra: must be one of"),
        (HEADER, changed(EVENT, op="teleport"), r"t.jsonl:2: op: must be one of .* got 'teleport'"),
        (HEADER, changed(EVENT, op="gone"), r"t.jsonl:2: op: must be given"),
        (HEADER, changed(EVENT, bytes_in=-1), r"t.jsonl:2: bytes_in: must be a whole number within 0..\d+, got -1"),
        (HEADER, changed(EVENT, bytes_in=2**63), r"t.jsonl:2: bytes_in: must be a whole number"),
        (HEADER, changed(EVENT, bytes_in=True), r"t.jsonl:2: bytes_in: must be a whole number"),
        (HEADER, changed(EVENT, dtype="float33"), r"t.jsonl:2: dtype: must be one of .* got 'float33'"),
        (HEADER, changed(EVENT, group=[0, 0]), r"t.jsonl:2: group: must name each rank once"),
        (HEADER, changed(EVENT, start="x"), r"t.jsonl:2: start: must be a number, got 'x'"),
        (HEADER, changed(EVENT, rank=1), r"t.jsonl:2: rank: must be one of the header's ranks \[0\], got 1"),
        (HEADER, changed(EVENT, kind="rest"), r"t.jsonl:2: kind: must be one of compute, communication, got 'rest'"),
        (HEADER, changed(EVENT, byts=1), r"t.jsonl:2: byts: must be one of"),
        (HEADER, changed(EVENT, after=[0]), r"t.jsonl: rank 0 event 0: after must name earlier events"),
        (HEADER, changed(EVENT, iteration=1), r"t.jsonl: rank 0 event 0: iteration must be within -1..0, got 1"),
        (HEADER, changed(EVENT, group=[0, 2]), r"t.jsonl: rank 0 event 0: group must be within world_size 2"),
        (HEADER, [1], r"t.jsonl:2: must be an object, got \[1\]"),
    ],
)
def test_an_error_names_the_line_field_law_and_value(
    tmp_path: Path, header: dict[str, Any], event: dict[str, Any], message: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{json.dumps(header)}\n{json.dumps(event)}\n")
    with pytest.raises(ValueError, match=message):
        read(path)


def test_a_line_that_is_no_json_is_named_with_its_column(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(HEADER) + '\n{"rank": 0, "kind"\n')
    with pytest.raises(ValueError, match=r"t.jsonl:2: must be JSON, got Expecting ':' delimiter at line 1 column 19"):
        read(path)


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(HEADER) + "\n" + json.dumps(EVENT)[:-1] + ', "bytes_in": 9}\n')
    with pytest.raises(ValueError, match=r"t.jsonl:2: must be JSON, got 'bytes_in' twice"):
        read(path)


def test_the_repeated_one_of_many_keys_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    pairs = (f'"{key}": 0' for key in (*range(200_000), *range(100_000, 200_000)))
    path.write_text(json.dumps(HEADER) + "\n{" + ", ".join(pairs) + "}\n")
    with pytest.raises(ValueError, match=r"t.jsonl:2: must be JSON, got '100000' twice"):
        read(path)
