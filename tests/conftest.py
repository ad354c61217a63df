"""What tests share: the examples of a law, where the real traces are, and how the command line is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import emulation
import pytest
from hydra.utils import instantiate
from hypothesis import HealthCheck, settings

from tests.examples import draw_fewer
from topoflow import _C
from topoflow.cli import stages
from topoflow.collectives.algorithm import circuits_for
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check
from topoflow.units import register_resolvers

ROOT = Path(__file__).resolve().parent.parent
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

# A law is tried on the same examples in every run, so that what has passed does not fail where nothing changed;
# pytest --hypothesis-profile=anew draws others. How long an example takes tells of the machine, not of the law.
settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("anew"), derandomize=True)
settings.load_profile("same")

# A busy machine adds no line to what a test expects on stderr, in this process and in those that it starts.
stages.MAX_SILENCE = 1e9  # s
os.environ["TOPOFLOW_MAX_SILENCE"] = "1e9"


def pytest_addoption(parser: pytest.Parser) -> None:
    emulation.add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    return emulation.again(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    draw_fewer(items)
    emulation.select(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    yield from emulation.judge()


@pytest.fixture(scope="session", autouse=True)
def kept_results(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Results without ``out`` are kept in a temporary folder, not in the checkout."""
    os.environ["TOPOFLOW_RUNS"] = str(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def check_device() -> Callable[[str], str]:
    """``check_device("cuda")``: its name; the test is skipped where there is no GPU."""

    def check(device: str) -> str:
        if device == "cuda":
            torch = pytest.importorskip("torch", reason="CUDA arrays come from torch")
            if not (_C.has_cuda and torch.cuda.is_available()):
                pytest.skip("needs a GPU and topoflow._C built with nvcc")
        return device

    return check


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest, check_device: Callable[[str], str]) -> str:
    """Where a kernel runs, every device that this machine has."""
    return check_device(request.param)


@pytest.fixture
def without_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are made, but their pixels are not, which takes longer than all else that small commands do.

    For tests of what commands compute, write and print. Those of tests/report, of other commands and of the
    documentation look at pictures.
    """
    for module in ("topoflow.report.draw.pictures", "topoflow.study.figures.base"):
        monkeypatch.setattr(f"{module}.png", lambda figure: b64decode(PIXEL))


class Watching:
    """An observer that remembers what it is informed of, and calls ``then`` each time."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.sizes: list[str] = []
        self.advances: list[tuple[float, int]] = []
        self.notes: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.then: Callable[[], None] = lambda: None

    def stage(self, name: str) -> None:
        self.stages.append(name)
        self.then()

    def size(self, text: str) -> None:
        self.sizes.append(text)
        self.then()

    def advance(self, done: float, total: int) -> None:
        self.advances.append((done, total))
        self.then()

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.then()

    def record(self, **values: Any) -> None:
        self.records.append(values)
        self.then()


@pytest.fixture
def watching() -> Watching:
    """An observer for ``Run``."""
    return Watching()


@pytest.fixture
def watchings() -> type[Watching]:
    """To make several of them."""
    return Watching


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with traces of real jobs, which lies beside the project; CI must have it."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} must exist in CI: the real traces are the tests of the importers")
        pytest.skip(f"needs the traces of real jobs in {path}")
    return path


@pytest.fixture(scope="session")
def unpacked(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``unpacked("dlrm_8gpu/dlrm_kineto.tar.gz")``: the folder with what an archive holds, unpacked once."""

    @cache
    def unpack(archive: str) -> Path:
        folder = tmp_path_factory.mktemp("unpacked")
        with tarfile.open(shared_data / archive) as tar:
            tar.extractall(folder, filter="data")
        return folder

    return unpack


@pytest.fixture(scope="session")
def dlrm_traces(unpacked: Callable[[str], Path]) -> tuple[Path, Path]:
    """The folders of profiles and of execution traces of a DLRM on 8 GPUs."""
    names = ("dlrm_kineto", "dlrm_pytorch_et")
    profiles, executions = (unpacked(f"dlrm_8gpu/{name}.tar.gz") / name for name in names)
    return profiles, executions


@pytest.fixture(scope="session")
def task_graphs(unpacked: Callable[[str], Path]) -> dict[str, Path]:
    """TopoOpt's 18 task graphs by name, as ``100vgg_16``."""
    folder = unpacked("topoopt_taskgraphs/tgs_dev_18.tar.xz")
    return {path.stem: path for path in sorted(folder.rglob("*.fbuf"))}


def configuration(*keys: str) -> Mapping[str, Any]:
    """Return the values of a comparison's ``keys``; of its first world, if that is a default sweep."""
    register_resolvers(circuits_for)
    return Grid.of(keys, check)[0].config


@pytest.fixture(scope="session")
def configured() -> Callable[..., Any]:
    """``configured("fabric", "fabric=ring", "degree=2")``: what a config group makes of a comparison's keys."""
    return lambda group, *keys: instantiate(configuration(*keys)[group])


@pytest.fixture(scope="session")
def topoflow_cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``topoflow_cli("inspect", path, "--json")`` runs the installed command in a process of its own."""

    def run(
        *arguments: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "topoflow"), *map(str, arguments)]
        env = {**os.environ, **(environment or {})}
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=240)

    return run


@pytest.fixture(scope="session")
def copied_package() -> Callable[[Path], dict[str, str]]:
    """``copied_package(folder)``: a copy of topoflow in ``folder``, to be changed; the environment of programs that
    are to import it."""

    def copy(folder: Path) -> dict[str, str]:
        installed = Path(_C.__file__).parent
        shutil.copytree(installed, folder / "topoflow", ignore=shutil.ignore_patterns("__pycache__"))
        return {**os.environ, "PYTHONPATH": str(folder)}

    return copy
