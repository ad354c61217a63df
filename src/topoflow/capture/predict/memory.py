"""The memory that the tensors of a script would take at once: the bytes of all storages that are alive."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from topoflow.capture.record import c10d


class Memory:
    """Bytes of live storages, now and at most in the newest iteration.

    ``with Memory() as memory:`` also follows storages that are resized.
    """

    def __init__(self) -> None:
        self._storages: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.now = 0
        self.peak = 0

    def see(self, result: Any) -> None:
        """Take in the tensors that an operator returned."""
        for tensor in c10d.tensors_of(result):
            storage = tensor.untyped_storage()
            if tensor.device.type != "meta" and storage._cdata not in self._storages:
                self._add(storage)

    def begin(self) -> None:
        """Begin an iteration: the peak is that of the newest."""
        self.peak = self.now

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._storages[key] = (weakref.ref(storage, lambda _: self._free(key)), size)
        self._grow(size)

    def _free(self, key: int) -> None:
        self.now -= self._storages.pop(key)[1]

    def _grow(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)

    def __enter__(self) -> Memory:
        self._resize = resize = torch.UntypedStorage.resize_

        def resize_and_follow(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            seen = self._storages.get(storage._cdata)
            if seen is not None:
                self._storages[storage._cdata] = (seen[0], size)
                self._grow(size - seen[1])
            return result

        torch.UntypedStorage.resize_ = resize_and_follow
        return self

    def __exit__(self, *exception: object) -> None:
        torch.UntypedStorage.resize_ = self._resize


def held_by(optimizers: list[torch.optim.Optimizer]) -> dict[str, int]:
    """Return the bytes of this rank's parameters, gradients and optimizer states."""
    sizes = {"parameters": 0, "gradients": 0, "optimizer states": 0}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                sizes["parameters"] += _bytes(parameter)
                sizes["gradients"] += 0 if parameter.grad is None else _bytes(parameter.grad)
        for state in optimizer.state.values():
            sizes["optimizer states"] += sum(
                _bytes(value) for value in state.values() if isinstance(value, torch.Tensor)
            )
    return sizes


def _bytes(tensor: Any) -> int:
    """Return the bytes of the part of a tensor that this rank holds."""
    return int(getattr(tensor, "_local_tensor", tensor).nbytes)
