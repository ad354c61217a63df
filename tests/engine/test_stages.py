"""Stages that threads share (``csrc/parallel/stages.h``): a program of its own, also under the thread sanitizer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"


@pytest.fixture(scope="module", params=["", "-fsanitize=thread"], ids=["plain", "sanitizer"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    binary = tmp_path_factory.mktemp("stages") / "stages"
    source = Path(__file__).with_name("stages.cpp")
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *filter(None, [request.param])]
    built = subprocess.run(["g++", *flags, f"-I{CSRC}", str(source), "-o", str(binary)], capture_output=True, text=True)
    if built.returncode != 0 and "tsan" in built.stderr:
        pytest.skip("needs the library of g++'s thread sanitizer")
    assert built.returncode == 0, built.stderr
    return binary


@pytest.mark.parametrize(("threads", "pieces"), [(1, 3), (2, 2), (2, 3), (3, 1), (4, 2), (4, 4)])
def test_each_piece_is_done_once_in_each_stage_and_no_thread_is_left_waiting(
    program: Path, threads: int, pieces: int
) -> None:
    """Late threads, threads that sleep, fewer and more threads than pieces."""
    ran = subprocess.run([program, str(threads), str(pieces), "60000"], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "60000 stages, 0 wrong\n"), ran.stderr
