"""``topoflow serve``: the runs of a folder in the browser of this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from topoflow.browse.find import found_in
from topoflow.browse.server import Server
from topoflow.report.output import Output


def run(arguments: argparse.Namespace) -> None:
    """Serve until Ctrl-C, which is how it ends."""
    try:
        with Server(arguments.folder, arguments.host, arguments.port) as server:
            _show(arguments.folder, server.address)
            server.serve_forever()
    except KeyboardInterrupt as end:
        raise SystemExit(0) from end


def _show(folder: Path, address: str) -> None:
    """Print the address at which the runs of the folder are shown."""
    console, contents = Output(), found_in(folder)
    if not contents.runs and not contents.datasets:
        line = f"{folder} has no runs yet; those written with out= there will be listed."
        console.print(line, highlight=False, soft_wrap=True)
    counts = f"{len(contents.runs)} runs" + (f" and {len(contents.datasets)} datasets" if contents.datasets else "")
    console.print(f"{counts} of {folder} are at {address} until Ctrl-C.", highlight=False, soft_wrap=True)
    console.file.flush()
