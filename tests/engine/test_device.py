"""Where batches run. torch's CPU as the device runs the code of a GPU but for streams and pinned memory."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topoflow
from topoflow import _C
from topoflow.cli import main
from topoflow.engine.base import Fidelity, Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64")
VERBS = {
    "compare": ("compare", "fabric=fat_tree,topoopt", *SMALL),
    "search": ("search", "search.proposals=16", "search.rounds=1", "search.chains=4", *SMALL),
    "experiment": ("experiment", "topoopt_fig12", "degree=2", "seed=0", "series=TopoOpt", *SMALL),
    "simulate": ("simulate", f"world={ROOT / 'examples' / 'two_flows.json'}"),
}
FAKE = DeviceMemory(torch.device("cpu"))


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The names of the arrays of every copy to the device."""
    recorded: list[set[str]] = []
    put = DeviceMemory.put

    def counted(device: DeviceMemory, arrays: Any) -> dict[str, Any]:
        if device.torch is not None:
            recorded.append(set(arrays))
        return put(device, arrays)

    monkeypatch.setattr(DeviceMemory, "put", counted)
    return recorded


@pytest.mark.parametrize("fidelity", [Fluid(), Fluid(0.01), Bound()], ids=repr)
def test_graphs_stay_on_the_device_between_the_launches_of_a_run(
    fidelity: Fidelity, make_world: Callable[..., World], puts: list[set[str]]
) -> None:
    world = make_world([{"path": [0], "bytes": 10}, {"path": [0, 1], "bytes": 20, "after": [0]}], [3.0, 7.0])
    batches = [[replace(world, capacity=world.capacity * k) for k in (factor, factor + 1)] for factor in (1, 3, 5)]
    expected = [fidelity.simulate(batch, Run()) for batch in batches]
    run = Run(FAKE)
    timelines = [fidelity.simulate(batch, run) for batch in batches]
    assert sum("path_links" in names for names in puts) == 1
    assert sum("capacity" in names for names in puts) == 3
    for ours, theirs in zip(itertools.chain(*timelines), itertools.chain(*expected), strict=True):
        assert ours.finish.tobytes() == theirs.finish.tobytes()
        assert ours.makespan == theirs.makespan
    other = make_world([{"path": [0], "bytes": 10}], [3.0])
    assert fidelity.simulate([other], run)[0].finish.tolist() == fidelity.simulate([other], Run())[0].finish.tolist()
    assert sum("path_links" in names for names in puts) == 2


def test_a_world_that_stops_early_stops_there_on_any_device(make_world: Callable[..., World]) -> None:
    world = make_world([{"path": [0], "bytes": 10}, {"path": [0], "bytes": 90}], [10.0])
    early, unbroken = (
        Fluid().simulate([replace(world, until=until), world], Run(device))
        for until, device in ((5.0, DeviceMemory()), (5.0, FAKE))
    )
    for stopped, full in (early, unbroken):
        np.testing.assert_allclose(stopped.finish, [2, np.inf])
        np.testing.assert_allclose(full.finish, [2, 10])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_runs_its_batches_on_the_device(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, puts: list[set[str]]
) -> None:
    monkeypatch.setattr(DeviceMemory, "named", lambda name: FAKE if name == "cuda" else DeviceMemory())
    outputs = []
    for device in ("cpu", "cuda"):
        puts.clear()
        assert main([*VERBS[verb], f"device={device}", "threads=1", f"out={tmp_path / device}"]) == 0
        assert any("path_links" in names for names in puts) == (device == "cuda")
        outputs.append(answers(tmp_path / device))
    assert outputs[0] == outputs[1]


def answers(out: Path) -> list[Any]:
    """The numbers that a verb writes, without what was typed."""
    if (out / "flows.csv").exists():
        return [(out / "flows.csv").read_text()]
    if (out / "plan.json").exists():
        return [(out / "plan.json").read_text()]
    rows: list[Any] = json.loads((out / "result.json").read_text())["rows"]
    return [row["iteration_time"] for row in rows]


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_gpu_cuda_is_one_line_that_says_what_is_missing(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # also where there is one
    assert main([*VERBS[verb], "device=cuda", f"out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    by_torch = "torch built with CUDA" if torch.version.cuda is None else "a GPU that torch sees, got none"
    missing = by_torch if _C.has_cuda else "topoflow._C built with nvcc on the path"
    assert error.startswith(f"topoflow {verb}: device: cuda needs {missing}")
    assert error.count("\n") == 1


def test_auto_is_the_gpu_if_there_is_one_else_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert DeviceMemory.named("auto").on_cuda == (_C.has_cuda and torch.cuda.is_available())
    assert main([*VERBS["simulate"], "device=auto"]) == 0
    assert "15 s" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_device_or_number_of_threads_is_one_line(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["out=none"] if verb == "experiment" else []
    for key, message in (
        ("device=tpu", "must be one of auto, cpu, cuda, cuda:N"),
        ("device=cuda:x", "must be one of auto, cpu, cuda, cuda:N"),
        ("device='cuda:1,cpu'", "must be cuda:N for each of several"),
        ("device=cuda:1,cuda:01", "must be another GPU each time"),
        ("threads=0", "must be None or within 1..1024"),
    ):
        assert main([*VERBS[verb], key, *out]) == 2
        name = key.partition("=")[0]
        assert capsys.readouterr().err.startswith(f"topoflow {verb}: {name}: {message}, got ")


@pytest.fixture
def device_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the devices that a run asks for; all are the CPU."""
    names: list[str] = []

    def named(name: str) -> DeviceMemory:
        names.append(name)
        return DeviceMemory()

    monkeypatch.setattr(DeviceMemory, "named", named)
    return names


@pytest.mark.parametrize("verb", VERBS)
def test_several_gpus_are_one_value(verb: str, tmp_path: Path, device_names: list[str]) -> None:
    assert main([*VERBS[verb], "device=cuda:0,cuda:1", "threads=1", f"out={tmp_path / 'out'}"]) == 0
    assert {*device_names} - {"cpu"} == {"cuda:0,cuda:1"}


def test_several_gpus_are_one_value_in_python_too(device_names: list[str]) -> None:
    topoflow.compare(*SMALL, fabric="ring", device="cuda:0,cuda:1")
    topoflow.compare(*SMALL, "device=cuda:0,cuda:1", fabric="ring")
    assert {*device_names} - {"cpu"} == {"cuda:0,cuda:1"}


@pytest.mark.filterwarnings("error")  # it is in no other line
def test_what_torch_says_of_the_driver_is_part_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> bool:
        warnings.warn("CUDA initialization: The NVIDIA driver is too old\n(found version 11040).", stacklevel=1)
        return False

    monkeypatch.setattr(_C, "has_cuda", True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", none)
    message = (
        "a GPU that torch sees, got none. CUDA initialization: The NVIDIA driver is too old (found version 11040)."
    )
    with pytest.raises(ValueError, match=f"^device: cuda:3 needs {re.escape(message)}$"):
        DeviceMemory.named("cuda:3")
    assert DeviceMemory.named("auto") == DeviceMemory()


def test_an_old_gpu_is_refused_with_those_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_C, "has_cuda", True)
    monkeypatch.setattr(_C, "has_kernels_for", lambda number: False, raising=False)
    monkeypatch.setattr(_C, "architectures", [800, 900], raising=False)
    for name, value in (("is_available", True), ("device_count", 1), ("get_device_capability", (7, 5))):
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    message = "a GPU that topoflow._C is built for, sm_80, sm_90, got sm_75; run `CUDAARCHS=75 pip install .`"
    with pytest.raises(ValueError, match=f"^device: cuda:0 needs {re.escape(message)}$"):
        DeviceMemory.named("cuda:0")
    with pytest.raises(ValueError, match=r"^device: cuda:1 needs more GPUs than torch sees, got 1$"):
        DeviceMemory.named("cuda:1")
