"""The folder that a grid writes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from topoflow.report.files import sole_writer
from topoflow.study.configure.point import Point, distinct


@contextmanager
def output(points: Sequence[Point], verb: str) -> Iterator[Path | None]:
    """The one folder for ``verb`` to write to, until the block ends no other run's.

    Raises ``ValueError`` where there are several, it cannot be one, or another run writes there.
    """
    outs = {str(point.config["out"]): point.config["out"] for point in distinct(points)}
    if len(outs) > 1:
        raise ValueError(f"out: must be one folder for the whole comparison, got {', '.join(sorted(outs))}")
    ((name, out),) = outs.items()
    if out is None:
        yield None
        return
    if not name or isinstance(out, list | dict):
        raise ValueError(f"out: must be the name of a folder, got {out!r}")
    with sole_writer(Path(name), verb):
        yield Path(name)
