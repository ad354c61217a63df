"""Count the iterations of a running training script.

    set-up (-1)  | iteration 0          | iteration 1          | ... | after the last step (-1)
                 ^ first forward pass   ^ optimizer step ends  ^

Iteration 0 begins with the first forward pass of a module in training mode, so that what DDP's constructor sends is
set-up; what a pipeline stage receives for that pass belongs to it (``formats.recording``). In a script without such a
pass it begins with the first communication. Each ends when the optimizer has stepped; where several optimizers step,
the one that stepped first counts. A script without optimizer is one iteration.

DDP's first iteration sends other buckets than the later ones (their order is only then known): it is numbered, but is
not the one to take for steady state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.autograd import Variable
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

NOT_IN_BACKWARD = -1  # torch._C._current_graph_task_id outside of a backward pass


def in_backward() -> bool:
    """Return whether this thread runs a part of a backward pass."""
    return bool(torch._C._current_graph_task_id() != NOT_IN_BACKWARD)


class TrainingObserver(Protocol):
    """An object that is told of the training; all but ``before_step`` and ``after_step`` of the main thread's."""

    def begin_iterations(self) -> None:
        """Note that the first training forward pass begins."""

    def module_called(self, module: Any, inputs: Any) -> None:
        """Note that a module is called."""

    def before_backward(self) -> None:
        """Note that a backward pass begins."""

    def after_backward(self) -> None:
        """Note that it has ended."""

    def before_step(self) -> None:
        """Note that an optimizer steps."""

    def after_step(self, ends_iteration: bool) -> None:
        """Note that it has stepped."""


class TrainingHooks:
    """Calls the methods of ``observer``, by way of ``guarded``; the thread that makes it is the main one."""

    def __init__(self, observer: TrainingObserver, guarded: Callable[..., Any]) -> None:
        self._observer = observer
        self._guarded = guarded
        self._main = threading.get_ident()
        self._begun = False
        self._leader: object | None = None  # the optimizer that stepped first
        self._handles: list[Any] = []

    def install(self) -> None:
        """Register with torch; the script need not know."""
        self._engine = Variable._execution_engine
        Variable._execution_engine = _Engine(self._backward)
        self._handles = [
            register_module_forward_pre_hook(self._forward),
            register_optimizer_step_pre_hook(self._step),
            register_optimizer_step_post_hook(self._stepped),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        Variable._execution_engine = self._engine

    def _forward(self, module: Any, inputs: Any) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self._main:
            return
        if not self._begun and module.training and torch.is_grad_enabled():
            self._begun = True
            self._guarded(self._observer.begin_iterations)
        self._guarded(self._observer.module_called, module, inputs)

    def _backward(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != self._main or in_backward():  # checkpointing runs backward passes within others
            return run(*args, **kwargs)
        self._guarded(self._observer.before_backward)
        try:
            return run(*args, **kwargs)
        finally:
            self._guarded(self._observer.after_backward)

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._guarded(self._observer.before_step)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._leader is None:
            self._leader = optimizer
        self._guarded(self._observer.after_step, optimizer is self._leader)


class _Engine(torch._C._ImperativeEngine):
    """PyTorch's engine of backward passes, whose runs go through ``through(run, *arguments)``."""

    def __init__(self, through: Callable[..., Any]) -> None:
        super().__init__()
        self._through = through

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        """Run a backward pass."""
        return self._through(super().run_backward, *args, **kwargs)
