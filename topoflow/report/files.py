"""Output folders that are whole or absent."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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

_LOCKED: set[tuple[int, int]] = set()  # folders that this process has locked, by inode and device


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
    other = written_by(out)
    if verb is not None and other is not None and verb.split()[: len(other.split())] != other.split():
        rule = f"must be a new folder or one of an earlier `topoflow {verb}`"
        raise ValueError(f"out: {rule}, got {out} with the result of `topoflow {other}`")


def written_by(out: Path) -> str | None:
    """The verb whose result a folder has, whole or cut off, of an experiment with its figure, as far as is known."""
    if (verb := _verb_of(str(result_in(out).get("command")))) is not None:
        return verb
    with suppress(OSError):
        if (cut_off := progress.read(out)) is not None:
            return _verb_of(cut_off.command) or str(cut_off.about.get("verb"))
    return next((verb for name, verb in WRITTEN_BY.items() if (out / name).exists()), None)


def result_in(out: Path) -> Mapping[str, Any]:
    """What the result.json of a folder holds; nothing where there is none, or one that is not ours."""
    try:
        found = json.loads((out / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _verb_of(command: str) -> str | None:
    words = command.split()
    if len(words) < 2 or words[0] != "topoflow":
        return None
    return " ".join(words[1:3] if words[1] == "experiment" else words[1:2])


@contextmanager
def sole_writer(out: Path, verb: str) -> Iterator[None]:
    """Check ``out`` and keep all other runs out of it until the block ends, however this process ends.

    The folder exists meanwhile; one without a file is removed again. Raises ``ValueError`` in one line where it cannot
    be written, or another run is writing there.
    """
    check_folder(out, verb)
    with locked(out):
        yield


@contextmanager
def locked(folder: Path, key: str = "out") -> Iterator[None]:
    """Keep all other runs out of a folder until the block ends; ``ValueError`` names ``key`` where one is in it.

    The lock is on the folder itself: it leaves no file there and ends with the process. A block within may lock the
    same folder again, as a job of Hydra may write to the folder of its logs.
    """
    absolute = Path(os.path.abspath(folder))
    made = [each for each in (absolute, *absolute.parents) if not each.exists()]
    absolute.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(absolute, os.O_RDONLY)
    try:
        identity = os.fstat(descriptor)[1:3]  # inode and device
        outermost = identity not in _LOCKED
        if outermost:
            _lock(descriptor, folder, key)
            _LOCKED.add(identity)
        try:
            yield
        finally:
            if outermost:
                _LOCKED.discard(identity)
            with suppress(OSError):  # it is not empty
                for each in made:
                    each.rmdir()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, key: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        rule = "must be written by one run at a time"
        raise ValueError(f"{key}: {rule}, got {folder}, where another is writing") from error
    except OSError:  # a file system without locks: parts of files have names of their own, so none is damaged
        return


@contextmanager
def whole_folder(out: Path, earlier: Iterable[str] = ()) -> Iterator[Path]:
    """A temporary folder next to ``out`` to write into; it becomes ``out`` when the block ends without an error.

    Where ``out`` is there already, files of the same names are replaced, those of ``earlier``, names of files that an
    earlier run wrote there, are removed if they are not, and everything else in it is left alone.
    """
    out = Path(os.path.abspath(out))
    check_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        written = Path(name) / "out"
        written.mkdir()
        with naming(out):
            yield written
            paths = sorted(written.rglob("*"))
            for path in paths:
                target = out / path.relative_to(written)
                if path.is_dir():
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                os.replace(path, target)
            for name in {*earlier} - {path.name for path in paths}:
                (out / name).unlink(missing_ok=True)
