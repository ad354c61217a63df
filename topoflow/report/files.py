"""Output folders that are whole or absent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_folder(out: Path) -> None:
    """Raise ``ValueError`` when ``out`` cannot become a folder; called before long work."""
    absolute = Path(os.path.abspath(out))
    there = next(path for path in (absolute, *absolute.parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"out: must be a folder, got the file {there}")
    try:
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise ValueError(f"out: must be a folder that can be written, got {out} ({error.strerror})") from error


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside ``out`` to write into; it becomes ``out`` when the block ends without an error.

    Where ``out`` is there already, files of the same names are replaced and everything else in it is left alone.
    """
    out = Path(os.path.abspath(out))
    check_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        written = Path(name) / "out"
        written.mkdir()
        yield written
        for path in sorted(written.rglob("*")):
            target = out / path.relative_to(written)
            if path.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
