"""The command line: ``topoflow VERB``. ``parsers`` says what verbs take; a module per verb has ``run(arguments)``.

A wrong input is one line on stderr that names file and place, field, law and value, and exit code 2.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
from importlib import import_module

from topoflow import __version__
from topoflow.cli.interrupts import INTERRUPTED, Interrupts, interrupts
from topoflow.printable import one_line

# When a process ends, Python looks for cycles among the objects of all libraries, several times, half a second in all
# on a busy machine: longer than all else that follows Ctrl-C. Those that are there then it leaves alone.
atexit.register(gc.freeze)


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit code. What the verb needs is imported only now: ``--help`` needs none of it."""
    verb = ""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that a terminal cannot show is no reason to stop
    with interrupts() as pressed:
        try:
            from topoflow.cli.parsers import parse

            words = sys.argv[1:] if argv is None else argv
            if words[:1] in (["-sc"], ["--shell-completion"]):  # which shells ask of a program, not of its verbs
                import_module("topoflow.cli.completion").run(words[1:])
                return 0
            arguments = parse(__version__, argv)
            verb = arguments.verb
            pressed.command = f"topoflow {verb}"
            import_module(f"topoflow.cli.{verb}").run(arguments)
        except BrokenPipeError:  # the reader, say `head`, has seen enough; there is no reader to flush to at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt as stop:  # its text, where a verb raised it anew: what is kept
            pressed.end()  # while it is handled: after that, a retry would be raised where nobody handles it
            return _interrupted(pressed, str(stop))
        except MemoryError as error:
            print(f"topoflow {verb}: needs more memory than there is {error}".strip(), file=sys.stderr)
            return 2
        except Exception as error:
            if pressed.requested:  # what a library raised instead
                pressed.end()
                return _interrupted(pressed)
            if not isinstance(error, ValueError | OSError):
                raise
            print(one_line(f"topoflow {verb}: {message(error)}"), file=sys.stderr)
            return 2
    return 0


def _interrupted(pressed: Interrupts, suffix: str = "") -> int:
    print(f"{pressed.command}: interrupted{suffix}", file=sys.stderr)
    return INTERRUPTED


def message(error: ValueError | OSError) -> str:
    """Return what went wrong; an error of the system as ``file: No such file or directory``."""
    if isinstance(error, OSError) and error.strerror is not None:
        # Files name themselves (``topoflow.files``): without a name is a folder that was deleted, or the output.
        unnamed = "the current folder" if error.errno == errno.ENOENT else "standard output"
        return f"{error.filename or unnamed}: {error.strerror}"
    return str(error)
