"""A reader: how a program comes to a file, and whole files that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "examples" / "traces"
SHARED = ROOT.parent / "shared" / "data"  # files of others, which not every machine has
Files = Mapping[str, bytes]  # name -> content of files that are read together


@dataclass(frozen=True)
class Reader:
    """``read`` gets the paths of the files of a seed in the order of their names, and uses what it reads."""

    read: Callable[[list[Path]], object]
    seeds: Callable[[Path], Iterable[Files]]  # given an empty folder to make them in
    whole: str = ""  # pattern of the names of files that are not changed
    repair: Callable[[bytes], bytes] | None = None  # makes the checksum of a changed file right again


def content(*paths: Path) -> Files:
    """Return the files of ``paths`` as they are."""
    return {path.name: path.read_bytes() for path in paths}


def shared(pattern: str) -> list[Path]:
    """Return the files of others that are here."""
    return sorted(path for path in SHARED.glob(pattern) if path.is_file())
