"""The events of a large profile are decoded in pieces: the same events, in less memory than the file."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.hosts import Host, profile_of
from topoflow.capture import event_list
from topoflow.capture.load import load

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('ab},{[]"\\\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab},"', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text("ab", max_size=2), values, max_size=4) | values, max_size=12),
    st.dictionaries(st.sampled_from("abc"), values),
    st.dictionaries(st.sampled_from("xyz"), values),
    st.integers(1, 40),
    st.sampled_from([None, 2]),
)
def test_pieces_have_the_events_of_the_whole_document(
    events: list[Any], before: dict[str, Any], after: dict[str, Any], piece: int, indent: int | None
) -> None:
    document = {**before, "traceEvents": events, **after}
    with patch.object(event_list, "PIECE_BYTES", piece):
        found = event_list.event_list(json.dumps(document, indent=indent).encode())
        assert found is not None
        assert list(found) == events
    assert found.document == {**document, "traceEvents": []}


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
