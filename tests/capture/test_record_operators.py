"""What operators compute and move, counted by the recorder's rules, against sums by hand."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from topoflow.capture.base import OperatorWork  # noqa: E402
from topoflow.capture.record.operators import work_of  # noqa: E402


class Counting(TorchDispatchMode):
    """Collects the work of every operator."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[OperatorWork] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "aten" and (work := work_of(func, args, kwargs or {}, result)):
            self.work.append(work)
        return result

    @property
    def flops(self) -> float:
        return sum(work.flops for work in self.work)

    @property
    def moved(self) -> float:
        return sum(work.moved for work in self.work)


def counted(run: Any) -> Counting:
    with Counting() as counting:
        run()
    return counting


def test_a_training_step_computes_three_matrix_products_per_layer_but_the_first() -> None:
    # each 2 * batch * in * out FLOP; the first layer needs no gradient of its input
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False), torch.nn.Linear(32, 16, bias=False))
    batch = torch.randn(8, 64)
    step = counted(lambda: model(batch).sum().backward())
    assert step.flops == 2 * 8 * 64 * 32 * 2 + 2 * 8 * 32 * 16 * 3
    assert {work.dtype for work in step.work if work.flops} == {"float32"}


def test_a_product_moves_its_matrices_once() -> None:
    a, b = torch.randn(8, 64, dtype=torch.bfloat16), torch.randn(64, 32, dtype=torch.bfloat16)
    flops, moved = 2 * 8 * 64 * 32, 2 * (8 * 64 + 64 * 32 + 8 * 32)
    assert counted(lambda: a @ b).work == [OperatorWork("bfloat16", flops, moved, "matmul", (8, 64, 32))]


def test_kernels_with_measured_rates_keep_their_sizes() -> None:
    heads = [torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(3)]
    attention = counted(lambda: torch.nn.functional.scaled_dot_product_attention(*heads).sum().backward())
    kernels = [(work.kernel, work.shape) for work in attention.work if work.flops]
    assert kernels == [("attention", (8, 16, 2 * 4)), ("attention_backward", (8, 16, 2 * 4))]
    layer, x = torch.nn.Linear(64, 32), torch.randn(8, 64, requires_grad=True)
    products = [work.shape for work in counted(lambda: layer(x).sum().backward()).work if work.flops]
    assert sorted(products) == sorted([(8, 64, 32), (8, 32, 64), (32, 8, 64)])


@pytest.mark.parametrize(
    ("run", "moved"),
    [
        (lambda a: a.view(-1).t(), 0),
        (lambda a: torch.empty_like(a), 0),
        (lambda a: torch.zeros_like(a), 4000),
        (lambda a: a.copy_(torch.zeros(())), 4 + 4 + 4000),
        (lambda a: a + a.expand(10, 1000).sum(0), 4000 + 4000 + 3 * 4000),  # expanded: in memory once
        (lambda a: a.add_(1), 8000),
        (lambda a: a.relu(), 8000),
    ],
    ids=["views", "reserved", "written", "copied", "expanded", "in place", "element by element"],
)
def test_bytes_are_those_that_go_in_and_out(run: Any, moved: int) -> None:
    a = torch.randn(1000)
    work = counted(lambda: run(a))
    assert (work.flops, work.moved) == (0, moved)


def test_a_lookup_reads_the_rows_that_it_is_asked_for() -> None:
    table, rows = torch.randn(1_000_000, 16), torch.arange(10)
    for run in (lambda: torch.nn.functional.embedding(rows, table), lambda: table.index_select(0, rows)):
        assert counted(run).moved == 2 * 10 * 16 * 4 + 10 * 8
    bag = counted(lambda: torch.nn.functional.embedding_bag(rows.view(2, 5), table, mode="sum"))
    assert 10 * 16 * 4 + 2 * 16 * 4 + 10 * 8 <= bag.moved < 2000


def test_attention_of_the_cpu_counts_as_that_of_a_gpu() -> None:
    q, k, v = (torch.randn(2, 4, 128, 16, requires_grad=True) for _ in range(3))
    forward = 2 * 2 * 2 * 4 * 128 * 128 * 16  # queries by keys, weights by values
    run = counted(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward())
    assert forward * 3 <= run.flops <= forward * 3.5  # the backward pass is 2 to 2.5 times, with what it recomputes


def test_an_rnn_layer_counts_its_matrices() -> None:
    layer = torch.nn.LSTM(32, 48, bias=False)
    run = counted(lambda: layer(torch.randn(5, 2, 32)))
    assert run.flops == 2 * 5 * 2 * 4 * 48 * (32 + 48)


@pytest.mark.parametrize(
    ("make", "bytes_in_memory"),
    [
        (lambda dense: dense.to_sparse(), 8 * (2 * 8 + 4)),  # two indices and a value of each entry
        (lambda dense: dense.to_sparse_csr(), 8 * (9 + 8) + 4 * 8),
        (lambda dense: dense.to_mkldnn(), 64 * 4),
        (lambda dense: torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8), 64),
        (lambda dense: torch.nested.nested_tensor([dense[0], dense[1, :3]]), (8 + 3) * 4),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_every_layout_have_their_bytes(make: Any, bytes_in_memory: int) -> None:
    tensor = make(torch.eye(8))
    assert counted(lambda: tensor.clone()).moved == 2 * bytes_in_memory


@pytest.mark.filterwarnings("ignore")
def test_products_have_the_flops_that_torch_counts() -> None:
    left, right, batch, many = torch.ones(3, 5), torch.ones(5, 7), torch.ones(4, 3, 5), torch.ones(4, 5, 7)
    added = torch.ones(7)
    for run in (
        lambda: left @ right,
        lambda: torch.addmm(added, left, right, beta=2),
        lambda: torch.bmm(batch, many),
        lambda: torch.baddbmm(added.expand(4, 3, 7), batch, many),
    ):
        with FlopCounterMode(display=False) as torch_counter:
            run()
        assert counted(run).flops == torch_counter.get_total_flops() > 0
