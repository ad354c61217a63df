"""The C programs of integrations/nccl, built once per sanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def cmake() -> str:
    """The cmake of this environment, or that of the machine."""
    path = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert path, "the tests of integrations/nccl need cmake; pip install '.[test]' brings it"
    return path


@pytest.fixture(scope="session")
def nccl_build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``nccl_build("thread")``: the folder of the libraries, and test programs in ``tests/``; ``""``: no sanitizer."""
    if sys.platform != "linux":
        pytest.skip("NCCL is for Linux")

    @cache
    def build(sanitizer: str) -> Path:
        folder = tmp_path_factory.mktemp(f"nccl_{sanitizer}")
        options = ["-DTOPOFLOW_NCCL_TESTS=ON", f"-DTOPOFLOW_NCCL_SANITIZE={sanitizer}"]
        configure = [cmake(), "-S", str(ROOT / "integrations" / "nccl"), "-B", str(folder), *options]
        for command in (configure, [cmake(), "--build", str(folder), "--parallel", "2"]):
            ran = subprocess.run(command, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        started = subprocess.run([folder / "tests" / "rings_test"], capture_output=True, text=True)
        if "unexpected memory mapping" in started.stderr:
            pytest.skip(f"the {sanitizer} sanitizer of this compiler does not know this kernel's memory layout")
        return folder

    return build
