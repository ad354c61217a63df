"""Output folders that are written completely or not at all."""

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

WRITTEN_BY = {  # files of a folder without a result.json -> the verb that writes them
    "plan.json": "search",
    "checkpoint.npz": "search",
    "checkpoint.jsonl": "experiment",
    "flows.csv": "simulate",
    "inspect.json": "inspect",
    "circuits.csv": "apply",
}

_LOCKED: set[tuple[int, int]] = set()  # folders that this process has locked, by inode and device


def check_folder(out: Path, verb: str | None = None) -> None:
    """Raise ``ValueError`` if ``out`` cannot become a folder; call this before long work.

    With the ``verb`` that will write there, also raise if the folder has files of another verb, since a mixture of
    both would remain.
    """
    absolute = Path(os.path.abspath(out))
    existing = next(path for path in (absolute, *absolute.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise ValueError(f"out: must be a folder, got the file {existing}")
    try:
        with tempfile.TemporaryDirectory(dir=existing):
            pass
    except OSError as error:
        raise ValueError(f"out: must be a folder that can be written, got {out} ({error.strerror})") from error
    other = written_by(out)
    if verb is not None and other is not None and verb.split()[: len(other.split())] != other.split():
        rule = f"must be a new folder or one of an earlier `topoflow {verb}`"
        raise ValueError(f"out: {rule}, got {out} with the result of `topoflow {other}`")


def written_by(out: Path) -> str | None:
    """Return the verb (with the figure of an experiment) whose complete or interrupted result a folder has."""
    if (verb := _verb_of(str(result_in(out).get("command")))) is not None:
        return verb
    with suppress(OSError):
        if (cut_off := progress.read(out)) is not None:
            return _verb_of(cut_off.command) or str(cut_off.about.get("verb"))
    return next((verb for name, verb in WRITTEN_BY.items() if (out / name).exists()), None)


def result_in(out: Path) -> Mapping[str, Any]:
    """Return the content of a folder's result.json; {} if there is none or it is not ours."""
    try:
        content = json.loads((out / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _verb_of(command: str) -> str | None:
    words = command.split()
    if len(words) < 2 or words[0] != "topoflow":
        return None
    return " ".join(words[1:3] if words[1] == "experiment" else words[1:2])


@contextmanager
def sole_writer(out: Path, verb: str) -> Iterator[None]:
    """Check ``out`` and keep other runs out of it until the block or this process ends.

    The folder exists meanwhile; an empty one is removed again. Raises ``ValueError`` in one line where it cannot be
    written, or another run is writing there.
    """
    check_folder(out, verb)
    with locked(out):
        yield


@contextmanager
def locked(folder: Path, key: str = "out") -> Iterator[None]:
    """Keep other runs out of a folder until the block ends. Raises ``ValueError`` naming ``key`` if one is in it.

    The lock is on the folder itself: it leaves no file there and ends with the process. An inner block may lock the
    same folder again, since a job of Hydra may write to the folder of its logs.
    """
    absolute = Path(os.path.abspath(folder))
    new_folders = [path for path in (absolute, *absolute.parents) if not path.exists()]
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
                for path in new_folders:
                    path.rmdir()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, key: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        rule = "must be written by one run at a time"
        raise ValueError(f"{key}: {rule}, got {folder}, where another is writing") from error
    except OSError:  # a file system without locks: temporary files have unique names, so none is damaged
        return


@contextmanager
def whole_folder(out: Path, earlier: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder next to ``out``; its files move to ``out`` when the block ends without an error.

    If ``out`` exists, files of the same names are replaced, other files of ``earlier`` (names of files from an earlier
    run) are removed, and all other files are kept.
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
