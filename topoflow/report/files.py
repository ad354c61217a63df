"""Output folders that are whole or absent."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from topoflow import progress
from topoflow.files import naming

WRITTEN_BY = {  # files of a folder without a result.json, and the verb that leaves them
    "plan.json": "search",
    "checkpoint.npz": "search",
    "checkpoint.jsonl": "experiment",
    "flows.csv": "simulate",
    "inspect.json": "inspect",
    "circuits.csv": "apply",
}


def check_folder(out: Path, verb: str | None = None) -> None:
    """Raise ``ValueError`` when ``out`` cannot become a folder; called before long work.

    With the ``verb`` that is to write there, also when the folder has the files of another, as some would be replaced
    and the rest stay.
    """
    absolute = Path(os.path.abspath(out))
    there = next(path for path in (absolute, *absolute.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ValueError(f"out: must be a folder, got the file {there}")
    try:
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise ValueError(f"out: must be a folder that can be written, got {out} ({error.strerror})") from error
    other = _written_by(out)
    if verb is not None and other not in (None, verb):
        law = f"must be a new folder or one of an earlier `topoflow {verb}`"
        raise ValueError(f"out: {law}, got {out} with the result of `topoflow {other}`")


def _written_by(out: Path) -> str | None:
    """The verb whose result a folder has, whole or cut off."""
    try:
        words = str(json.loads((out / "result.json").read_text(encoding="utf-8"))["command"]).split()
    except (OSError, ValueError, KeyError, TypeError):  # no result, or one that is not ours
        words = []
    if len(words) > 1 and words[0] == "topoflow":
        return words[1]
    with suppress(OSError):
        if (cut_off := progress.read(out)) is not None:
            return str(cut_off.about.get("verb"))
    return next((verb for name, verb in WRITTEN_BY.items() if (out / name).exists()), None)


@contextmanager
def sole_writer(out: Path, verb: str) -> Iterator[None]:
    """Check ``out`` and keep all other runs out of it until the block ends, however this process ends.

    The folder exists meanwhile; one without a file is removed again. Raises ``ValueError`` in one line where it cannot
    be written, or another run is writing there.
    """
    check_folder(out, verb)
    absolute = Path(os.path.abspath(out))
    made = [folder for folder in (absolute, *absolute.parents) if not folder.exists()]
    absolute.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(absolute, os.O_RDONLY)
    try:
        _lock(descriptor, out)
        try:
            yield
        finally:
            with suppress(OSError):  # it is not empty
                for folder in made:
                    folder.rmdir()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, out: Path) -> None:
    """The folder itself is locked, which leaves no file there and ends with the process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(f"out: must be written by one run at a time, got {out}, where another is writing") from error
    except OSError:  # a file system without locks: parts of files have names of their own, so none is damaged
        return


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A temporary folder next to ``out`` to write into; it becomes ``out`` when the block ends without an error.

    Where ``out`` is there already, files of the same names are replaced and everything else in it is left alone.
    """
    out = Path(os.path.abspath(out))
    check_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        written = Path(name) / "out"
        written.mkdir()
        with naming(out):
            yield written
            for path in sorted(written.rglob("*")):
                target = out / path.relative_to(written)
                if path.is_dir():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                os.replace(path, target)
