"""A verb with the keys of a configuration, and which of its arguments make it an application of Hydra."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoflow.study.configure.point import Point
from topoflow.study.configure.points import Check
from topoflow.study.configure.sources import is_hydra_override

OF_POINTS = ("hydra.sweeper.params", "hydra.searchpath")  # settings of Hydra that need no job of Hydra
PRINTING = ("cfg", "info")  # flags that print in place of a run
OF_JOBS = ("multirun", "run", *PRINTING, "config_name", "shell_completion", "hydra_help")

AnswerEach = Callable[[Sequence[Point], Sequence[str], Sequence[Path]], list[Any]]  # of points, as one batch


@dataclass(frozen=True)
class Verb:
    """The parts of a verb that an application of Hydra uses."""

    name: str  # of the file of configs/, too
    check: Check
    answer: Callable[[Sequence[Point], str, Path], float | None]  # in a folder; with what a sweeper makes least
    answer_each: AnswerEach | None = None


def needs_hydra(arguments: argparse.Namespace) -> bool:
    """Return whether a command line asks for more of Hydra than the points of a grid."""
    keys = (override.lstrip("+~").partition("=")[0] for override in arguments.overrides if is_hydra_override(override))
    return any(getattr(arguments, flag) for flag in OF_JOBS) or any(key not in OF_POINTS for key in keys)


def run_application(arguments: argparse.Namespace, verb: Verb) -> None:
    """Run ``verb`` as Hydra does, which is imported for it."""
    from topoflow.cli.application import run

    run(arguments, verb)


def folders(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The folders of configurations of the user."""
    return () if arguments.config_dir is None else (arguments.config_dir,)


def command_of(arguments: argparse.Namespace) -> str:
    """The command that was typed."""
    return shlex.join(["topoflow", arguments.verb, *flags(arguments), *arguments.overrides])


def flags(arguments: argparse.Namespace) -> list[str]:
    """Return the flags of Hydra among the arguments, as Hydra reads them."""
    words = [f"--{flag.replace('_', '-')}" for flag in ("multirun", "run", "shell_completion", "hydra_help", "resolve")]
    flag_words = [word for word in words if getattr(arguments, word[2:].replace("-", "_"))]
    for flag in ("cfg", "info", "package", "config_dir", "config_name"):
        value = getattr(arguments, flag)
        flag_words += [] if value is None else [f"--{flag.replace('_', '-')}={value}"]
    return flag_words
