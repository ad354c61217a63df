"""Gradients of sweeps: what a small change of a capacity or a latency does, found from one run."""

from __future__ import annotations

import os

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine.base import LoweredGraph
from topoflow.engine.fluid import sweep

torch = pytest.importorskip("torch")
EMULATED = "TOPOFLOW_EMULATED" in os.environ


def random_graph(seed: int) -> tuple[LoweredGraph, np.ndarray, np.ndarray]:
    """Tasks of all kinds on links whose numbers are drawn at random, so that nothing coincides; capacity, latency."""
    random = np.random.default_rng(seed)
    links, paths, tasks = (int(random.integers(2, limit)) for limit in (12, 20, 40))
    crossed = [random.choice(links, size=random.integers(1, min(links, 4) + 1), replace=False) for _ in range(paths)]
    after = [np.unique(random.integers(0, task, min(task, random.integers(0, 4)))) for task in range(tasks)]
    hops = sum(map(len, crossed))
    path = np.where(random.random(tasks) < 0.1, -1, random.integers(0, paths, tasks)).astype(np.int32)
    graph = LoweredGraph(
        delay=random.uniform(0, 1e-2, tasks) * (random.random(tasks) < 0.5),
        bytes=10 ** random.uniform(4, 7, tasks) * (random.random(tasks) < 0.9) * (path >= 0),
        release=random.uniform(0, 1e-2, tasks) * (random.random(tasks) < 0.3),
        path=path,
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, crossed)]),
        path_links=np.concatenate(crossed).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
        path_weight=random.uniform(0.1, 1, hops) if seed % 2 else None,
        path_limit=np.where(random.random(paths) < 0.5, np.inf, 1e9 * random.uniform(0.05, 1, paths))
        if seed // 2 % 2
        else None,
    )
    return graph, 1e9 * random.uniform(0.5, 2, links), random.uniform(0, 1e-3, links)


def slopes(
    graph: LoweredGraph, capacity: np.ndarray, latency: np.ndarray, weights: np.ndarray, quantity: str
) -> np.ndarray:
    """[3, L] slopes of the loss by each link's ``quantity``: to the left, to the right, through both."""
    rows = np.tile(np.stack([capacity, latency])[:, None, :], (1, 2 * graph.links + 1, 1))
    column = 0 if quantity == "capacity" else 1
    step = 1e-6 * (capacity if column == 0 else np.full(graph.links, 1e-3))
    for link in range(graph.links):
        rows[column, 1 + link, link] -= step[link]
        rows[column, 1 + graph.links + link, link] += step[link]
    swept = sweep(graph, *rows)
    loss = (np.stack([swept.start, swept.finish]) * weights[:, None, :]).sum((0, 2))
    left, right = loss[0] - loss[1 : 1 + graph.links], loss[1 + graph.links :] - loss[0]
    return np.stack([left / step, right / step, (left + right) / (2 * step)])


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_a_gradient_is_the_slope_where_nothing_coincides(first: int, device: str) -> None:
    compared = 0
    for seed in range(first, first + 8):
        graph, *numbers = random_graph(seed)
        weights = np.random.default_rng(seed + 1000).normal(size=(2, graph.tasks))
        inputs = [torch.tensor(number[None], requires_grad=True, device=device) for number in numbers]
        swept = sweep(graph, *inputs)
        torch.sum(torch.from_numpy(weights).to(device) * torch.cat([swept.start, swept.finish])).backward()
        for tensor, quantity in zip(inputs, ("capacity", "latency"), strict=True):
            assert tensor.grad is not None
            left, right, middle = slopes(graph, *numbers, weights, quantity)
            scale = np.abs(middle).max() + 1e-30
            smooth = np.abs(left - right) < 1e-3 * scale
            compared += int(smooth.sum())
            np.testing.assert_allclose(
                tensor.grad[0].cpu().numpy()[smooth],
                middle[smooth],
                atol=1e-4 * scale,
                err_msg=f"seed {seed}, {quantity}",
            )
            assert smooth.mean() > 0.8, "a kink must be rare"
    assert compared > 40


def gradient(graph: LoweredGraph, capacity: list[float], device: str) -> list[float]:
    tensor = torch.tensor([capacity], dtype=torch.float64, requires_grad=True, device=device)
    sweep(graph, tensor).makespan.sum().backward()
    assert tensor.grad is not None
    values: list[float] = tensor.grad[0].tolist()
    return values


def test_small_worlds_by_hand(make_world, device) -> None:
    def graph(*tasks):
        return make_world(list(tasks), [1.0] * 3).graph

    # One flow: 100 / 10 s; two that end together: 200 / 10 s.
    flow = {"path": [0], "bytes": 100}
    assert gradient(graph(flow), [10.0, 1, 1], device) == pytest.approx([-1, 0, 0])
    assert gradient(graph(flow, flow), [10.0, 1, 1], device) == pytest.approx([-2, 0, 0])
    # 100 / 10 s on the first link, then 300 / 20 s on the second.
    assert gradient(graph(flow, {"path": [1], "bytes": 300, "after": [0]}), [10.0, 20, 1], device) == pytest.approx(
        [-1, -300 / 400, 0]
    )
    # The second flow has what the first, of 10 B/s on another link, leaves of 30 B/s: 200 / (30 - 10) s.
    shared = graph({"path": [0, 1], "bytes": 1000}, {"path": [1], "bytes": 200, "after": []})
    tensor = torch.tensor([[10.0, 30, 1]], dtype=torch.float64, requires_grad=True, device=device)
    sweep(shared, tensor).finish[0, 1].backward()
    assert tensor.grad[0].tolist() == pytest.approx([200 / 400, -200 / 400, 0])
    # Of two that are last at once, on links of their own, each gets half.
    twins = graph(flow, {"path": [1], "bytes": 100}, {"delay": 1, "after": [0, 1]})
    assert gradient(twins, [10.0, 10, 1], device) == pytest.approx([-0.5, -0.5, 0])


def test_all_links_k_times_as_fast_divide_the_time_by_k(device: str) -> None:
    """Euler's theorem: of what scales with 1 / k, sum of capacity * gradient is minus it. Also where all coincides."""
    random = np.random.default_rng(0)
    for paths in (4, 12)[: 1 if EMULATED else 2]:  # an emulated GPU takes minutes for 12
        ends = [(i, j) for i in range(paths) for j in range(paths) if i != j]
        count = len(ends)
        graph = LoweredGraph(
            delay=np.zeros(2 * count),
            bytes=np.full(2 * count, 1e6),
            release=np.zeros(2 * count),
            path=np.tile(np.arange(count, dtype=np.int32), 2),
            after_offsets=np.r_[np.zeros(count), np.arange(count + 1)].astype(np.int64),
            after=random.permutation(count).astype(np.int32),
            path_offsets=np.arange(0, 2 * count + 1, 2),
            path_links=np.array([(i, paths + j) for i, j in ends], np.int32).ravel(),
            owner=np.arange(2 * count, dtype=np.int32),
            owners=2 * count,
            links=2 * paths,
        )
        for capacity in (np.full(2 * paths, 1e9), random.choice([1e9, 2e9], 2 * paths)):
            tensor = torch.tensor(capacity[None], requires_grad=True, device=device)
            makespan = sweep(graph, tensor).makespan
            makespan.sum().backward()
            assert tensor.grad is not None
            assert float((tensor.grad * tensor.detach()).sum()) == pytest.approx(-float(makespan.detach()), rel=1e-9)


def test_worlds_do_not_see_each_others_gradients_and_one_that_cannot_end_has_none(device: str) -> None:
    graph, capacity, latency = random_graph(3)
    rows = capacity * np.random.default_rng(0).uniform(0.5, 2, (5, graph.links))
    rows[2] = 0
    together = torch.tensor(rows, requires_grad=True, device=device)
    makespan = sweep(graph, together, torch.from_numpy(np.tile(latency, (5, 1))).to(device)).makespan
    assert torch.isinf(makespan[2])
    makespan[[0, 1, 3, 4]].sum().backward()
    assert together.grad is not None
    assert (together.grad[2] == 0).all()
    for number in (0, 1, 3, 4):
        alone = torch.tensor(rows[number : number + 1], requires_grad=True, device=device)
        sweep(graph, alone, torch.from_numpy(latency[None]).to(device)).makespan.sum().backward()
        assert torch.equal(alone.grad[0], together.grad[number])


def test_each_of_many_worlds_has_its_own_gradient(make_world, device: str) -> None:
    """More worlds than a thread of a CPU or a block of a GPU prepares: bytes / capacity s, for which one flow waits."""
    graph = make_world([{"path": [0], "bytes": 100}, {"path": [1], "bytes": 100, "after": [0]}], [1.0, 1.0]).graph
    worlds = 300 if EMULATED else 70_000
    rows = np.random.default_rng(0).uniform(1, 9, (worlds, 2))
    tensor = torch.tensor(rows, requires_grad=True, device=device)
    finish = sweep(graph, tensor).finish
    finish.sum().backward()
    assert tensor.grad is not None
    first, second = (100 / rows).T
    np.testing.assert_allclose(finish.detach().cpu(), np.stack([first, first + second], axis=1), rtol=1e-12)
    np.testing.assert_allclose(tensor.grad.cpu(), np.array([-200, -100]) / rows**2, rtol=1e-12)


def test_merged_events_have_no_gradient(make_world) -> None:
    graph = make_world([{"path": [0], "bytes": 1}], [1.0]).graph
    with pytest.raises(ValueError, match=r"^merge: must be 0 for gradients, got 0\.1"):
        sweep(graph, torch.ones((1, 1), dtype=torch.float64, requires_grad=True), merge=0.1)


@pytest.mark.gpu
def test_a_gpu_finds_the_gradient_that_a_cpu_finds() -> None:
    if not (_C.has_cuda and torch.cuda.is_available()):
        pytest.skip("needs a GPU and topoflow._C built with nvcc")
    for seed in range(4):
        graph, capacity, latency = random_graph(seed)
        rows = capacity * np.random.default_rng(seed).uniform(0.5, 2, (9, graph.links))
        gradients = []
        for device in ("cpu", "cuda"):
            tensor = torch.tensor(rows, requires_grad=True, device=device)
            sweep(graph, tensor, torch.from_numpy(np.tile(latency, (9, 1))).to(device)).makespan.sum().backward()
            gradients.append(tensor.grad.cpu().numpy())
        np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-9, atol=1e-9 * np.abs(gradients[0]).max())
