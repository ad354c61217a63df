"""Completion of a command line by a shell: of the verb here, of its keys and values by Hydra.

eval "$(topoflow -sc install=bash)"
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

from topoflow import __version__
from topoflow.cli.parsers import VERBS, VERBS_OF_HYDRA, parse

LINE = "COMP_LINE"  # what was typed, as shells say it to programs


def run(words: Sequence[str]) -> None:
    """Print what ``words`` ask for: ``install=SHELL``, ``uninstall=SHELL`` or ``query=SHELL``."""
    verb = VERBS_OF_HYDRA[0]
    if any(word.startswith("query=") for word in words):
        line = os.environ.get(LINE, "")
        typed = line.split()
        if len(typed) < 2 or (len(typed) == 2 and not line.endswith(" ")):
            print(*(name for name in VERBS if name.startswith("".join(typed[1:]))))
            return
        if typed[1] not in VERBS_OF_HYDRA:
            return
        verb = typed[1]
        os.environ[LINE] = " ".join([typed[0], *typed[2:]]) + " " * line.endswith(" ")
    import_module(f"topoflow.cli.{verb}").run(parse(__version__, [verb, "-sc", *words]))
