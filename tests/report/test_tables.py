"""The JSON of ``result.json`` reads back as that of the standard library, with the same refusals."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.json_lines import json_text

WORDS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KEYS = st.text() | st.integers()
VALUES = st.recursive(
    WORDS, lambda children: st.lists(children) | st.tuples(children, children) | st.dictionaries(KEYS, children)
)


@given(VALUES)
def test_values_read_back_as_those_that_the_standard_library_writes(value: Any) -> None:
    assert json.loads(json_text(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_has_not_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        json_text({"row": [value]})
