"""Runs that are killed at a given moment: after a line of their progress or a checkpoint, or while files are moved.

python killed.py '[[["compare", "out=a"], "begin", 1], ...]' runs each of these in a process of its own and kills it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from topoflow import progress
from topoflow.cli import main
from topoflow.report import files
from topoflow.search import alternate
from topoflow.study.figures.points import PointFile


def kill_at(owner: Any, name: str, number: int, pattern: str) -> None:
    """Kill this process after a function was called so many times, with arguments that have this text."""
    called: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def counting(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        result = called(*arguments, **keywords)
        calls += pattern in repr(arguments)
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counting)


POINTS = {
    "begin": (progress.ProgressLog, "_write", "format"),
    "simulating": (progress.ProgressLog, "record", "simulating/"),
    "rows": (progress.ProgressLog, "rows", ""),
    "save": (alternate, "save", ""),
    "stretch": (alternate, "save", ""),
    "point": (PointFile, "add", ""),
    "move": (files.os, "replace", ""),
}


def killed(words: list[str], moment: str, number: int) -> None:
    child = os.fork()
    if child == 0:
        progress.LEAST_INTERVAL = 0.0  # every line is written, on the fastest machine, too
        progress.SHARE = 10**12
        alternate.SAVE_EVERY = 0.0 if moment == "stretch" else float("inf")  # else at the ends of rounds alone
        owner, name, pattern = POINTS[moment]
        kill_at(owner, name, number, pattern)
        os._exit(main(words))
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        sys.exit(f"{words} ended before {moment} {number}: exit code {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    for case in json.loads(sys.argv[1]):
        killed(*case)
