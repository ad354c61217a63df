"""Keep a result without ``out`` in a folder of its own, which is named by the time, as Hydra's are."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path

from topoflow.cli import message

VARIABLE = "TOPOFLOW_RUNS"  # of the environment: the folder of these folders
DEFAULT = "runs"


def keep(verb: str, write: Callable[[Path], None], folder: Path | None = None) -> tuple[str, Path | None]:
    """Write a result into ``folder``, else ``runs/DATE-TIME-VERB``; the sentence says where, or why it is not kept.

    Also returns the folder, None where the result is not kept.

    What it costs to write is small, as nobody asked for it: no pictures.
    """
    try:
        folder = folder or new_folder(verb)
        write(folder)
    except (OSError, ValueError) as error:
        return f"The result is not kept: {message(error)}.", None
    return f"Results are saved in {folder}.", folder


def new_folder(verb: str) -> Path:
    """Make an empty folder of this moment."""
    root = Path(os.environ.get(VARIABLE) or DEFAULT)
    return free_folder(root / f"{datetime.now():%Y-%m-%d-%H-%M-%S}-{verb}")


def free_folder(folder: Path) -> Path:
    """Make an empty folder of this name, numbered where there is one already."""
    for number in count(1):
        free = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            free.mkdir(parents=True)
        except FileExistsError:
            if not folder.parent.is_dir():
                raise
            continue
        return free
    raise AssertionError("there is always another number")
