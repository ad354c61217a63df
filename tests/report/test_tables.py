"""The writer of ``result.json`` writes what the standard library's does."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.report.tables import Texts

WORDS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KEYS = st.text() | st.integers()
VALUES = st.recursive(WORDS, lambda each: st.lists(each) | st.tuples(each, each) | st.dictionaries(KEYS, each))


@given(VALUES, st.integers(0, 3))
def test_values_are_as_the_standard_library_writes_them(value: Any, depth: int) -> None:
    expected = json.dumps(value, indent=2).replace("\n", "\n" + "  " * depth)
    texts = Texts()
    for _ in range(2):  # the second time much is known
        assert texts.of(value, depth) == expected


@given(VALUES)
def test_what_several_values_share_is_the_same_at_any_depth(shared: Any) -> None:
    value = {"one": shared, "list": [shared, {"deeper": shared}], "same": {"deeper": shared}}
    assert Texts().of(value, 0) == json.dumps(value, indent=2)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_has_not_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        Texts().of({"row": [value]}, 0)
