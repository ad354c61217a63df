"""Work in chunks: every item is answered once, with the same bytes for any executor, whatever its workers do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topoflow.engine.executor.base as executors
from topoflow.engine.base import Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.executor.base import MAX_LOSSES, ItemFunction, Workers, do_all
from topoflow.engine.executor.processes import Processes
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.observer import Silent
from topoflow.engine.packet import Packet
from topoflow.engine.simulation import simulate
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ocs_reconfig import OcsReconfig
from topoflow.fabric.ring import Ring
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer

JOB = Traffic.from_tasks(
    "job",
    4,
    [
        Compute(0.5, 0),
        Transfer(300.0, 0, 2, (0,)),
        Transfer(9.0, 1, 3),
        Collective("all_reduce", 80.0, (0, 1, 2, 3), (1,)),
    ],
)


@dataclass(frozen=True)
class Squaring(ItemFunction[int, int]):
    """Squares of numbers. More than ``most`` at once do not fit in memory; numbers from ``wrong`` on are wrong."""

    most: int = 1000
    wrong: int = 1000
    is_batch = True

    def name(self, item: int) -> str:
        return f"number {item}"

    def weight(self, item: int) -> float:
        return 1.0 + item % 3

    def do(self, items: Sequence[int], run: Run) -> list[int]:
        if len(items) > self.most:
            raise MemoryError("to square them")
        for item in items:
            if item >= self.wrong:
                raise ValueError(f"number {item}: must be less than {self.wrong}, got {item}")
        return [item * item for item in items]


class Inline(Executor):
    """An executor that runs a call when it is submitted, and loses the calls that ``losses`` says, the last first."""

    def __init__(self, losses: Sequence[bool], workers: int) -> None:
        self.losses, self._max_workers = [*losses], workers
        self.chunks: list[Sequence[int]] = []
        self.is_stopped = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.chunks.append(args[1])
        try:
            if self.losses and self.losses.pop():
                raise BrokenExecutor("it was killed")
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.is_stopped = True


@given(st.lists(st.booleans(), max_size=3), st.integers(0, 30), st.integers(1, 4), st.sampled_from([2, 1000]))
def test_every_item_is_answered_once_whichever_workers_are_lost(
    losses: list[bool], count: int, workers: int, most: int
) -> None:
    executor = Inline(losses, workers)
    answers = list(do_all(Squaring(most), range(count), Run(workers=Workers(executor))))
    assert sorted(answers) == [(number, number**2) for number in range(count)]
    if most == 1000 and not any(losses):
        assert sorted(item for chunk in executor.chunks for item in chunk) == [*range(count)]  # none is done twice


def test_a_chunk_that_no_worker_has_memory_for_is_halved_until_one_has() -> None:
    executor = Inline([], 1)
    workers = Workers(executor, shortest_chunk=1e9)
    assert len(list(do_all(Squaring(2), range(200), Run(workers=workers)))) == 200
    assert max(map(len, executor.chunks)) > 2 * 2**MAX_LOSSES  # which as many halvings leave above the 2 that fit


@pytest.mark.parametrize(("shortest", "chunks"), [(1e9, [1, 8, 7]), (0.0, [1] * 16)])
def test_a_chunk_takes_as_long_as_its_start_is_worth(shortest: float, chunks: list[int]) -> None:
    """One item first, then up to eight times as many, once it is known that they take no longer than that."""

    @dataclass(frozen=True)
    class Alike(Squaring):
        def weight(self, item: int) -> float:
            return 1.0

    executor = Inline([], 1)
    assert len(list(do_all(Alike(), range(16), Run(workers=Workers(executor, shortest_chunk=shortest))))) == 16
    assert [len(chunk) for chunk in executor.chunks] == chunks


@given(st.integers(1, 6), st.integers(0, 19))
def test_the_error_of_the_first_wrong_item_is_raised(workers: int, wrong: int) -> None:
    with ThreadPoolExecutor(workers) as executor:
        answers = do_all(Squaring(wrong=wrong), range(20), Run(workers=Workers(executor)))
        with pytest.raises(ValueError, match=f"^number {wrong}: must be less than {wrong}, got {wrong}$"):
            list(answers)


def test_an_item_that_loses_its_worker_again_and_again_is_named_in_one_line() -> None:
    message = r"^executor: number 0 has lost its worker 4 times, the last time by BrokenExecutor: it was killed$"
    executor = Inline([True] * 99, 1)
    with pytest.raises(ValueError, match=message):
        list(do_all(Squaring(), [0], Run(workers=Workers(executor))))
    assert len(executor.chunks) == MAX_LOSSES + 1
    message = r"^executor: number 1 has lost .* by MemoryError: to square them$"
    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match=message):
        list(do_all(Squaring(most=0), [1], Run(workers=Workers(threads))))


def test_an_executor_that_is_broken_for_good_is_named_in_one_line() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(ValueError, match=r"^executor: ThreadPoolExecutor takes no work: RuntimeError: cannot .*$"):
        list(do_all(Squaring(), [3], Run(workers=Workers(executor))))


def test_a_fault_of_the_program_comes_with_its_traceback() -> None:
    @dataclass(frozen=True)
    class Faulty(Squaring):
        def do(self, items: Sequence[int], run: Run) -> list[int]:
            raise KeyError("no such key")

    with ThreadPoolExecutor(1) as executor, pytest.raises(RuntimeError, match=r"(?s)Traceback.*in do.*no such key"):
        list(do_all(Faulty(), [3], Run(workers=Workers(executor))))


def test_a_caller_that_stops_early_stops_only_an_executor_that_was_opened_for_it() -> None:
    for is_opened_here in (True, False):
        executor = Inline([], 2)
        workers = Workers((lambda executor=executor: executor) if is_opened_here else executor)
        answers = do_all(Squaring(), range(9), Run(workers=workers))
        next(answers)
        answers.close()  # as Ctrl-C does
        assert executor.is_stopped == is_opened_here


def test_progress_counts_items_of_all_workers_and_never_falls(watching: Any) -> None:
    with ThreadPoolExecutor(3) as executor:
        list(do_all(Squaring(), range(9), Run(observer=watching, workers=Workers(executor))))
    done = [done for done, _ in watching.advances]
    assert done == sorted(done)
    assert done[-1] == 9
    assert {total for _, total in watching.advances} == {9}


def test_a_worker_with_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(["ours", "theirs"])
    monkeypatch.setattr(executors, "sources", lambda: next(versions))
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ValueError, match=r"executor: \S+ has another version of top"),
    ):
        list(do_all(Squaring(), [3], Run(workers=Workers(executor))))


def worlds() -> list[tuple[World, Any]]:
    """Worlds of one job in fidelities whose timelines have other parts."""
    fat_tree = place(JOB, FatTree(100.0, 2, 0.01).build(4, JOB.demand()), name="fat_tree")
    ring = place(JOB, Ring(100.0, 2, 0.01).build(4, JOB.demand()), name="ring")
    design = OcsReconfig(
        bandwidth=100.0, degree=2, latency=0.01, interval=0.5, pause=0.1, forwarding=True, discount=0.5, paths=2
    )
    circuits = place(JOB, design.build(4, JOB.demand()), name="circuits", rings="flows")
    return [(fat_tree, Fluid()), (ring, Fluid()), (ring, Bound()), (circuits, Fluid()), (fat_tree, Packet())]


def same(one: Any, other: Any) -> bool:
    if is_dataclass(one):
        assert type(one) is type(other)
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one) if field.compare)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, list):
        return all(map(same, one, other))
    return callable(one) or bool(one == other)


@pytest.mark.parametrize(
    "open_",
    [lambda: ThreadPoolExecutor(3), lambda: ProcessPoolExecutor(1), Processes(2).workers("cpu", 1, None).source],
)
def test_timelines_have_the_same_bytes_for_any_executor(open_: Callable[[], Executor]) -> None:
    """Also with packets, and where circuits change, so that a timeline has a world of its own."""
    with open_() as executor:
        for world, fidelity in worlds():
            (local,) = simulate([world], fidelity)
            (remote,) = simulate([world], fidelity, Run(workers=Workers(executor)))
            assert same(local, remote), world.name
            assert same([local.start, local.finish], [remote.start, remote.finish]), world.name


def test_a_process_that_is_killed_changes_no_byte() -> None:
    """``kill -9`` of a process breaks the whole pool, in the middle of the work."""
    opened: list[Executor] = []

    def open_() -> Executor:
        opened.append(Processes(2).workers("cpu", 1, None).source())
        return opened[-1]

    class Killer(Silent):
        def advance(self, done: int, total: int) -> None:
            if done and len(opened) == 1:
                os.kill(active_children()[0].pid or 0, signal.SIGKILL)

    before = active_children()
    assert not before, "the test kills a process of its own"
    world, fidelity = worlds()[0]
    batch = [world] * 40
    local = simulate(batch, fidelity)
    remote = simulate(batch, fidelity, Run(observer=Killer(), workers=Workers(open_, shortest_chunk=0.0)))
    assert len(opened) == 2
    assert all(map(same, local, remote))


def workers_of(process: int) -> list[int]:
    """Return the worker processes that ignore Ctrl-C, as they do once they have begun."""
    folders = [Path("/proc", child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    spawned = [folder for folder in folders if b"spawn_main" in (folder / "cmdline").read_bytes()]
    ignored = [re.findall(r"SigIgn:\s*(\w+)", (folder / "status").read_text())[0] for folder in spawned]
    return [int(folder.name) for folder, mask in zip(spawned, ignored, strict=True) if int(mask, 16) & 2]


SCRIPT = """
import signal
from topoflow.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, wherever the tests run
if __name__ == "__main__":
    job = ["servers=256", "fabric=fat_tree", "bandwidth_gbps=range(1,100)"]
    raise SystemExit(main(["compare", *job, "executor=processes", "executor.count=2"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_worker_processes_end_with_the_command(end: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while len(workers := workers_of(command.pid)) < 2:
        assert command.poll() is None, command.communicate()
        time.sleep(0.05)
    command.send_signal(end)
    _, errors = command.communicate()
    assert command.returncode != 0
    assert "Traceback" not in errors
    while any(Path(f"/proc/{worker}/cwd").exists() for worker in workers):  # they end, or the test times out
        time.sleep(0.05)
