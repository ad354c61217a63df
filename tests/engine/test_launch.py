"""What a launch makes of a device that fails, and of memory that is not enough, whatever the device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine.base import Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid

torch = pytest.importorskip("torch")
FAKE = DeviceMemory(torch.device("cpu"))  # runs the code of a GPU but for streams and pinned memory


@pytest.fixture
def worlds(make_world: Callable[..., World]) -> list[World]:
    world = make_world([{"path": [0], "bytes": 10}, {"path": [0, 1], "bytes": 20, "after": [0]}], [3.0, 7.0])
    return [replace(world, name=f"world {k}", capacity=world.capacity * k) for k in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize("device", [DeviceMemory(), FAKE], ids=["numpy", "torch"])
def test_a_fault_names_the_worlds_that_ran_and_the_next_run_works(
    device: DeviceMemory, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = _C.simulate

    def fault(arrays: dict[str, Any], *arguments: Any) -> int:
        status = np.asarray(arrays["status"])
        status[:] = [_C.DONE, _C.RUNNING, _C.PENDING, _C.RUNNING, _C.DONE]
        raise _C.Fault("an illegal memory access was encountered")

    monkeypatch.setattr(_C, "simulate", fault)
    message = "must run world 2, world 4 without a fault, got an illegal memory access was encountered$"
    with pytest.raises(ValueError, match=message):
        Fluid().simulate(worlds, Run(device))
    monkeypatch.setattr(_C, "simulate", kernel)
    assert Fluid().simulate(worlds, Run())[0].makespan == pytest.approx(10)


def with_room_for(tasks: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A device whose memory holds no more than this many tasks' answers; the size of each array that was asked for."""
    zeros, sizes = DeviceMemory.zeros, []

    def limited(device: DeviceMemory, *shape: int, dtype: str = "float64") -> Any:
        sizes.append(int(np.prod(shape)))
        if device.torch is not None and sizes[-1] > tasks:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {8 * sizes[-1]} bytes")
        return zeros(device, *shape, dtype=dtype)

    monkeypatch.setattr(DeviceMemory, "zeros", limited)
    return sizes


@pytest.mark.parametrize("fidelity", [Fluid(), Bound()], ids=repr)
def test_a_batch_that_the_memory_does_not_hold_is_cut(
    fidelity: Any, worlds: list[World], monkeypatch: pytest.MonkeyPatch, watching: Any
) -> None:
    expected = fidelity.simulate(worlds)
    sizes = with_room_for(4, monkeypatch)
    timelines = fidelity.simulate(worlds, Run(FAKE, observer=watching))
    assert max(sizes) > 4
    for ours, theirs in zip(timelines, expected, strict=True):
        assert ours.name == theirs.name
        assert ours.finish.tobytes() == theirs.finish.tobytes()
    done = [count for count, _ in watching.advances]
    assert done == sorted(done)
    assert watching.advances[-1] == (5, 5)


@pytest.mark.parametrize(("fidelity", "room"), [(Fluid(), 1), (Bound(), 0)], ids=["fluid", "bound"])
def test_a_world_that_is_too_large_for_the_device_is_named(
    fidelity: Any, room: int, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_room_for(room, monkeypatch)
    with pytest.raises(ValueError, match=r"^world 1: must fit in the memory of cpu, got CUDA out of memory\. Tried"):
        fidelity.simulate(worlds, Run(FAKE))


THREADS = """
import os, sys
import numpy as np
from topoflow import _C
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.bound import Bound
from topoflow.engine.fluid import Fluid
from topoflow.engine.packet import Packet

def threads():
    return len(os.listdir("/proc/self/task"))

kernels = {"fluid": ("simulate", Fluid()), "bound": ("bound", Bound()), "packet": ("packets", Packet())}
name, fidelity = kernels[sys.argv[1]]
kernel = getattr(_C, name)

def counted(*given):
    before = threads()
    kernel(*given)
    print(threads() - before)

setattr(_C, name, counted)
one = np.zeros(1, np.int32)
graph = LoweredGraph(
    delay=np.zeros(1), bytes=np.full(1, 10.0), release=np.zeros(1), path=one, after_offsets=np.zeros(2, np.int64),
    after=one[:0], path_offsets=np.array([0, 1]), path_links=one, owner=one, owners=1, links=1,
)
fidelity.simulate([World(str(number), graph, np.ones(1), np.zeros(1)) for number in range(64)])
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux: it lists a process's threads there")
@pytest.mark.parametrize("fidelity", ["fluid", "bound", "packet"])
def test_few_small_worlds_run_on_all_cores(fidelity: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", THREADS, fidelity]
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert (done.stdout, done.stderr) == ("2\n", "")
