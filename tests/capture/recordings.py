"""Records of ranks, made by hand: rows as the recorder writes them, and what a reader makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from topoflow.capture.base import Trace
from topoflow.capture.formats.recording import parse
from topoflow.capture.merge import merge
from topoflow.capture.merge.parts import InputFile
from topoflow.capture.record.file import FORMAT, VERSION, Event

HEADER = {"format": FORMAT, "version": VERSION, "name": "toy", "world_size": 2, "host": "h"}
HEADER |= {"start": 0, "epoch": 0, "restart": 0}
SECOND = 10**9


def text_of(rows: Iterable[dict[str, Any] | Event], rank: int = 0, **header: Any) -> str:
    """Return the file of a rank that wrote ``rows``."""
    plain = [row.row if isinstance(row, Event) else row for row in rows]
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [HEADER | {"rank": rank} | header, *plain])


def read(rows: Iterable[dict[str, Any] | Event], rank: int = 0, **header: Any) -> Trace:
    """Return the trace of one rank alone."""
    return merge(parse(InputFile("rank.jsonl", text_of(rows, rank, **header).encode())), "toy")


def group(*ranks: int, name: str = "0") -> dict[str, Any]:
    """Return the row of a process group."""
    return {"kind": "group", "name": name, "ranks": ranks}


def reduce(at: int, size: int = 8, name: str = "0", op: str = "all_reduce") -> dict[str, Any]:
    """Return the row of a collective that took one second from ``at`` on."""
    row = {"kind": "communication", "op": op, "group": name, "dtype": "float32", "in": size, "out": size}
    return {**row, "issue": at * SECOND, "after": [], "end": (at + 1) * SECOND}


def training(iterations: int, size: int = 8) -> list[dict[str, Any]]:
    """Return the rows of a script that reduces once in each iteration."""
    rows: list[dict[str, Any]] = [group(0, 1), {"kind": "begin"}]
    for step in range(iterations):
        rows += [reduce(step, size), {"kind": "step"}]
    return rows


def write(folder: Path, ranks: dict[int, Iterable[dict[str, Any] | Event]], **header: Any) -> Path:
    """Write the files of several ranks; return their folder."""
    folder.mkdir(exist_ok=True)
    for rank, rows in ranks.items():
        (folder / f"rank{rank}.jsonl").write_text(text_of(rows, rank, **header))
    return folder
