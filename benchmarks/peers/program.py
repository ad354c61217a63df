"""Programs in C++ that run a peer: what they need, and how they are compiled."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

COMPILE = ("g++", "-O3", "-std=c++17")


def missing(headers: Sequence[str], packages: str) -> str | None:
    """Why a program with these headers cannot be built here (``packages``: Debian's that have them), or None."""
    if shutil.which(COMPILE[0]) is None:
        return "g++ is not installed"
    for header in headers:
        probe = [*COMPILE, "-E", "-include", header, "-x", "c++", "/dev/null"]
        if subprocess.run(probe, capture_output=True).returncode:
            return f"{header} is not installed (Debian: {packages})"
    return None


def build(program: Path, sources: Sequence[Path], libraries: Sequence[str]) -> Path:
    """Compile ``program``. Raises ``RuntimeError`` with what the compiler said."""
    command = [*COMPILE, *map(str, sources), *(f"-l{name}" for name in libraries), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return program
