"""Gradients of a sweep: how a loss changes with the links' numbers of worlds, through all that waits for each other.

When tasks start and finish is a continuous function of the capacities, smooth but where events coincide: which link
limits which flow when, and which task is the last that another waits for, does not change with a small change of a
capacity. ``csrc/fluid/gradient.h`` goes through the events of each world from the last to the first.

Source: reverse accumulation (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, chapter 3).

Shapes: W worlds, T tasks, L links.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from topoflow import _C
from topoflow.engine.device import Device
from topoflow.engine.launch import launch

Launched = Callable[[torch.Tensor, torch.Tensor], dict[str, Any]]  # the arrays of a launch that has been


class _Ends(torch.autograd.Function):  # type: ignore[misc]
    """start and finish [W * T] s, and status [W], of capacity and latency [W, L]."""

    @staticmethod
    def forward(ctx: Any, capacity: torch.Tensor, latency: torch.Tensor, launched: Launched, threads: int) -> Any:
        arrays = launched(capacity.detach(), latency.detach())
        ctx.arrays, ctx.threads = arrays, threads
        ctx.save_for_backward(capacity, latency)
        ctx.mark_non_differentiable(arrays["status"])
        return arrays["start"].clone(), arrays["finish"].clone(), arrays["status"]

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, of_start: torch.Tensor, of_finish: torch.Tensor, of_status: object) -> Any:
        capacity, _ = ctx.saved_tensors  # refuses what has been written to since
        host = Device(torch.device("cpu"))
        arrays = {name: torch.as_tensor(array).cpu() for name, array in ctx.arrays.items()}
        arrays |= {"of_start": of_start.contiguous().cpu(), "of_finish": of_finish.cpu().clone(), "cancel": host.flag()}
        arrays |= {name: host.zeros(capacity.numel()) for name in ("of_capacity", "of_latency")}
        launch(partial(_C.gradient, arrays, host.memory, ctx.threads), arrays["cancel"])
        found = [arrays[name].reshape(capacity.shape).to(capacity.device) for name in ("of_capacity", "of_latency")]
        return *found, None, None


def ends(capacity: torch.Tensor, latency: torch.Tensor, launched: Launched, threads: int) -> Any:
    """start and finish [W * T] s and status [W] of worlds, which torch differentiates by ``capacity`` and ``latency``.

    ``launched(capacity, latency)`` runs the worlds. Backward runs on the CPU with this many threads, 0: all.
    """
    return _Ends.apply(capacity, latency, launched, threads)
