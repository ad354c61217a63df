"""``topoflow capture``: traces of real jobs in. Recording itself is ``python -m topoflow.capture`` under torchrun."""

from __future__ import annotations

import argparse
from collections import Counter
from os.path import realpath
from pathlib import Path

from topoflow.capture import jsonl
from topoflow.capture.assumptions import assumptions
from topoflow.capture.base import Trace
from topoflow.capture.load import load
from topoflow.files import write_atomically
from topoflow.printable import printable
from topoflow.report.files import check_folder, whole_folder
from topoflow.study.configure.os_errors import named
from topoflow.units import human


def run(arguments: argparse.Namespace) -> None:
    """Import or export."""
    {"import": _import, "export": _export}[arguments.action](arguments)


def _export(arguments: argparse.Namespace) -> None:
    """Write a file for each rank, or nothing."""
    from topoflow.traffic.captured.as_chakra import chakra_files

    check_folder(arguments.out, "capture")
    files = chakra_files(load(arguments.files))
    with whole_folder(arguments.out) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    print(printable(f"{len(files) - 1} ranks written to {arguments.out}"))


def _import(arguments: argparse.Namespace) -> None:
    """Read, check what will be written by the laws of ``compare``, write, and print what came in and was left out."""
    from topoflow.traffic.captured.dependencies import replayed

    out: Path = arguments.out
    if any(realpath(out) == realpath(file) for file in arguments.files):
        raise ValueError(f"--out: must not be one of the files to import, got {out}")
    if out.is_dir():
        raise ValueError(f"--out: must be a file, got the folder {out}")
    trace = load(arguments.files, arguments.one_group)
    lines = jsonl.content(trace)
    try:
        written = jsonl.parse("trace", b"".join(lines))
        if len(written.ranks) == written.world_size:  # else it is to be merged with the other ranks
            replayed(written)
    except ValueError as error:
        raise ValueError(f"{arguments.files[0]}: must record a job that can be replayed, got {error}") from error
    with named({"--out": out}):
        write_atomically(out, *lines)
    print(printable("\n".join([*summary(trace), f"written to {out}"])))


def summary(trace: Trace) -> list[str]:
    """A few lines for a person: ranks, iterations, collectives, and what was left out."""
    iterations = f"{trace.iterations} iteration{'s' if trace.iterations > 1 else ''}"
    lines = [f"{trace.name}: {len(trace.ranks)} of {trace.world_size} ranks, {iterations}, from {trace.source}"]
    counts, sizes = Counter[tuple[str, int, str]](), Counter[tuple[str, int, str]]()
    for rank in trace.ranks:
        for communication in trace.communications(rank):
            if communication.iteration >= 0:
                kind = communication.op, len(communication.group), communication.dtype
                counts[kind] += 1
                sizes[kind] += communication.bytes
    share = 1 / (len(trace.ranks) * trace.iterations)
    for (op, members, dtype), count in sorted(counts.items()):
        size = human(sizes[op, members, dtype] * share, "B")
        lines.append(f"  {op} of {members} ranks, {dtype}: {count * share:.4g} per rank and iteration, {size}")
    if not counts:
        lines.append("  no collectives and no sends")
    return [*lines, *(f"  note: {note}" for note in assumptions(trace))]
