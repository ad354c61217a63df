"""Scripts on shapes: integers have values, floating-point tensors have sizes, and memory is what is alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from topoflow.capture.predict.mailbox import Mailbox
from topoflow.capture.predict.memory import Memory, held_by
from topoflow.capture.predict.shapes import CHOSEN, READ, Shapes, Unpredictable

LARGE = 2**40  # elements: more than any memory holds


@contextmanager
def shapes(tmp_path: Path) -> Iterator[Shapes]:
    with Memory() as memory, Shapes(Mailbox(tmp_path, 0, lambda rank: rank), memory) as mode:
        yield mode


def test_a_tensor_of_any_size_takes_no_memory(tmp_path) -> None:
    with shapes(tmp_path):
        product = torch.randn(LARGE, 8) @ torch.zeros(8, 4)
    assert product.shape == (LARGE, 4)


def test_integers_have_their_values(tmp_path) -> None:
    with shapes(tmp_path):
        counts = torch.bincount(torch.arange(10) % 4, minlength=4)
        assert counts.tolist() == [3, 3, 2, 2]
        assert (counts.cumsum(0)[-1] == 10).item()
        assert torch.randn(7, 2)[torch.tensor([1, 5])].shape == (2, 2)


def test_a_number_that_no_tensor_has_is_one_and_is_counted(tmp_path) -> None:
    with shapes(tmp_path) as mode:
        assert torch.randn(3).sum().item() == 1.0
        assert (torch.randn(3).sum() > 0).item() is False
        assert torch.tensor(2.5).item() == 2.5
    assert mode.assumed == {READ: 1}


def test_choices_by_scores_are_made_equally_often(tmp_path) -> None:
    with shapes(tmp_path) as mode:
        scores, chosen = torch.randn(32, 8, requires_grad=True).softmax(-1).topk(2, dim=-1)
        assert torch.bincount(chosen.flatten(), minlength=8).tolist() == [8] * 8
        assert all(len(set(row)) == 2 for row in chosen.tolist())
        assert torch.bincount(torch.randn(12, 4).argmax(-1)).tolist() == [3] * 4
        assert sorted(torch.randn(3, 5).argsort(0)[:, 2].tolist()) == [0, 1, 2]
        scores.sum().backward()
    assert mode.assumed[CHOSEN] == 3


def test_what_depends_on_values_ends_the_prediction(tmp_path) -> None:
    with shapes(tmp_path):
        with pytest.raises(Unpredictable, match="returns a shape that depends on values"):
            torch.randn(8)[torch.randn(8) > 0]
        with pytest.raises(Unpredictable, match="an integer was read that depends on values"):
            torch.randn(8).long()[0].item()
        known = torch.zeros(8, dtype=torch.int64)
        known.copy_(torch.randn(8))
        with pytest.raises(Unpredictable, match="an integer was read that depends on values"):
            known.sum().item()


def test_memory_is_what_is_alive_at_once(tmp_path) -> None:
    with Memory() as memory, Shapes(Mailbox(tmp_path, 0, lambda rank: rank), memory):
        tensor = torch.zeros(1000)
        view = tensor.view(10, 100)
        torch.zeros(500)
        assert (memory.now, memory.peak) == (4000, 6000)
        tensor.untyped_storage().resize_(0)
        assert memory.now == 0
        tensor.untyped_storage().resize_(4000)
        memory.begin()
        del tensor, view
        assert (memory.now, memory.peak) == (0, 4000)


def test_a_training_step_holds_parameters_gradients_and_states(tmp_path) -> None:
    with shapes(tmp_path):
        layer = torch.nn.Linear(100, 100, bias=False)
        optimizer = torch.optim.AdamW(layer.parameters())
        layer(torch.randn(8, 100)).sum().backward()
        optimizer.step()
        optimizer.step()
    step = 4  # AdamW counts its steps in a tensor
    assert held_by([optimizer]) == {"parameters": 40000, "gradients": 40000, "optimizer states": 80000 + step}


def test_a_module_is_converted_and_moved(tmp_path) -> None:
    with shapes(tmp_path):
        layer = torch.nn.Linear(8, 8).to(torch.bfloat16)
        assert layer.weight.dtype is torch.bfloat16
        assert layer(torch.randn(2, 8, dtype=torch.bfloat16)).shape == (2, 8)


def test_values_pass_between_ranks(tmp_path) -> None:
    sender, receiver = (Mailbox(tmp_path, rank, lambda rank: rank) for rank in (0, 1))
    for value in (1, 2):
        sender.send(1, torch.tensor([value]))
    received = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
    for tensor in received:
        receiver.receive(0, tensor)
    receiver.wait()
    assert [tensor.item() for tensor in received] == [1, 2]
