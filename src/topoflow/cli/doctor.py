"""``topoflow doctor``: what this installation and machine can do, a line for each fact that was checked."""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from topoflow import __version__
from topoflow.cli.saved_results import DEFAULT, VARIABLE
from topoflow.emulate.sandbox import why_not
from topoflow.memory import free_memory
from topoflow.printable import one_line
from topoflow.study.configure.composition import PACKAGE
from topoflow.units import human

OF_DEVELOPERS = ("test", "docs", "lint")  # extras that no verb needs
GPUS = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")


def run(arguments: argparse.Namespace) -> None:
    """Print the page, each line as soon as it is checked."""
    for name, fact in facts():
        print(f"{name:<16} {one_line(fact)}", flush=True)


def facts() -> Iterator[tuple[str, str]]:
    """Yield (name, what was found)."""
    yield "topoflow", f"{__version__} in {Path(__file__).parents[1]}"
    yield "Python", f"{platform.python_version()} in {sys.executable}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    free = human(free_memory(), "B")
    yield "machine", f"{platform.system()} {platform.release()} {platform.machine()}, {cores} cores, {free} free"
    yield "kernels", _kernels()
    yield "GPUs", _said(*GPUS)
    yield "NCCL", _nccl()
    yield "user", f"{os.geteuid()}{' (root)' if os.geteuid() == 0 else ''}"
    refusal = why_not()
    yield "emulate", "can run: root, namespaces, veth and tbf are there" if refusal is None else refusal
    yield "chromium", _said("chromium", "--version")
    for extra, packages in _extras().items():
        yield f"[{extra}]", ", ".join(map(_version, packages))
    yield "configurations", _folder(util.find_spec(PACKAGE))
    yield "runs", _runs()


def _kernels() -> str:
    """Return what the compiled module was built for."""
    try:
        from topoflow.engine.device import build
    except ImportError as error:
        return str(error)
    return build()


def _said(*command: str) -> str:
    """Return what a program prints, or why it does not."""
    if shutil.which(command[0]) is None:
        return f"none: no program {command[0]}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown: {error}"
    text = "; ".join((done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines())
    return text if done.returncode == 0 else f"unknown: {command[0]} ended with {done.returncode}, {text}"


def _nccl() -> str:
    """Return the version of the NCCL that a program finds: that of PyTorch's packages, else that of the system."""
    try:
        spec = util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        spec = None
    of_torch = [str(Path(place) / "lib" / "libnccl.so.2") for place in (spec and spec.submodule_search_locations) or ()]
    for name in (*of_torch, "libnccl.so.2"):
        version = ctypes.c_int()
        try:
            ctypes.CDLL(name).ncclGetVersion(ctypes.byref(version))
        except (OSError, AttributeError):
            continue
        major, minor = divmod(version.value, 10_000)
        return f"{major}.{minor // 100}.{minor % 100} in {name}"
    return "none: no libnccl.so.2"


def _extras() -> dict[str, list[str]]:
    """Return the packages of each extra that verbs use, by the name of the extra."""
    packages: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("topoflow") or []
    except metadata.PackageNotFoundError:
        return {}  # a checkout that was not installed
    for requirement in requirements:
        package, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"]([\w-]+)", requirement)
        if package is not None and extra is not None and extra[1] not in OF_DEVELOPERS:
            packages.setdefault(extra[1], []).append(package[0])
    return packages


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} is missing"


def _folder(spec: object) -> str:
    """Return where a package of files is."""
    places = getattr(spec, "submodule_search_locations", None)
    return ", ".join(map(str, places)) if places else "none"


def _runs() -> str:
    """Return where results without out= are kept, and what is there."""
    folder = Path(os.environ.get(VARIABLE) or DEFAULT).absolute()
    if not folder.exists():
        return f"{folder} ({VARIABLE}), not there yet"
    return f"{folder} ({VARIABLE}), {'can' if os.access(folder, os.W_OK | os.X_OK) else 'cannot'} be written"
