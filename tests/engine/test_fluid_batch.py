"""Batches: ragged, cut into pieces, on any number of threads, stopped half-way; and worlds that are refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine import fluid
from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid
from topoflow.engine.fluid.batch import pack, pieces

WORLDS = 6 if "TOPOFLOW_EMULATED" in os.environ else 60  # an emulated GPU takes a second for 6 of them


def random_world(seed: int) -> World:
    random = np.random.default_rng(seed)
    tasks, links = int(random.integers(1, 200)), int(random.integers(1, 12))
    paths = [random.permutation(links)[: random.integers(1, 4)] for _ in range(tasks)]
    after = [random.integers(0, task, min(task, int(random.integers(0, 3)))) for task in range(tasks)]
    graph = LoweredGraph(
        delay=random.choice([0.0, 1e-6], tasks),
        bytes=random.random(tasks) * 1e6,
        release=random.random(tasks) * 1e-3,
        path=np.arange(tasks, dtype=np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, paths)]),
        path_links=np.concatenate(paths).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
    )
    return World(f"world {seed}", graph, random.random(links) * 1e10 + 1e8, random.random(links) * 1e-6)


def digest() -> str:
    timelines = Fluid().simulate([random_world(seed) for seed in range(60)])
    return hashlib.sha256(finishes(timelines).tobytes()).hexdigest()


@pytest.fixture(scope="module")
def batch():
    return [random_world(seed) for seed in range(WORLDS)]


def finishes(timelines):
    return np.concatenate([timeline.finish for timeline in timelines])


def test_the_number_of_threads_does_not_change_a_bit(tmp_path):
    command = [sys.executable, "-c", f"import runpy; print(runpy.run_path({__file__!r})['digest']())"]

    def run(threads: int) -> str:
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        ).stdout

    assert run(1) == run(2) == run(5) == f"{digest()}\n"


def test_threads_and_the_order_of_the_worlds_do_not_change_a_bit_either(batch):
    one, two = (Fluid().simulate(batch, Run(threads=threads)) for threads in (1, 2))
    assert finishes(one).tobytes() == finishes(two).tobytes()
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = Fluid().simulate([batch[index] for index in order], Run(threads=2))
    assert finishes(shuffled).tobytes() == finishes([one[index] for index in order]).tobytes()


@pytest.mark.parametrize("memory", [1, 20_000, 10**6])
def test_a_batch_cut_into_pieces_gives_the_same_answer(batch, memory, device, monkeypatch):
    uncut = Fluid().simulate(batch, Run(DeviceMemory.named(device)))
    monkeypatch.setattr(DeviceMemory, "memory", memory)
    cut = Fluid().simulate(batch, Run(DeviceMemory.named(device)))
    assert [timeline.name for timeline in cut] == [world.name for world in batch]
    assert np.array_equal(finishes(cut), finishes(uncut))


def test_pieces_keep_every_world_once_and_in_order(batch):
    for memory in (1, 20_000, 10**6, 10**9):
        cut = list(pieces(batch, memory))
        assert [world.name for piece in cut for world in piece] == [world.name for world in batch]
    assert len(list(pieces(batch, 1))) == len(batch)
    assert len(list(pieces(batch, 10**9))) == 1


def test_equal_graphs_are_stored_once(batch):
    # The same object, an equal copy, and the copy with other links: one graph. Another graph: a second one.
    copied = replace(batch[0].graph, delay=batch[0].graph.delay.copy())
    sweep = [batch[0], replace(batch[0], graph=copied), replace(batch[0], capacity=batch[0].capacity * 2), batch[1]]
    packed = pack(sweep)
    assert packed.graph_of == (0, 0, 0, 1)
    assert len(packed.arrays["delay"]) == batch[0].graph.tasks + batch[1].graph.tasks


def test_worlds_that_share_a_graph_run_on_their_own_links(batch, device):
    sweep = [replace(batch[0], capacity=batch[0].capacity * k) for k in (1, 2, 4)]
    alone = [Fluid().simulate([world], Run(DeviceMemory.named(device)))[0].finish for world in sweep]
    assert np.array_equal(finishes(Fluid().simulate(sweep, Run(DeviceMemory.named(device)))), np.concatenate(alone))


def test_inputs_that_cannot_be_written_to_are_fine(batch, device):
    frozen = replace(batch[0].graph, delay=batch[0].graph.delay.copy())
    frozen.delay.setflags(write=False)
    timeline = Fluid().simulate([replace(batch[0], graph=frozen)], Run(DeviceMemory.named(device)))[0]
    assert np.array_equal(timeline.finish, Fluid().simulate([batch[0]], Run(DeviceMemory.named(device)))[0].finish)


def test_no_worlds_give_no_timelines(device):
    assert Fluid().simulate([], Run(DeviceMemory.named(device))) == []


def test_progress_ends_with_all_worlds_done(batch, device, monkeypatch, watching):
    monkeypatch.setattr(DeviceMemory, "memory", 20_000)
    fluid.Fluid().simulate(batch, Run(DeviceMemory.named(device), observer=watching))
    assert watching.advances == sorted(watching.advances)
    assert watching.advances[-1] == (len(batch), len(batch))


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from topoflow.engine import fluid
from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.observer import Silent

signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal; tests in the background ignore it
flows = int(sys.argv[2])  # of which each ends by itself: minutes of work
paths = np.stack([np.arange(flows) % 50, 50 + np.arange(flows) % 49], 1)
graph = LoweredGraph(
    delay=np.zeros(flows), bytes=1e6 + np.arange(flows), release=np.zeros(flows), path=np.arange(flows, dtype=np.int32),
    after_offsets=np.zeros(flows + 1, np.int64), after=np.zeros(0, np.int32),
    path_offsets=2 * np.arange(flows + 1), path_links=paths.ravel().astype(np.int32),
    owner=np.arange(flows, dtype=np.int32), owners=flows, links=99,
)
timers, asked = [], []

def interrupt():
    asked.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

class Interrupting(Silent):
    def advance(self, done, total):  # first called when the kernel has begun, which continues when this returns
        if not timers:
            timers.append(threading.Timer(0.01, interrupt))
            timers[0].start()

try:
    worlds = [World("long", graph, np.full(99, 1e9), np.zeros(99))] * 100
    fluid.Fluid().simulate(worlds, Run(DeviceMemory.named(sys.argv[1]), threads=1, observer=Interrupting()))
except KeyboardInterrupt:
    print(time.process_time() - asked[0])
"""


def test_ctrl_c_is_heard_within_a_second_of_computing(tmp_path, device):
    # Processor time: how long a busy machine lets a process wait is not the kernel's doing.
    emulated = device == "cuda" and "TOPOFLOW_EMULATED" in os.environ
    command = [sys.executable, "-c", INTERRUPTED, device, "3000" if emulated else "40000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < (20 if emulated else 1)  # to its end it would take hours


def test_an_error_while_it_runs_stops_it_too(make_world, watching):
    tasks = [{"path": [i % 50, 50 + i % 49], "bytes": 1e6 + i} for i in range(40_000)]

    def stop() -> None:
        raise KeyboardInterrupt

    watching.then = stop

    with pytest.raises(KeyboardInterrupt):
        fluid.Fluid().simulate([make_world(tasks, [1e9] * 99)] * 100, Run(observer=watching))


def test_all_unfinished_worlds_are_named(make_world, device):
    def dead(name):
        return make_world([{"path": [0], "bytes": 1}], [0], name=name)

    with pytest.raises(ValueError, match=r"^dead a: .*; dead b: .* got none for task 0$"):
        Fluid().simulate(
            [dead("dead a"), make_world([{}], [], name="fine"), dead("dead b")], Run(DeviceMemory.named(device))
        )


def test_an_unknown_device_is_refused(batch):
    with pytest.raises(ValueError, match="device: must be one of auto, cpu, cuda, cuda:N, got 'tpu'"):
        Fluid().simulate(batch, Run(DeviceMemory.named("tpu")))


def test_cuda_without_a_gpu_is_an_error_that_says_so(batch):
    torch = pytest.importorskip("torch")
    if _C.has_cuda and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="device: "):
        Fluid().simulate(batch, Run(DeviceMemory.named("cuda")))
