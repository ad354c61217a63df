"""``topoflow inspect``: what a trace says about its job, or two traces side by side."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from topoflow.capture.base import Trace
from topoflow.capture.load import load
from topoflow.capture.merge.parts import DifferentJobs
from topoflow.capture.summary import Summary, summarize
from topoflow.cli.stages import Terminal, size_of
from topoflow.report.files import sole_writer, whole_folder
from topoflow.report.output import Output
from topoflow.report.trace_terminal import next_step, show, show_pair
from topoflow.units import check_positive


def run(arguments: argparse.Namespace) -> None:
    """Load, count, print, draw."""
    rate = arguments.bandwidth_gbps
    if rate is not None:
        check_positive("--bandwidth-gbps", rate)
    link_bandwidth = None if rate is None else rate * 1e9 / 8
    with nullcontext() if arguments.out is None else sole_writer(arguments.out, "inspect"), Terminal() as terminal:
        terminal.stage("reading")
        terminal.size(size_of(arguments.trace))
        traces = _load(arguments.trace, arguments.one_group)
        terminal.stage("counting")
        terminal.size("; ".join(trace.size for trace in traces))
        summaries = [summarize(trace, link_bandwidth) for trace in traces]
        plain = [summary.as_json() for summary in summaries]
        text = json.dumps(plain if len(plain) > 1 else plain[0], indent=2, allow_nan=False)
        page = None if arguments.out is None else write(traces, summaries, text, arguments.out)
    if arguments.json:
        print(text)
        return
    console = Output(highlight=False)
    if len(traces) > 1:
        show_pair(summaries[0], summaries[1], console)
    else:
        show(traces[0], summaries[0], console)
    if page is not None:
        console.print(f"Open {page}.", soft_wrap=True)
    if len(traces) == 1 and summaries[0].replayable:
        console.print(next_step(arguments.trace), soft_wrap=True)


def _load(paths: Sequence[Path], one_group: bool) -> list[Trace]:
    """Return the job of all files, or two jobs if there are two files or folders that cannot be of one."""
    try:
        return [load(paths, one_group, sizes_required=False)]
    except DifferentJobs:
        if len(paths) != 2:
            raise
        return [load([path], one_group, sizes_required=False) for path in paths]


def write(traces: Sequence[Trace], summaries: Sequence[Summary], text: str, out: Path) -> Path:
    """Write the page, its pictures and ``inspect.json``, all or none; return the page.

    Traces without times have no shares and no timeline; of two traces the shares alone are drawn.
    """
    from topoflow.report.draw.style import png  # matplotlib takes a second, in which a large file is read without it
    from topoflow.report.draw.trace_pictures import draw_shares, draw_timeline, draw_traffic
    from topoflow.report.page.inspection import inspection_page

    figures = {"shares.png": draw_shares(summaries)}
    if len(traces) == 1:
        figures |= {"timeline.png": draw_timeline(traces[0]), "traffic.png": draw_traffic(traces[0])}
    images = {name: png(figure) for name, figure in figures.items() if figure is not None}
    with whole_folder(out) as folder:
        for name, image in images.items():
            (folder / name).write_bytes(image)
        (folder / "inspect.json").write_text(text + "\n", encoding="utf-8")
        (folder / "inspect.html").write_text(inspection_page(summaries, images), encoding="utf-8")
    return out / "inspect.html"
