"""``topoflow inspect``: what a trace says about its job."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

from topoflow.capture.base import Trace
from topoflow.capture.load import load
from topoflow.capture.summary import summarize
from topoflow.cli.stages import Terminal, size_of
from topoflow.report.draw.style import png
from topoflow.report.draw.trace_pictures import draw_timeline, draw_traffic
from topoflow.report.files import sole_writer, whole_folder
from topoflow.report.output import Output
from topoflow.report.trace_terminal import next_step, show


def run(arguments: argparse.Namespace) -> None:
    """Load, count, print, draw."""
    with nullcontext() if arguments.out is None else sole_writer(arguments.out, "inspect"), Terminal() as terminal:
        terminal.stage("reading")
        terminal.size(size_of(arguments.trace))
        trace = load(arguments.trace)
        terminal.stage("counting")
        terminal.size(trace.size)
        summary = summarize(trace)
        text = json.dumps(summary.as_json(), indent=2, allow_nan=False)
        pictures = [] if arguments.out is None else write(trace, text, arguments.out)
    if arguments.json:
        print(text)
        return
    console = Output(highlight=False)
    show(trace, summary, console)
    if pictures:
        console.print(f"Open {' and '.join(map(str, pictures))}.")
    console.print(next_step(arguments.trace), soft_wrap=True)


def write(trace: Trace, text: str, out: Path) -> list[Path]:
    """Pictures and ``inspect.json``, all or none; returns the pictures. A trace without times has no timeline."""
    pictures = {"traffic.png": png(draw_traffic(trace))}
    timeline = draw_timeline(trace)
    if timeline is not None:
        pictures["timeline.png"] = png(timeline)
    with whole_folder(out) as folder:
        for name, image in pictures.items():
            (folder / name).write_bytes(image)
        (folder / "inspect.json").write_text(text + "\n", encoding="utf-8")
    return [out / name for name in pictures]
