"""The folder that a grid writes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from topoflow.report.files import check_folder
from topoflow.study.configure.grid import Point


def output(points: Sequence[Point], verb: str) -> Path | None:
    """The one folder for ``verb`` to write to. Raises ``ValueError`` when there are several or it cannot be one."""
    outs = {str(point.config["out"]): point.config["out"] for point in points}
    if len(outs) > 1:
        raise ValueError(f"out: must be one folder for the whole comparison, got {', '.join(sorted(outs))}")
    ((name, out),) = outs.items()
    if out is None:
        return None
    if not name or isinstance(out, list | dict):
        raise ValueError(f"out: must be the name of a folder, got {out!r}")
    check_folder(Path(name), verb)
    return Path(name)
