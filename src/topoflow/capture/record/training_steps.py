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

from collections.abc import Callable
from typing import Any


class TrainingHooks:
    """Calls ``begin`` before the first training forward pass, and ``before_step``/``after_step`` around each step.

    ``after_step`` gets whether this step ends an iteration.
    """

    def __init__(
        self, begin: Callable[[], None], before_step: Callable[[], None], after_step: Callable[[bool], None]
    ) -> None:
        self._begin = begin
        self._before_step = before_step
        self._after_step = after_step
        self._begun = False
        self._leader: object | None = None  # the optimizer that stepped first
        self._handles: list[Any] = []

    def install(self) -> None:
        """Register with torch; the script need not know."""
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._handles = [
            register_module_forward_pre_hook(self._forward),
            register_optimizer_step_pre_hook(self._step),
            register_optimizer_step_post_hook(self._stepped),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _forward(self, module: Any, inputs: Any) -> None:
        if self._begun:
            return
        import torch

        if module.training and torch.is_grad_enabled():
            self._begun = True
            self._begin()

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._before_step()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._leader is None:
            self._leader = optimizer
        self._after_step(optimizer is self._leader)
