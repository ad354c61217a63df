"""The rows of a large profile are read from its text: the rows of its decoded events, in little memory."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.hosts import Host, profile_of
from topoflow.capture import event_list
from topoflow.capture.formats.kineto.rows import KinetoRow, launches, read_rows
from topoflow.capture.load import load
from topoflow.fields import _refuse_constant

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('ab},{[]"\\\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab},"', max_size=3), inner, max_size=3),
    max_leaves=8,
)


numbers = st.integers(-5, 10**6) | st.floats(-1e4, 1e16, allow_nan=False) | st.sampled_from([2**53, 2**63, 1e300, -0.0])
names = st.sampled_from(
    ["record_param_comms", "aten::add", "cudaLaunchKernel", "cudaEventQuery", "ProfilerStep#1", "é"]
)
categories = st.sampled_from(["cpu_op", "cuda_runtime", "kernel", "user_annotation", "hpu_op", "cuda_sync"])
arguments = st.fixed_dictionaries(
    {},
    optional={
        "correlation": st.integers(-1, 2) | values,
        "Collective name": st.just("allreduce") | values,
        "b": values,
    },
)
events = st.fixed_dictionaries(
    {"ph": st.just("X"), "cat": categories, "name": names, "ts": numbers, "dur": numbers, "pid": st.integers(0, 2)},
    optional={"tid": st.just("s") | st.integers(0, 2), "args": arguments},
)


def listed(events: list[Any], indent: int | None = None, **around: Any) -> event_list.EventList:
    parsed = event_list.event_list(json.dumps({**around, "traceEvents": events}, indent=indent).encode())
    assert parsed is not None
    return parsed


def outcome(events: list[Any] | event_list.EventList) -> tuple[list[KinetoRow], Counter[str], str]:
    """The rows, what was left out, and the message if all are damaged."""
    counts = Counter[str]()
    try:
        return [*read_rows("t.json", events, counts).rows], counts, ""
    except ValueError as error:
        return [], counts, str(error)


def damaged(event: dict[str, Any], field: str | None, value: Any) -> dict[str, Any]:
    return event if field is None else {**event, field: value}


@given(
    st.lists(
        st.builds(
            damaged, events, st.none() | st.sampled_from(["ph", "cat", "name", "ts", "dur", "pid", "args"]), values
        )
        | values,
        max_size=12,
    ),
    st.sampled_from([None, 2]),
)
def test_the_rows_of_a_text_are_those_of_its_decoded_events(events: list[Any], indent: int | None) -> None:
    """Without the calls that no rule looks at; of the host's rows the first and the last are kept."""
    decoded, counts, error = outcome(events)
    rows, counts_of_text, error_of_text = outcome(listed(events, indent))
    assert (counts_of_text, error_of_text) == (counts, error)
    assert [row for row in decoded if row in rows] == rows
    shared = {row.correlation for row in rows if not row.is_call}
    for row in decoded:
        assert row in rows or (row.is_call and not launches(row.name) and row.correlation not in shared)
    if decoded:
        host, host_of_text = ([row for row in one if row.category != "kernel"] for one in (decoded, rows))
        assert rows[0].start == decoded[0].start
        assert [row.start for row in host][:1] == [row.start for row in host_of_text][:1]
        assert max((row.end for row in host), default=0) == max((row.end for row in host_of_text), default=0)


@given(st.lists(events | values, min_size=1, max_size=4), st.data())
def test_a_text_is_taken_if_it_is_json(events: list[Any], choose: st.DataObject) -> None:
    text = json.dumps(events)[1:-1]
    at = choose.draw(st.integers(0, len(text)))
    text = text[:at] + choose.draw(st.sampled_from([*'{}[]",:0-.e+\\u\n', "nan", "null", ""])) + text[at + 1 :]
    try:
        json.loads(f"[{text}]", parse_constant=_refuse_constant)
        is_json = True
    except ValueError:
        is_json = False
    parsed = event_list.EventList({}, f"[{text}]".encode(), 1, len(text.encode()) + 1)
    with nullcontext() if is_json else pytest.raises(orjson.JSONDecodeError):
        parsed.columns(lambda category, name: True)


def test_a_list_without_utf8_or_of_endless_brackets_is_no_json() -> None:
    for text in (b'"\xff"', b"[" * 100_000, b'{"a":' * 100_000):
        with pytest.raises(orjson.JSONDecodeError):
            event_list.EventList({}, text, 0, len(text)).columns(lambda category, name: True)


@given(st.lists(values, max_size=3), st.dictionaries(st.sampled_from("abc"), values), st.sampled_from([None, 2]))
def test_the_rest_of_the_document_is_decoded(events: list[Any], before: dict[str, Any], indent: int | None) -> None:
    assert listed(events, indent, **before).document == {**before, "traceEvents": []}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{"a": {"traceEvents": [{}]}}',
        '{"traceEvents": [{}], "traceEvents": [{"b": 1}]}',
        '["traceEvents: [", 2]',
        '{"traceEvents": [{}]',
        '{"a": "\\"traceEvents\\": [", "b": [1]}',
    ],
)
def test_other_documents_have_no_such_list(text: str) -> None:
    assert event_list.event_list(text.encode()) is None


def test_an_import_takes_less_memory_than_three_times_the_file(tmp_path: Path) -> None:
    host = Host("rows")
    for step in range(10):
        host.now = begin = 10_000.0 * step
        pending = host.gather(begin + 100, 80, 1_000_000)
        for kernel in range(1000):
            host.launch(
                "void cutlass::Kernel<cutlass_80_tensorop_s16816gemm_f16_128x64>(T::Params)", begin + 200 + kernel, 1, 7
            )
        host.wait(pending)
        host.row("user_annotation", f"ProfilerStep#{step}", begin, 9999)
    described = {"grid": [1, 2, 3], "block": [128, 1, 1], "est. achieved occupancy %": 30, "queued": 0, "device": 0}
    for row in host.rows:
        row["args"] |= {**described, "registers per thread": 64, "shared memory": 4096, "warps per SM": 1.5}
    (tmp_path / "rank0.json").write_text(json.dumps(profile_of(0, host.rows)))
    load([tmp_path])
    tracemalloc.start()
    load([tmp_path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = (tmp_path / "rank0.json").stat().st_size
    assert peak < 3 * size
