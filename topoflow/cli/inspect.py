"""``topoflow inspect``: what a trace says about its job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from topoflow.capture.base import Trace
from topoflow.capture.load import load
from topoflow.capture.summary import summarize
from topoflow.cli.output import Output
from topoflow.report.draw.style import png
from topoflow.report.draw.trace_pictures import draw_timeline, draw_traffic
from topoflow.report.files import check_folder, whole_folder
from topoflow.report.trace_terminal import show

EPILOG = """\
Examples (examples/ is in the repository; profiles of several ranks are given together):

  topoflow inspect examples/ddp_4_ranks.jsonl.gz
  topoflow inspect examples/ddp_4_ranks.jsonl.gz --json
  topoflow inspect examples/ddp_4_ranks.jsonl.gz --out runs/pictures
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "inspect",
        help="what a trace says: collectives, groups, traffic, share of time in communication",
        description="Read a trace (or a folder with the traces of all ranks) of any supported format and count it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trace", nargs="+", type=Path, metavar="TRACE_OR_DIR", help="files of one job, or a folder")
    parser.add_argument("--json", action="store_true", help="print JSON for a program: bytes, seconds, per rank")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write traffic.png, timeline.png and inspect.json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Load, count, print, draw."""
    if arguments.out is not None:
        check_folder(arguments.out, "inspect")
    trace = load(arguments.trace)
    summary = summarize(trace)
    text = json.dumps(summary.as_json(), indent=2, allow_nan=False)
    pictures = [] if arguments.out is None else write(trace, text, arguments.out)
    if arguments.json:
        print(text)
        return
    console = Output(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a file or a pipe has no width to fit into
    show(trace, summary, console)
    if pictures:
        console.print(f"Open {' and '.join(map(str, pictures))}.")


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
