"""Hints: the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def suggest(name: str, known: Sequence[str], where: str) -> str:
    """The known key that is most like ``name``, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=2 / 3)  # experiment is not like placement
    prefix = f"{where}." if where else ""
    return f"; did you mean {prefix}{close[0]}?" if close else f"; must be one of {', '.join(known)}"
