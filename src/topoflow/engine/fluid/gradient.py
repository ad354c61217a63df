"""Gradients of a sweep: how a loss changes with the links' numbers of worlds, through all that waits for each other.

When tasks start and finish is a continuous function of the capacities, smooth but where events coincide: which link
limits which flow when, and which task is the last that another waits for, does not change with a small change of a
capacity. ``csrc/gradient/gradient.h`` goes through the events of each world from the last to the first.

Source: reverse accumulation (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, chapter 3).

Shapes: W worlds, T tasks, L links.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from topoflow import _C
from topoflow.engine.device import DeviceMemory
from topoflow.engine.launch import Kernel, launch

Launched = Callable[[Any, Any], dict[str, Any]]  # capacity and latency [W, L] to the arrays of a launch, after it


def ends(capacity: Any, latency: Any, launched: Launched, threads: int) -> Any:
    """start and finish [W * T] s and status [W] of worlds, which torch differentiates by ``capacity`` and ``latency``.

    Both are tensors [W, L]. Backward runs where they lie; on a CPU with this many threads, 0: all.
    """
    return _function().apply(capacity, latency, launched, threads)


def backward(arrays: dict[str, Any], of_start: Any, of_finish: Any, threads: int) -> tuple[Any, Any]:
    """d loss / d capacity and d loss / d latency [W * L], of what a launch has left in ``arrays``.

    ``of_start`` and ``of_finish`` are d loss / d start and d loss / d finish [W * T].
    """
    device = DeviceMemory(arrays["capacity"].device)
    arrays = arrays | {
        "of_start": of_start.to(device.torch).contiguous(),
        "of_finish": of_finish.to(device.torch).contiguous().clone(),
        "cancel": device.flag(),
    }
    arrays |= {name: device.zeros(len(arrays["capacity"])) for name in ("of_capacity", "of_latency")}
    kernel = partial(_C.gradient, arrays, device.memory, device.stream, threads)
    launch(Kernel(kernel, arrays["cancel"], lambda: ["worlds of a sweep"]), device)
    return arrays["of_capacity"], arrays["of_latency"]


@cache
def _function() -> Any:
    """``ends`` for torch, which is imported only where somebody brings its tensors."""
    import torch
    from torch.autograd.function import once_differentiable

    class Ends(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, capacity: Any, latency: Any, launched: Launched, threads: int) -> Any:
            ctx.arrays, ctx.threads = launched(capacity.detach(), latency.detach()), threads
            ctx.save_for_backward(capacity, latency)
            status = DeviceMemory(capacity.device).here(ctx.arrays["status"])
            ctx.mark_non_differentiable(status)
            return ctx.arrays["start"].clone(), ctx.arrays["finish"].clone(), status

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, of_start: Any, of_finish: Any, of_status: Any) -> Any:
            capacity, _ = ctx.saved_tensors  # refuses what has been written to since
            gradients = backward(ctx.arrays, of_start, of_finish, ctx.threads)
            return *(gradient.reshape(capacity.shape) for gradient in gradients), None, None

    return Ends
