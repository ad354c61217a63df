"""A script that is run unchanged, as Python runs it."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Script:
    """A script to run: a file as ``python name`` does, or with ``module`` as ``python -m name`` does."""

    name: str
    module: bool = False

    @property
    def title(self) -> str:
        return self.name.removesuffix(".__main__").rpartition(".")[2] if self.module else Path(self.name).stem

    @property
    def file(self) -> str | None:
        """Return the file that is run; None if a module has none."""
        spec = importlib.util.find_spec(self.name) if self.module else None
        return spec.origin if spec is not None else self.name

    def check(self) -> None:
        """Raise ValueError if there is no such file or module."""
        if not self.module:
            if not Path(self.name).is_file():
                raise ValueError(f"script: must be a file, got {self.name}")
            return
        sys.path[0] = os.getcwd()
        try:
            exists = importlib.util.find_spec(self.name) is not None
        except (ImportError, ValueError):  # a parent package is missing; a name such as ".train"
            exists = False
        if not exists:
            raise ValueError(f"-m: must be a module in this folder or installed, got {self.name}")

    def run(self, arguments: list[str]) -> None:
        """Run it with its own ``sys.argv``, its folder first in ``sys.path`` and ``__main__`` as its name."""
        sys.argv = [self.name, *arguments]
        if self.module:
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(self.name).resolve().parent)
            runpy.run_path(self.name, run_name="__main__")
