"""The command line: ``topoflow VERB``. One module per verb; each has ``add_parser(subparsers)`` and ``run(arguments)``.

A wrong input is one line on stderr that names file and place, field, law and value, and exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from topoflow import __version__
from topoflow.cli import capture, compare, experiment, inspect, search, simulate

VERBS = (compare, search, experiment, simulate, capture, inspect)


class Parser(argparse.ArgumentParser):
    """An argument that does not exist is one line too: the usage is where ``--help`` is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    parser = Parser(
        prog="topoflow",
        description="Which network and which way of splitting a training job make an iteration fastest, at what price?",
        epilog="Start with: topoflow compare",
    )
    parser.add_argument("--version", action="version", version=f"topoflow {__version__}")
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except BrokenPipeError:  # the reader, say `head`, has seen enough; there is nobody to flush to at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"topoflow {arguments.verb}: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:  # its text, where a verb raised it anew: what is kept
        print(f"topoflow {arguments.verb}: interrupted{stop}", file=sys.stderr)
        return 130
    return 0


def one_line(error: ValueError | OSError) -> str:
    """What went wrong, in one line; the system's errors as ``file: No such file or directory``."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
