"""The command line: ``topoflow VERB``. ``parsers`` says what verbs take; a module per verb has ``run(arguments)``.

A wrong input is one line on stderr that names file and place, field, law and value, and exit code 2.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from topoflow import __version__
from topoflow.cli.parsers import parser


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit code. What the verb needs is imported only now: ``--help`` needs none of it."""
    arguments = parser(__version__).parse_args(argv)
    try:
        import_module(f"topoflow.cli.{arguments.verb}").run(arguments)
    except BrokenPipeError:  # the reader, say `head`, has seen enough; there is no reader to flush to at exit
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
