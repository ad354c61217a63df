"""Sweeps: worlds of one graph whose links' numbers are rows of one array, of numpy or torch, where that array is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine import bound, fluid
from topoflow.engine.base import LoweredGraph, World

torch = pytest.importorskip("torch")

WORLDS = 17
KINDS = [np.array, partial(torch.tensor, dtype=torch.float64)]


@pytest.fixture(scope="module")
def graph(make_world) -> LoweredGraph:
    """All pairs of 8 ends over 4 links in the middle, then the same once more."""
    random = np.random.default_rng(0)
    paths = [[i, 16 + int(random.integers(4)), 8 + j] for i in range(8) for j in range(8) if i != j]
    first = [
        {"path": path, "bytes": float(size)} for path, size in zip(paths, random.integers(1e5, 1e6, 56), strict=True)
    ]
    again = [task | {"after": [index], "delay": 1e-5} for index, task in enumerate(first)]
    return make_world(first + again, [1.0] * 20).graph


@pytest.fixture(scope="module")
def links(graph) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.uniform(1e9, 1e10, (WORLDS, graph.links)), random.uniform(0, 1e-5, (WORLDS, graph.links))


def timelines(graph, capacity, latency, merge):
    worlds = [World(f"world {index}", graph, *rows) for index, rows in enumerate(zip(capacity, latency, strict=True))]
    return fluid.Fluid(merge).simulate(worlds)


@pytest.mark.parametrize("merge", [0.0, 0.01])
def test_a_sweep_is_the_same_worlds_to_the_byte(graph, links, merge):
    swept, expected = fluid.sweep(graph, *links, merge=merge), timelines(graph, *links, merge)
    assert swept.start.tobytes() == np.stack([timeline.start for timeline in expected]).tobytes()
    assert swept.finish.tobytes() == np.stack([timeline.finish for timeline in expected]).tobytes()
    assert swept.makespan.tolist() == [timeline.makespan for timeline in expected]
    assert swept.status.tolist() == [_C.DONE] * WORLDS


def test_without_latency_it_is_zero(graph, links):
    capacity, latency = links
    assert np.array_equal(fluid.sweep(graph, capacity).finish, fluid.sweep(graph, capacity, latency * 0).finish)
    assert np.array_equal(bound.makespans(graph, capacity), bound.makespans(graph, capacity, latency * 0))


def test_the_number_of_threads_and_the_order_do_not_change_a_bit(graph, links):
    capacity, latency = links
    order = np.random.default_rng(2).permutation(WORLDS)
    one, two = (fluid.sweep(graph, capacity, latency, threads=threads) for threads in (1, 2))
    shuffled = fluid.sweep(graph, capacity[order], latency[order], threads=2)
    assert one.finish.tobytes() == two.finish.tobytes()
    assert one.finish[order].tobytes() == shuffled.finish.tobytes()
    bounds = bound.makespans(graph, capacity, latency, threads=1)
    assert bounds.tobytes() == bound.makespans(graph, capacity, latency, threads=2).tobytes()
    assert bounds[order].tobytes() == bound.makespans(graph, capacity[order], latency[order], threads=2).tobytes()


def listen(monkeypatch, name):
    """The arrays that a kernel will have been called with."""
    kernel, calls = getattr(_C, name), []

    def listening(arrays, *arguments):
        calls.append(arrays)
        return kernel(arrays, *arguments)

    monkeypatch.setattr(_C, name, listening)
    return calls


def test_tensors_come_and_go_without_a_copy(graph, links, monkeypatch):
    capacity, latency = (torch.from_numpy(rows) for rows in links)
    of_fluid, of_bound = listen(monkeypatch, "simulate"), listen(monkeypatch, "bound")
    swept, bounds = fluid.sweep(graph, capacity, latency), bound.makespans(graph, capacity, latency)
    for arrays in (of_fluid[0], of_bound[0]):
        assert arrays["capacity"].data_ptr() == capacity.data_ptr()
        assert arrays["latency"].data_ptr() == latency.data_ptr()
    for name in ("start", "finish", "status"):
        answer = getattr(swept, name)
        assert isinstance(answer, torch.Tensor)
        assert answer.device == capacity.device
        assert answer.data_ptr() == of_fluid[0][name].data_ptr()
    assert bounds.data_ptr() == of_bound[0]["makespan"].data_ptr()
    assert np.array_equal(swept.makespan.numpy(), fluid.sweep(graph, *links).makespan)
    assert np.array_equal(bounds.numpy(), bound.makespans(graph, *links))


def test_what_speaks_dlpack_comes_back_as_a_tensor(graph, links):
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    swept = fluid.sweep(graph, *map(Foreign, links))
    assert isinstance(swept.finish, torch.Tensor)
    assert np.array_equal(swept.finish.numpy(), fluid.sweep(graph, *links).finish)


def test_numbers_that_cannot_be_written_to_are_fine(graph, links):
    frozen = links[0].copy()
    frozen.setflags(write=False)
    assert np.array_equal(fluid.sweep(graph, frozen).finish, fluid.sweep(graph, links[0]).finish)


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_that_cannot_end_says_why_and_takes_for_ever(kind, make_world):
    graph = make_world([{"path": [0], "bytes": 1}, {"path": [1], "bytes": 2}, {"after": [0]}], [1, 1]).graph
    swept = fluid.sweep(graph, kind([[1.0, 1.0], [0.0, 1.0], [2.0, 1.0]]))
    assert swept.status.tolist() == [_C.DONE, _C.STARVED, _C.DONE]
    assert swept.finish.tolist() == [[1, 2, 1], [np.inf, 2, np.inf], [0.5, 2, 0.5]]
    assert swept.makespan.tolist() == [2, np.inf, 2]


def test_a_circle_is_a_status_too(make_world):
    world = make_world([{"delay": 1}, {}, {"after": [1]}], [])
    circle = replace(world.graph, after_offsets=np.array([0, 0, 1, 2]), after=np.array([2, 1], np.int32))
    swept = fluid.sweep(circle, np.zeros((2, 0)))
    assert swept.status.tolist() == [_C.DEADLOCK] * 2
    assert swept.finish.tolist() == [[1, np.inf, np.inf]] * 2


@pytest.mark.parametrize("run", [fluid.sweep, bound.makespans])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_run_is_no_error(run, kind, make_world):
    some, none = make_world([{"delay": 2}], [1]).graph, make_world([], [1]).graph

    def makespans(graph, capacity):
        result = run(graph, kind(capacity).reshape(-1, 1))
        return (result if run is bound.makespans else result.makespan).tolist()

    assert makespans(some, []) == []
    assert makespans(none, [1.0, 2.0]) == [0, 0]
    assert makespans(some, [1.0, 2.0]) == [2, 2]


@pytest.mark.parametrize("run", [fluid.sweep, bound.makespans])
@pytest.mark.parametrize(
    ("capacity", "latency", "message"),
    [
        (np.ones(2), None, r"capacity: expected \[W, L\] = \[W, 2\], got \[2\]"),
        (np.ones((3, 4)), None, r"capacity: expected \[W, L\] = \[W, 2\], got \[3, 4\]"),
        (np.ones((3, 2), np.float32), None, "capacity: expected float64, got float32"),
        (torch.ones((3, 2)), None, r"capacity: expected float64, got torch\.float32"),
        (np.ones((2, 3)).T, None, "capacity: must be contiguous, got strides"),
        (torch.ones((2, 3), dtype=torch.float64).T, None, "capacity: must be contiguous, got strides"),
        (np.array([[1, np.nan]]), None, "capacity: must be finite, got nan"),
        (
            torch.tensor([[1, torch.nan]], dtype=torch.float64),
            None,
            "capacity: must be finite, got nan",
        ),
        (np.array([[1, -1.0]]), None, "capacity: must not be negative, got -1"),
        (np.array([[1, np.inf]]), None, "capacity: must be finite, got inf"),
        (np.array([[1, 1e300]]), None, r"capacity: must be at most 1e\+18, got 1e\+300"),
        (np.ones((1, 2)), np.array([[0, -1e-6]]), "latency: must not be negative, got -1e-06"),
        (np.ones((1, 2)), np.zeros((2, 2)), r"latency: expected \[W, L\] = \[1, 2\], got \[2, 2\]"),
        (
            np.ones((1, 2)),
            torch.zeros((1, 2), dtype=torch.float64),
            "latency: must lie where capacity does, in numpy, got torch on cpu",
        ),
        ([[1.0, 1.0]], None, "capacity: must be an array, got list"),
    ],
    ids=str,
)
def test_numbers_that_break_a_law_are_refused(run, capacity, latency, message, make_world):
    graph = make_world([{"path": [0, 1], "bytes": 1}], [1, 1]).graph
    with pytest.raises(ValueError, match=f"^{message}"):
        run(graph, capacity, latency)


@pytest.mark.parametrize("threads", [0, -1, 1025, 1.5, True])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads, graph, links):
    for run in (fluid.sweep, bound.makespans):
        with pytest.raises(ValueError, match=r"^threads: must be None or within 1\.\.1024, got"):
            run(graph, *links, threads=threads)


@pytest.mark.gpu
def test_tensors_on_a_gpu_stay_there(graph, links):
    if not (_C.has_cuda and torch.cuda.is_available()):
        pytest.skip("needs a GPU and topoflow._C built with nvcc")
    with torch.cuda.stream(torch.cuda.Stream()):
        capacity, latency = (torch.from_numpy(rows).cuda() for rows in links)
        swept, bounds = fluid.sweep(graph, capacity, latency), bound.makespans(graph, capacity, latency)
    assert swept.finish.is_cuda
    np.testing.assert_allclose(swept.finish.cpu(), fluid.sweep(graph, *links).finish, rtol=1e-9)
    np.testing.assert_allclose(bounds.cpu(), bound.makespans(graph, *links), rtol=1e-12)
