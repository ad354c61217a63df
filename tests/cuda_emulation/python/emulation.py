"""pytest --cuda-emulation: builds topoflow._C with its CUDA sources for the CPU, and runs the tests that need a GPU.

It is a plugin of pytest (tests/conftest.py) and a command: ``python tests/cuda_emulation/python/emulation.py`` runs a
command, by default python, in an environment where "cuda" is emulated.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
VARIABLE = "TOPOFLOW_EMULATED"  # where the library is
EXAMPLES = 6  # of a law: device code runs some 1,000 times slower here than on a CPU


def folder() -> Path:
    """Where the build is kept: one for each checkout and interpreter, outside of the checkout."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = sha256(f"{ROOT} {sys.executable} {sys.version}".encode()).hexdigest()[:12]
    return base / "topoflow" / f"cuda_emulation_{digest}"


def build(to: Path | None = None, *definitions: str) -> Path:
    """Build the library, or what has changed of it. Raises ``RuntimeError`` with the compiler's messages."""
    to = folder() if to is None else to
    to.mkdir(parents=True, exist_ok=True)
    with (to / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cmake = program("cmake")
        run(
            *(cmake, "-S", str(ROOT / "csrc"), "-B", str(to), "-DTOPOFLOW_CUDA=OFF", "-DTOPOFLOW_CUDA_EMULATION=ON"),
            *(f"-DPython_EXECUTABLE={sys.executable}", f"-DCCCL_INCLUDE_DIR={cccl()}", "-DCMAKE_BUILD_TYPE=Release"),
            *("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *definitions),
        )
        run(cmake, "--build", str(to), "--parallel", str(os.cpu_count() or 1))
    return to / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-8000:]}{done.stderr[-8000:]}")


def program(name: str) -> str:
    """That of this interpreter's environment, which need not be on the path."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or name


def cccl() -> Path:
    """The folder of Thrust's headers. Raises ``RuntimeError`` where there is none."""
    spec = importlib.util.find_spec("nvidia")
    packages = [] if spec is None else [*(spec.submodule_search_locations or ())]
    candidates = [Path(package, "cu13", "include", "cccl") for package in packages]
    for candidate in (*candidates, Path("/usr/local/cuda/include/cccl")):
        if (candidate / "thrust" / "version.h").exists():
            return candidate
    raise RuntimeError("cuda emulation: needs Thrust's headers, run `pip install '.[test]'`")


def environment(library: Path) -> dict[str, str]:
    """That of a process in which "cuda" is emulated."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, VARIABLE: str(library), "PYTHONPATH": os.pathsep.join(paths)}


@cache
def library() -> ctypes.CDLL:
    shared_library = ctypes.CDLL(os.environ[VARIABLE])
    shared_library.emulation_findings.restype = ctypes.c_char_p
    return shared_library


def findings() -> str:
    """What device code did wrong since the last call, with places in the source. A fault is forgotten."""
    text: str = library().emulation_findings().decode()
    library().emulation_reset()
    return "\n".join(line + "".join(f"\n    {place}" for place in places(line)) for line in text.splitlines())


def places(line: str) -> list[str]:
    """Where the code of the offsets "@1a2b@" is, the innermost function first."""
    offsets = re.findall("@([0-9a-f]+)@", line)
    command = ["addr2line", "-Cfipse", os.environ[VARIABLE], *(f"0x{offset}" for offset in offsets)]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except FileNotFoundError:
        return []


# The plugin.


def add_option(parser: Any) -> None:
    parser.addoption("--cuda-emulation", action="store_true", help="run the tests that need a GPU on an emulated one")


def again(config: Any) -> int | None:
    """All tests anew, in a process where "cuda" is emulated; None: this is it, or nobody wants one."""
    if VARIABLE in os.environ or not config.getoption("--cuda-emulation"):
        return None
    import pytest

    try:
        print("building the CUDA emulation in", folder(), flush=True)
        built = build()
    except (RuntimeError, OSError) as error:
        raise pytest.UsageError(f"--cuda-emulation: {error}") from error
    command = [sys.executable, "-m", "pytest", *config.invocation_params.args]
    return subprocess.run(command, env=environment(built)).returncode


def select(config: Any, items: list[Any]) -> None:
    """Only what runs on a GPU, with few examples."""
    if VARIABLE not in os.environ:
        return
    selected = [item for item in items if on_gpu(item)]
    config.hook.pytest_deselected(items=[item for item in items if not on_gpu(item)])
    items[:] = selected
    from hypothesis import settings

    for item in items:
        original = getattr(item.obj, "_hypothesis_internal_use_settings", None)
        if original is not None and original.max_examples > EXAMPLES:
            item.obj._hypothesis_internal_use_settings = settings(original, max_examples=EXAMPLES, deadline=None)


def on_gpu(item: Any) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return item.get_closest_marker("gpu") is not None or any(
        isinstance(value, str) and value == "cuda" for value in parameters
    )


def judge() -> Iterator[None]:
    """Around a test: it fails if device code did something wrong."""
    try:
        yield
    finally:
        if VARIABLE in os.environ:
            errors = findings()
            if errors:
                import pytest

                pytest.fail(errors, pytrace=False)


def main(command: Sequence[str]) -> int:
    return subprocess.run(command or [sys.executable], env=environment(build())).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
