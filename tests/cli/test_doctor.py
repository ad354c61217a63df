"""``topoflow doctor`` says what is so: each fact is that of this machine, found another way here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from topoflow import _C, __version__
from topoflow.cli import main
from topoflow.emulate.sandbox import why_not

NCCL = "int ncclGetVersion(int *version) { *version = 22809; return 0; }"


def page(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The facts that the command prints, by name."""
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:16].strip(): line[17:] for line in lines}


def test_the_facts_are_those_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOPOFLOW_RUNS", str(tmp_path / "kept"))
    facts = page(capsys)
    assert facts["topoflow"].startswith(f"{__version__} in ")
    assert facts["Python"].endswith(sys.executable)
    assert ("CUDA for sm_" in facts["kernels"]) == _C.has_cuda
    assert _C.__file__ in facts["kernels"]
    assert facts["user"].split()[0] == str(os.geteuid())
    assert facts["emulate"].startswith("can run") == (why_not() is None)
    assert (Path(facts["configurations"]) / "compare.yaml").is_file()
    assert facts["runs"] == f"{tmp_path / 'kept'} (TOPOFLOW_RUNS), not there yet"
    installed = {distribution.metadata["Name"] for distribution in metadata.distributions()}
    assert ("is missing" in facts["[pandas]"]) == ("pandas" not in installed)
    assert not {"[test]", "[docs]", "[lint]"} & set(facts)


def test_a_machine_that_has_nothing_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = page(capsys)
    assert facts["GPUs"] == "none: no program nvidia-smi"
    assert facts["chromium"] == "none: no program chromium"
    assert "must find ip" in facts["emulate"]


def test_a_program_that_fails_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho no driver >&2\nexit 9\n")
    (tmp_path / "chromium").write_text("#!/bin/sh\nprintf 'A\\033[1m\\nB\\n'\n")
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    facts = page(capsys)
    assert facts["GPUs"] == "unknown: nvidia-smi ended with 9, no driver"
    assert facts["chromium"] == "A\\x1b[1m; B"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_version_of_nccl_is_that_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "nccl.c").write_text(NCCL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libnccl.so.2", "nccl.c"], cwd=tmp_path, check=True)
    script = "from topoflow.cli.doctor import _nccl; import sys; sys.modules['nvidia'] = None; print(_nccl())"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2.28.9 in libnccl.so.2\n"
