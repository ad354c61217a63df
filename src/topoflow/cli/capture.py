"""``topoflow capture``: traces of real jobs in. Recording itself is ``python -m topoflow.capture`` under torchrun."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from os.path import realpath
from pathlib import Path

from topoflow.capture import jsonl
from topoflow.capture.assumptions import assumptions
from topoflow.capture.base import Trace
from topoflow.capture.load import load
from topoflow.cli.stages import Terminal, size_of
from topoflow.files import write_atomically
from topoflow.printable import printable
from topoflow.report.files import check_folder, whole_folder
from topoflow.report.trace_terminal import next_step
from topoflow.study.configure.job_layout import JobLayout, job_layout
from topoflow.study.configure.os_errors import named
from topoflow.units import check_positive, human


def run(arguments: argparse.Namespace) -> None:
    """Import, predict or export."""
    {"import": _import, "predict": _predict, "export": _export}[arguments.action](arguments)


def _export(arguments: argparse.Namespace) -> None:
    """Write a file for each rank, or nothing."""
    from topoflow.traffic.captured.as_chakra import chakra_files

    check_folder(arguments.out, "capture")
    with Terminal() as terminal:
        files = chakra_files(_read(arguments.files, terminal))
    with whole_folder(arguments.out) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    print(printable(f"{len(files) - 1} ranks written to {arguments.out}"))


def _predict(arguments: argparse.Namespace) -> None:
    """Run the script on shapes, write what all ranks would do, and print it with the memory that a GPU needs."""
    try:
        from topoflow.capture.predict import predict
    except ModuleNotFoundError as error:
        raise ValueError(f"capture predict: needs PyTorch, pip install 'topoflow[torch]' ({error})") from error
    from topoflow.capture.record.script import Script

    for name in ("world_size", "ranks_per_node", "iterations"):
        check_positive(f"--{name.replace('_', '-')}", getattr(arguments, name))
    script = Script(arguments.script, arguments.module)
    script.check()
    sizes = arguments.world_size, arguments.ranks_per_node, arguments.iterations
    prediction = predict(script, arguments.arguments, *sizes, lambda line: print(line, file=sys.stderr))
    with named({"--out": arguments.out}):
        jsonl.write(prediction.trace, arguments.out)
    lines = summary(prediction.trace)
    for rank, memory in prediction.memory.items():
        lines.append(f"  memory of rank {rank}: {memory_line(memory)}")
    print(printable("\n".join([*lines, f"written to {arguments.out}"])))


def memory_line(memory: Mapping[str, int]) -> str:
    """Return the bytes of a GPU's memory that tensors take at once, and what holds them."""
    held = {name: size for name, size in memory.items() if name != "peak"}
    rest = memory["peak"] - sum(held.values())
    parts = [*held.items(), ("activations and others at the peak", max(0, rest))]
    return f"{human(memory['peak'], 'B')} at the peak: " + ", ".join(
        f"{human(size, 'B')} {name}" for name, size in parts
    )


def _import(arguments: argparse.Namespace) -> None:
    """Read, check what will be written by the laws of ``compare``, write, and print what came in and was left out."""
    from topoflow.traffic.captured.dependencies import replayed

    out: Path = arguments.out
    if any(realpath(out) == realpath(file) for file in arguments.files):
        raise ValueError(f"--out: must not be one of the files to import, got {out}")
    if out.is_dir():
        raise ValueError(f"--out: must be a file, got the folder {out}")
    with Terminal() as terminal:
        layout = None if arguments.layout is None else job_layout(arguments.layout)
        trace = _read(arguments.files, terminal, arguments.one_group, layout, arguments.rank)
        terminal.stage("checking")
        terminal.size(trace.size)
        lines = jsonl.content(trace)
        try:
            written = jsonl.parse("trace", b"".join(lines))
            if len(written.ranks) == written.world_size or trace.layout is not None:  # else it is to be merged
                replayed(written)
        except ValueError as error:
            raise ValueError(f"{arguments.files[0]}: must record a job that can be replayed, got {error}") from error
    with named({"--out": out}):
        write_atomically(out, *lines)
    print(printable("\n".join([*summary(trace), f"written to {out}", next_step([out])])))


def _read(
    files: Sequence[Path],
    terminal: Terminal,
    one_group: bool = False,
    layout: JobLayout | None = None,
    rank: int | None = None,
) -> Trace:
    terminal.stage("reading")
    terminal.size(size_of(files))
    return load(files, one_group, None if layout is None else layout.of, rank)


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
