"""Lines of JSON read as what the standard library writes of each row, and are made as the rows come."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.json_lines import ROWS, json_lines
from topoflow.scheduling.placement_file import read_placement


class Pair(NamedTuple):
    first: int
    second: str


@dataclass
class Row:
    first: int


BAD = [math.nan, -math.inf, np.float64("nan"), np.int64(1), {1}, object(), {"a": [math.nan]}, Row(1), date(2026, 1, 2)]
TEXTS = st.one_of(st.text(), st.text('"\\\x00\n\u2028\U0001f600\ud800aé', max_size=9), st.just("null"))
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, NUMBERS.filter(lambda n: abs(n) < 1e300).map(np.float64)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.builds(Pair, st.integers(), TEXTS),
        st.dictionaries(st.one_of(TEXTS, st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=6), st.sampled_from([1, ROWS]))
def test_lines_read_as_the_standard_library_writes_them(rows: list[Any], times: int) -> None:
    rows = rows * times
    expected = [json.loads(json.dumps(row, allow_nan=False)) for row in rows]
    text = b"".join(json_lines(rows)).decode()
    assert repr([json.loads(line) for line in text.split("\n")[:-1]]) == repr(expected)  # 1 is not 1.0, 0.0 not -0.0
    array = b"".join(json_lines(rows, b",")).decode()
    assert repr(json.loads(f"[{array}]")) == repr(expected)
    assert array.count("\n") == len(rows)


@pytest.mark.parametrize("bad", BAD)
def test_what_json_does_not_have_is_refused_as_the_standard_library_does(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as expected:
        json.dumps(bad, allow_nan=False)
    with pytest.raises(expected.type) as actual:
        b"".join(json_lines([*range(2 * ROWS), bad]))
    assert str(actual.value) == str(expected.value)


def test_a_part_is_written_before_the_rows_of_the_one_after_the_next_are_made() -> None:
    latest = 0

    def rows() -> Iterator[int]:
        nonlocal latest
        for row in range(10 * ROWS):
            latest = row
            yield row

    for number, part in enumerate(json_lines(rows())):
        assert part.count(b"\n") == ROWS
        assert latest < (number + 2) * ROWS


def test_memory_does_not_grow_with_the_file() -> None:
    def most(count: int) -> int:
        tracemalloc.start()
        size = sum(map(len, json_lines({"name": f"message {n}", "ts": n / 7} for n in range(count))))
        assert size > 30 * count
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    most(ROWS)  # what the first call loads
    assert most(40 * ROWS) < 1.5 * most(4 * ROWS)


@pytest.mark.parametrize("name", ["caf\x85job", "a\u2028b", "a\u2029b"])
def test_a_placement_is_read_back_whatever_ends_a_line_elsewhere(tmp_path: Path, name: str) -> None:
    rows = [{"request": request, "servers": [0], "cluster_servers": 2} for request in (name, "other")]
    file = tmp_path / "placements.jsonl"
    file.write_bytes(b"".join(json_lines(rows)))
    for row in rows:
        assert read_placement(str(file), str(row["request"])).servers == (0,)
