"""Tables for pandas, which is an optional dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def frame(columns: Mapping[str, Any] | Sequence[Mapping[str, object]]) -> Any:
    """Return a ``pandas.DataFrame``. Raises an ``ImportError`` that says how to install pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("pandas: must be installed for to_pandas(), run `pip install pandas`") from error
    return pandas.DataFrame(columns)
