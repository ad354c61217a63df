"""Work in pieces: every item is answered once, whatever workers do; what is kept is what was found."""

from __future__ import annotations

import errno
import pickle
import re
import sys
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from hypothesis.extra.numpy import arrays as arrays_of

from topoflow.engine.base import Run, World
from topoflow.engine.executor.answers import LONG, joined, keys_of, parted, read, write
from topoflow.engine.executor.kept import Kept
from topoflow.engine.executor.local import Local
from topoflow.engine.executor.ray import Ray
from topoflow.engine.executor.remote import Remote
from topoflow.engine.executor.worker import Answered, Call, Ended, Event, events, version
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.observer import Silent
from topoflow.engine.packet import Packet
from topoflow.engine.simulation import NAMES, Simulating, simulate
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ocs_reconfig import OcsReconfig
from topoflow.fabric.ring import Ring
from topoflow.study.configure.grid import grid, run_of
from topoflow.study.configure.keys import check
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
class Squaring:
    """Squares of numbers. A piece of more than ``most`` has no memory; number ``wrong`` and those after are refused."""

    most: int = 1000
    wrong: int = 1000
    is_batch = True

    def keys(self, items: Sequence[int]) -> list[str | None]:
        return [f"{item:064x}" for item in items]

    def weight(self, item: int) -> float:
        return 1.0 + item % 3

    def name(self, item: int) -> str:
        return f"number {item}"

    def do(self, items: Sequence[int], run: Run) -> list[np.ndarray]:
        if len(items) > self.most:
            raise MemoryError("to square them")
        for item in items:
            if item >= self.wrong:
                raise ValueError(f"number {item}: must be less than {self.wrong}, got {item}")
        run.observer.advance(len(items), len(items))
        return [np.array([item * item]) for item in items]

    def pack(self, item: int, answer: np.ndarray) -> dict[str, np.ndarray]:
        return {"square": answer}

    def unpack(self, item: int, arrays: Any) -> np.ndarray:
        found: np.ndarray = arrays["square"]
        return found


@dataclass
class Workers:
    """A cluster and its pool in this process. Each draw says which piece that is busy goes on, and whether it ends."""

    draws: list[tuple[int, bool]] = field(default_factory=list)  # then: the first, and it lives
    count: int = 3
    seconds: float = 1e-4
    least_seconds: float = 0.5
    retries: int = 100
    is_prompt: bool = True
    busy: dict[int, bytes] = field(default_factory=dict)
    begun: int = 0
    asked: list[Any] = field(default_factory=list)  # items of all pieces
    cancelled: bool = False

    def threads(self, asked: int | None) -> int:
        return asked or 1

    def pool(self, device: str, folder: Path | None) -> Workers:
        return self

    def workers(self) -> int:
        return self.count

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        assert len(self.busy) < self.count
        self.begun += 1
        self.busy[self.begun] = payload
        self.asked += pickle.loads(payload).items
        return self.begun

    def wait(self, seconds: float) -> list[tuple[Hashable, Event]]:
        which, ends = self.draws.pop() if self.draws else (0, False)
        handle = [*self.busy][which % len(self.busy)]
        payload = self.busy.pop(handle)
        if ends:
            return [(handle, Ended("it was killed"))]
        return [(handle, event) for event in events(payload, version())]

    def cancel(self) -> None:
        self.cancelled = True
        self.busy.clear()


DRAWS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40)


@given(DRAWS, st.integers(0, 30), st.integers(1, 4), st.booleans(), st.sampled_from([2, 1000]))
def test_every_item_is_answered_once_whichever_workers_end(
    draws: list[tuple[int, bool]], count: int, workers: int, is_prompt: bool, most: int
) -> None:
    items, cluster = list(range(count)), Workers([*draws], workers, is_prompt=is_prompt)
    found = list(Remote(cluster).map(Squaring(most), items, Run()))
    assert sorted(number for number, _ in found) == items
    assert all(answer.tolist() == [items[number] ** 2] for number, answer in found)
    if most == 1000 and not any(ends for _, ends in draws):
        assert sorted(cluster.asked) == items  # nothing is done twice


@pytest.mark.parametrize(("least", "is_few"), [(1e9, True), (0.0, False)])
def test_a_piece_takes_as_long_as_is_worth_a_beginning(least: float, is_few: bool) -> None:
    """One item, and when it is known how long it took, eight times as many, or again a half of them towards the end."""
    cluster = Workers(count=1, is_prompt=False, least_seconds=least, seconds=1e9)
    assert len(list(Remote(cluster).map(Squaring(), list(range(16)), Run()))) == 16
    assert (cluster.begun == 3) == is_few


@given(DRAWS, st.integers(1, 20), st.integers(0, 19))
def test_of_several_errors_that_of_the_first_item_is_raised(
    draws: list[tuple[int, bool]], workers: int, wrong: int
) -> None:
    cluster = Workers([(which, False) for which, _ in draws], workers)
    answers = Remote(cluster).map(Squaring(wrong=wrong), list(range(20)), Run())
    with pytest.raises(ValueError, match=f"number {wrong}: must be less than {wrong}, got {wrong}"):
        list(answers)
    assert cluster.cancelled


def test_an_item_whose_worker_ends_again_and_again_is_named() -> None:
    law = "number 0: must be done by a worker that lives, got 3 that ended: it was killed"
    with pytest.raises(ValueError, match=law):
        list(Remote(Workers([(0, True)] * 99, 1, retries=2)).map(Squaring(), [0], Run()))
    law = "number 1: must be done .*, got 2 that ended: it needs more memory than there is to square them"
    with pytest.raises(ValueError, match=law):
        list(Remote(Workers(count=1, retries=1)).map(Squaring(most=0), [1], Run()))


def test_what_stops_the_process_that_asks_stops_the_workers() -> None:
    cluster = Workers()
    answers = Remote(cluster).map(Squaring(), list(range(9)), Run())
    next(answers)
    answers.close()  # as Ctrl-C does
    assert cluster.cancelled
    assert not cluster.busy


@settings(max_examples=20)  # each writes files to the disk
@given(DRAWS, st.integers(0, 12))
def test_what_was_kept_is_not_done_again(draws: list[tuple[int, bool]], stop: int) -> None:
    items = list(range(12))
    with tempfile.TemporaryDirectory() as folder:
        first = Workers([*draws], 2)
        answers = Remote(first, folder=Path(folder)).map(Squaring(), items, Run())
        before = dict(next(answers) for _ in range(stop))
        answers.close()  # the process is killed
        there = sum(len(keys_of(read(path))) for path in Path(folder).glob("*.answers"))
        assert stop <= there
        again = Workers([*draws], 3)
        found = list(Remote(again, folder=Path(folder)).map(Squaring(), items, Run()))
        assert sorted(number for number, _ in found) == items
        assert all(answer.tolist() == [number**2] for number, answer in [*found, *before.items()])
        assert len(set(again.asked)) == 12 - there


@dataclass
class Apart(Workers):
    """Workers that do not see the folder where answers are kept."""

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        call = pickle.loads(payload)
        return super().begin(pickle.dumps(replace(call, shared=Path("/no/such/folder/a.shared"))), expected, name)


@pytest.mark.parametrize("kind", [Workers, Apart])
def test_answers_are_kept_by_workers_that_see_the_folder_and_else_by_the_process_that_asks(
    kind: type[Workers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[Any] = []
    add = Kept.add
    monkeypatch.setattr(Kept, "add", lambda self, *given: (here.append(given), add(self, *given)))
    list(Remote(kind(), folder=tmp_path).map(Squaring(), list(range(9)), Run()))
    assert bool(here) == (kind is Apart)
    assert {path.suffix for path in tmp_path.iterdir()} == {".answers"}  # what was there for workers to see is gone
    again = kind()
    assert len(list(Remote(again, folder=tmp_path).map(Squaring(), list(range(9)), Run()))) == 9
    assert again.asked == []


def test_progress_counts_items_of_all_workers_and_never_falls(watching: Any) -> None:
    list(Remote(Workers()).map(Squaring(), list(range(9)), Run(observer=watching)))
    done = [done for done, _ in watching.advances]
    assert done == sorted(done)
    assert done[-1] == 9
    assert {total for _, total in watching.advances} == {9}


def test_a_worker_of_another_version_is_refused_with_both_names() -> None:
    theirs = "topoflow 0.0.1 (sources 00000000) on Python 3.9.1"
    (failed,) = events(b"not even read", theirs)
    assert re.fullmatch(rf"executor: must have workers with {re.escape(theirs)}, got topoflow .* on \S+", failed.text)
    patched = version().rpartition(".")[0] + ".99"  # of Python
    payload = pickle.dumps(Call(Squaring(), [3], [None], "cpu", 1, "."))
    (answered,) = (each for each in events(payload, patched) if isinstance(each, Answered))
    assert [each["square"].tolist() for each in parted(answered.content)] == [[9]]


ARRAYS = st.sampled_from(["<f8", ">f8", "<i4", "|b1", "<U3", "|u1"]).flatmap(
    lambda kind: arrays_of(kind, array_shapes(min_dims=0, min_side=0))
)


@settings(max_examples=50)  # each writes files to the disk
@given(st.lists(st.dictionaries(st.text(max_size=3), ARRAYS, max_size=3), max_size=4), st.data())
def test_answers_are_read_as_they_were_joined_and_a_changed_byte_is_seen(
    answers: list[dict[str, np.ndarray]], data: st.DataObject
) -> None:
    answers = [{**each, "long": np.arange(LONG // 8 + number)} for number, each in enumerate(answers)]
    answers += answers  # arrays that several have
    keys = [data.draw(st.none() | st.text("0123456789abcdef")) for _ in answers]
    content = joined(keys, answers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.answers"
        write(path, content)
        for there in (content, read(path), pickle.loads(pickle.dumps(content))):
            assert keys_of(there) == keys
            assert len(parted(there)) == len(answers)
            for before, after in zip(answers, parted(there), strict=True):
                assert [*before] == [*after]
                assert all(same(before[name], after[name]) for name in before)
        whole = bytearray(path.read_bytes())
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        with pytest.raises(ValueError, match=f"{path}: must be answers as they were written, got .*; delete it"):
            read(path)
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(whole)
        with pytest.raises(ValueError, match=f"{path}: must be answers as they were written, got .*; delete it"):
            read(path)


@pytest.mark.parametrize("count", [10, LONG])
def test_an_array_that_answers_share_is_sent_and_kept_once(count: int) -> None:
    array = np.arange(float(count))
    assert joined([None], [{"x": array}]).size == joined([None] * 3, [{"x": array}] * 3).size == array.nbytes


def worlds() -> list[tuple[World, Any]]:
    """Worlds of one job in fidelities whose timelines have other parts."""
    fat_tree = place(JOB, FatTree(100.0, 2, 0.01).build(4, JOB.demand()), name="fat_tree")
    ring = place(JOB, Ring(100.0, 2, 0.01).build(4, JOB.demand()), name="ring")
    design = OcsReconfig(
        bandwidth=100.0, degree=2, latency=0.01, interval=0.5, pause=0.1, forwarding=True, discount=0.5, paths=2
    )
    circuits = place(JOB, design.build(4, JOB.demand()), name="circuits", rings="flows")
    return [(fat_tree, Fluid()), (ring, Fluid()), (circuits, Fluid()), (fat_tree, Packet())]


def test_timelines_of_workers_are_those_of_this_process(tmp_path: Path) -> None:
    """To the last bit, also with packets, and where circuits change so that a timeline has a world of its own."""
    for world, fidelity in worlds():
        (here,) = simulate([world], fidelity)
        for _ in range(2):  # computed, and kept
            remote = Remote(Workers(), folder=tmp_path)
            (there,) = simulate([world], fidelity, Run(executor=remote))
            assert there.world.name == world.name
            assert same(here, there), world.name


def same(one: Any, other: Any) -> bool:
    if is_dataclass(one):
        assert type(one) is type(other)
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


def unchecked(value: Any, name: str, new: Any) -> Any:
    """A copy with another field, whatever laws it breaks."""
    copy = object.__new__(type(value))
    copy.__dict__.update(vars(value) | {name: new})
    return copy


def test_worlds_that_differ_in_a_number_have_other_keys() -> None:
    world, _ = worlds()[2]
    work = Simulating(Fluid())

    def changed(value: Any, name: str) -> Any:
        old = getattr(value, name)
        if isinstance(old, np.ndarray):
            new = old.copy()
            new.flat[-1] += 1
        elif isinstance(old, int | float) and not isinstance(old, bool):
            new = old + 1 if np.isfinite(old) else 1.0
        elif isinstance(old, bool):
            new = not old
        elif isinstance(old, str):
            new = f"{old}!"
        else:
            return None
        return unchecked(value, name, new)

    others = [changed(world, each.name) for each in fields(world) if each.name not in NAMES]
    for part in ("graph", "fabric"):
        whole = getattr(world, part)
        inner = [changed(whole, each.name) for each in fields(whole) if each.name not in NAMES]
        others += [unchecked(world, part, each) for each in inner if each is not None]
    others = [each for each in others if each is not None]
    assert len(others) > 20
    keys = work.keys([world, replace(world, name="other"), *others])
    assert keys[0] == keys[1]
    assert len(set(keys)) == len(keys) - 1
    assert work.keys([world]) != Simulating(Fluid(merge=0.5)).keys([world])


def test_a_file_of_answers_that_was_changed_is_refused_by_name(tmp_path: Path) -> None:
    Kept(tmp_path).add(["a"], joined(["a"], [{"square": np.array([1])}]))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    with pytest.raises(ValueError, match=f"{path}: must be answers as they were written, .*; delete it"):
        Kept(tmp_path)


def test_a_full_disk_is_reported_with_the_file_and_the_workers_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cluster = Workers()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        list(Remote(cluster, folder=tmp_path).map(Squaring(), list(range(9)), Run()))
    assert str(error.value.filename).startswith(str(tmp_path))
    assert cluster.cancelled


def test_work_that_is_no_batch_is_done_item_by_item_here() -> None:
    @dataclass(frozen=True)
    class Alone(Squaring):
        is_batch = False

    work = Alone(most=1)
    assert [answer.tolist() for _, answer in Local().map(work, [2, 3], Run())] == [[4], [9]]


@pytest.mark.parametrize(
    ("settings", "law"),
    [
        ({"address": "127.0.0.1:1"}, "executor.address: must be a Ray cluster, got 127.0.0.1:1 .*refused"),
        ({"address": "ray"}, "executor.address: must be HOST:PORT, auto or null, got 'ray'"),
        ({"cpus": 0}, "executor.cpus: must be a whole number within 1..1024, got 0"),
        ({"seconds": 0}, "executor.seconds: must be finite and positive, got 0"),
        ({"gpus": -1.0}, "executor.gpus: must be finite and positive, got -1.0"),
        ({"retries": True}, "executor.retries: must be a whole number within 0..1000, got True"),
    ],
)
def test_settings_of_ray_that_cannot_be_are_refused_in_one_line(settings: dict[str, Any], law: str) -> None:
    if "address" in settings:
        pytest.importorskip("ray", reason="needs the extra ray")
    with pytest.raises(ValueError, match=law):
        Ray(**settings).pool("cpu", None)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"executor: must be local where Ray is not .*topoflow\[ray\].*, got "):
        Ray().pool("cpu", None)


def test_points_that_differ_in_the_executor_are_refused() -> None:
    points = grid(["fabric=ring", "executor=ray", "executor.cpus=1,2"], check)
    with pytest.raises(ValueError, match="executor: must be one for all, got "):
        run_of(points, Silent())
    with pytest.raises(ValueError, match=r"executor: must be one of local, ray.*, got 'spark'"):
        grid(["fabric=ring", "executor=spark"], check)
