"""What only a GPU can do wrong: which of several, its streams and memory, and what the host sees meanwhile.

Run on a GPU, and by ``pytest --cuda-emulation`` without one.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import emulation
import numpy as np
import pytest
import yaml
from hydra.utils import instantiate

from topoflow import _C
from topoflow.engine import bound, fluid
from topoflow.engine.base import Fidelity, Run, Timeline, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid
from topoflow.engine.fluid.batch import pieces

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

EMULATED = "TOPOFLOW_EMULATED" in os.environ
FIRST_STACK = 1700  # B, of every emulated kernel (cuda_emulation.h)
ROUND_OF_CALLS = 1160  # B, by -Xptxas=-v of nvcc 13.0 for sm_90
CONFIGS = sorted((Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs" / "fidelity").glob("*.yaml"))
EVERY = pytest.mark.parametrize("fidelity", [path.stem for path in CONFIGS])


@pytest.fixture(autouse=True)
def gpus() -> int:
    """How many there are."""
    if not (_C.has_cuda and torch.cuda.is_available()):
        pytest.skip("needs a GPU and topoflow._C built with nvcc")
    count: int = torch.cuda.device_count()
    return count


def named(name: str) -> Fidelity:
    fidelity: Fidelity = instantiate(yaml.safe_load((CONFIGS[0].parent / f"{name}.yaml").read_text()))
    return fidelity


@pytest.fixture(scope="module")
def worlds(make_world: Callable[..., World]) -> list[World]:
    """Eleven of three graphs."""
    random = np.random.default_rng(0)

    def task(number: int) -> dict[str, Any]:
        after = [number - 2] if number > 1 else []
        return {"path": random.permutation(4)[:2].tolist(), "bytes": 1e5 * random.random(), "after": after}

    originals = [
        make_world([task(number) for number in range(tasks)], 1e9 * (1 + random.random(4)), [1e-6] * 4)
        for tasks in (3, 7, 5)
    ]
    return [
        replace(originals[k % 3], name=f"world {k}", capacity=originals[k % 3].capacity * (1 + 0.1 * (k // 3)))
        for k in range(11)
    ]


def accepted(name: str, worlds: list[World]) -> Fidelity:
    """The fidelity; skips a test of worlds that it refuses."""
    fidelity = named(name)
    for refusal in filter(None, map(fidelity.refuses, worlds)):
        pytest.skip(refusal)
    return fidelity


def digests(timelines: list[Timeline]) -> list[tuple[str, bytes, bytes]]:
    return [(timeline.name, timeline.start.tobytes(), timeline.finish.tobytes()) for timeline in timelines]


@dataclass(frozen=True)
class Call:
    """Of a kernel."""

    kernel: str
    gpu: int
    stream: int


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """All that follow."""
    launches: list[Call] = []

    def listening(arrays: dict[str, Any], *arguments: Any, name: str, kernel: Any, array: str, position: int) -> Any:
        if isinstance(arrays[array], torch.Tensor):  # the host computes times of bound when they are read
            launches.append(Call(name, arrays[array].device.index, arguments[position]))
        return kernel(arrays, *arguments)

    for name, array, position in (("simulate", "order", 1), ("bound", "makespan", 1), ("packets", "order", 2)):
        call = partial(listening, name=name, kernel=getattr(_C, name), array=array, position=position)
        monkeypatch.setattr(_C, name, call)
    return launches


@EVERY
def test_every_gpu_several_and_pieces_of_a_batch_give_the_same_bytes(
    fidelity: str, worlds: list[World], gpus: int, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = accepted(fidelity, worlds)
    of_one = digests(model.simulate(worlds, Run(DeviceMemory.named("cuda"))))
    launches = len(calls)  # none where the fidelity runs on the CPU
    for on_host, on_gpu in zip(model.simulate(worlds), of_one, strict=True):
        np.testing.assert_allclose(np.frombuffer(on_gpu[2]), on_host.finish, rtol=1e-9)
    for device in ["cuda:0", "cuda:1", "cuda:0,cuda:1", "cuda:1,cuda:0"][: 1 if gpus < 2 else 4]:
        calls.clear()
        before = torch.cuda.current_device()
        assert digests(model.simulate(worlds, Run(DeviceMemory.named(device)))) == of_one
        assert torch.cuda.current_device() == before
        if launches:
            assert {f"cuda:{call.gpu}" for call in calls} == {*device.split(",")}
            assert len(calls) == launches or "," in device
    monkeypatch.setattr(DeviceMemory, "memory", 100)
    monkeypatch.setattr("topoflow.engine.device.PINNED_ABOVE", 1)
    pin, pinned = torch.Tensor.pin_memory, []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda array: pinned.append(array.dtype) or pin(array))
    calls.clear()
    assert digests(model.simulate(worlds, Run(DeviceMemory.named("cuda")))) == of_one
    assert (len(calls) > launches and torch.float64 in pinned) or not launches


def test_the_next_piece_is_copied_while_a_kernel_runs(
    worlds: list[World], calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a kernel but the last ends only once the next piece has been copied."""
    monkeypatch.setattr(DeviceMemory, "memory", 1000)
    count = len(list(pieces(worlds, 1000)))
    kernel, put, copied, changed = _C.simulate, DeviceMemory.put, [], threading.Condition()

    def waiting(arrays: dict[str, Any], *arguments: Any) -> Any:
        with changed:
            number = [array is arrays["capacity"] for array in copied].index(True)
            assert changed.wait_for(lambda: len(copied) > min(number + 1, count - 1), timeout=60)
        return kernel(arrays, *arguments)

    def copying(device: DeviceMemory, arrays: dict[str, Any]) -> dict[str, Any]:
        on_device = put(device, arrays)
        with changed:
            copied.extend([on_device["capacity"]] if "capacity" in on_device else [])
            changed.notify_all()
        return on_device

    monkeypatch.setattr(_C, "simulate", waiting)
    monkeypatch.setattr(DeviceMemory, "put", copying)
    assert count > 4
    Fluid().simulate(worlds, Run(DeviceMemory.named("cuda")))
    assert len({call.stream for call in calls}) == 2
    assert torch.cuda.current_stream().cuda_stream in {call.stream for call in calls}


def test_of_several_pieces_with_an_error_that_of_the_first_is_raised(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the kernel of the first piece ends last."""
    monkeypatch.setattr(DeviceMemory, "memory", 1)  # a world is a piece
    dead = [replace(world, capacity=world.capacity * 0) for world in worlds]
    kernel, others = _C.simulate, threading.Semaphore(0)
    first = dead[0].graph.tasks

    def waiting(arrays: dict[str, Any], *arguments: Any) -> Any:
        if len(arrays["start"]) == first:
            assert others.acquire(timeout=60)
            return kernel(arrays, *arguments)
        result = kernel(arrays, *arguments)
        others.release()
        return result

    monkeypatch.setattr(_C, "simulate", waiting)
    with pytest.raises(ValueError, match=r"^world 0: every flow must get bandwidth, got none for task 0$"):
        Fluid().simulate(dead[:2], Run(DeviceMemory.named("cuda")))


@EVERY
def test_a_second_launch_needs_no_new_memory(fidelity: str, worlds: list[World]) -> None:
    run, model = Run(DeviceMemory.named("cuda")), accepted(fidelity, worlds)
    needed = []
    for _ in range(3):
        model.simulate(worlds, run)
        needed.append(torch.cuda.memory_stats()["num_device_alloc"])
    assert needed[1] == needed[2]


def long_world(make_world: Callable[..., World], fidelity: str) -> World:
    """Minutes of work for a GPU."""
    if fidelity == "packet":  # up to a given time, so that no periods are skipped
        return replace(make_world([{"path": [0, 1], "bytes": 1e11}], [1e9, 1e9], name="long"), until=1e3)
    flows = 4_000 if EMULATED else 40_000
    tasks = [{"path": [i % 50, 50 + i % 49], "bytes": 1e6 + i} for i in range(flows)]
    return make_world(tasks, [1e9] * 99, name="long")


@pytest.mark.parametrize("fidelity", ["fluid", "packet"])
def test_a_world_that_has_ended_is_seen_while_another_runs_and_what_is_raised_then_stops_that(
    fidelity: str, make_world: Callable[..., World], watching: Any
) -> None:
    world = long_world(make_world, fidelity)

    def stop() -> None:
        if watching.advances[-1] == (1, 2):
            raise KeyboardInterrupt

    watching.then = stop
    with pytest.raises(KeyboardInterrupt):
        named(fidelity).simulate([replace(world, until=0.0), world], Run(DeviceMemory.named("cuda"), observer=watching))


def test_arrays_come_by_dlpack_on_the_callers_stream(make_world: Callable[..., World], calls: list[Call]) -> None:
    graph = make_world([{"path": [0], "bytes": 10.0}], [1.0]).graph
    streams: list[int] = []

    class Foreign:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, *, stream: int | None = None, **options: object) -> object:
            streams.append(stream or 0)
            return self.tensor.__dlpack__(stream=stream, **options)

        def __dlpack_device__(self) -> tuple[int, int]:
            dlpack_device: tuple[int, int] = self.tensor.__dlpack_device__()
            return dlpack_device

    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            capacity = torch.full((3, 1), 5.0, dtype=torch.float64, device="cuda")
            makespans = fluid.sweep(graph, Foreign(capacity)).makespan, bound.makespans(graph, Foreign(capacity))
            assert makespans[0].tolist() == makespans[1].tolist() == [2.0, 2.0, 2.0]
        assert streams == [stream.cuda_stream] * 2
        assert [call.stream for call in calls] == [stream.cuda_stream] * 2
        streams.clear()
        calls.clear()


@pytest.mark.skipif(
    not EMULATED, reason="a real GPU has too much memory to fill, and may be shared: the emulated one is made small"
)
@EVERY
def test_a_batch_that_the_memory_does_not_hold_is_cut(
    fidelity: str, worlds: list[World], calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = accepted(fidelity, worlds)
    expected = digests(model.simulate(worlds, Run(DeviceMemory.named("cuda"))))
    if not calls:
        pytest.skip(f"{fidelity} runs on the CPU")
    many = [replace(world, name=f"{world.name} {k}") for k in range(20) for world in worlds]
    monkeypatch.setattr(DeviceMemory, "memory", 2**12)  # of a launch's state
    for cut in CUTS:  # of all: a fidelity may hand worlds to others
        monkeypatch.setattr(f"topoflow.engine.{cut}", whole)
    calls.clear()
    # a world of packets has 8 KiB of latencies, and as many of a period
    monkeypatch.setenv("CUDA_EMULATION_MEMORY", str(2**16 if fidelity == "packet" else 2**15))
    results = digests(model.simulate(many, Run(DeviceMemory.named("cuda"))))
    assert [digest[1:] for digest in results] == [digest[1:] for digest in expected] * 20
    assert len(calls) > 1
    monkeypatch.setenv("CUDA_EMULATION_MEMORY", "100")
    with pytest.raises(ValueError, match=r"^world \d+ 0: must fit in the memory of cuda:0, got CUDA out of memory"):
        model.simulate(many, Run(DeviceMemory.named("cuda")))


CUTS = ("fluid.pieces", "bound.cut_by_memory", "packet.cut_by_memory", "slotted.cut_by_memory")


def whole(worlds: Sequence[Any], memory: int, needed: object = None) -> Iterator[Sequence[Any]]:
    yield worlds


FAULT = """
import numpy as np
import torch
from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid

nothing = np.zeros(1)
graph = LoweredGraph(
    delay=nothing, bytes=nothing + 8, release=nothing, path=np.zeros(1, np.int32), after_offsets=np.zeros(2, np.int64),
    after=np.zeros(0, np.int32), path_offsets=np.array([0, 1]), path_links=np.zeros(1, np.int32),
    owner=np.zeros(1, np.int32), owners=1, links=1,
)
worlds = [World(name, graph, nothing + 4, nothing) for name in ("first", "second")]
put = DeviceMemory.put

def broken(device, arrays):
    found = put(device, arrays)
    if "path_links" in found:
        found["path_links"] += 2**30  # a link that no world has
    return found

DeviceMemory.put = broken
try:
    Fluid().simulate(worlds, Run(DeviceMemory.named("cuda")))
except ValueError as error:
    print(error)
try:
    DeviceMemory.named("cuda")
except ValueError as error:
    print(error)
print([timeline.makespan for timeline in Fluid().simulate(worlds)])
"""


def test_a_fault_names_the_worlds_and_leaves_the_cpu(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FAULT], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("cuda:0: must run first"), done.stdout + done.stderr
    assert " without a fault, got " in lines[0]
    assert lines[1].startswith("device: cuda needs a process in which no kernel has failed, got ")
    assert lines[2:] == ["[2.0, 2.0]"]


@pytest.mark.skipif(not EMULATED, reason="a real GPU has one architecture: the emulated one is set to sm_75")
def test_a_gpu_that_is_too_old_is_refused_with_those_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_EMULATION_ARCHITECTURE", "75")
    message = "needs a GPU that topoflow._C is built for, sm_90, got sm_75; run `CUDAARCHS=75 pip install .`"
    for name in ("cuda", "cuda:1"):
        with pytest.raises(ValueError, match=f"^device: {name} {re.escape(message)}$"):
            DeviceMemory.named(name)
    assert DeviceMemory.named("auto") == DeviceMemory()


@pytest.mark.skipif(not EMULATED, reason="a real GPU does not say what its threads have")
def test_packets_that_ask_no_router_have_stack_for_a_round_of_calls_too(worlds: Sequence[World]) -> None:
    """A launch on a real GPU ran past the end of its 1,024 B: functions that may call themselves are in no count."""
    emulated = emulation.library()
    emulated.emulation_stack.restype = ctypes.c_size_t
    emulated.emulation_set_stack(ctypes.c_size_t(1024))
    named("packet").simulate(worlds[:1], Run(DeviceMemory.named("cuda")))
    assert emulated.emulation_stack() >= FIRST_STACK + ROUND_OF_CALLS
