"""Device: where arrays lie and kernels run: numpy's memory, or a device of torch.

torch is imported only where somebody brings its tensors or asks for CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

try:
    from topoflow import _C
except ImportError as error:
    raise ImportError(f"topoflow._C: must be built, run `pip install .` ({error})") from error

Array = NDArray[Any]
T = TypeVar("T")
NAMES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Device:
    """Where the arrays of a launch lie and its kernel runs: numpy's memory (``torch`` None), or a device of torch."""

    torch: Any = None

    @classmethod
    def named(cls, name: str) -> Device:
        """ "cpu"; "cuda", torch's current GPU; or "auto", the GPU if there is a usable one, else the CPU.

        Raises ``ValueError`` for another name, and for "cuda" where something is missing.
        """
        if name not in NAMES:
            raise ValueError(f"device: must be one of {', '.join(NAMES)}, got {name!r}")
        missing = None if name == "cpu" else _missing_for_cuda()
        if name == "cuda" and missing is not None:
            raise ValueError(f"device: cuda needs {missing}")
        if name == "cpu" or missing is not None:
            return cls()
        import torch

        return cls(torch.device("cuda", torch.cuda.current_device()))

    @property
    def on_cuda(self) -> bool:
        return self.torch is not None and self.torch.type == "cuda"

    @property
    def stream(self) -> int:
        """The caller's stream, as a number."""
        if not self.on_cuda:
            return 0
        import torch

        return int(torch.cuda.current_stream(self.torch).cuda_stream)

    def zeros(self, *shape: int, dtype: str = "float64") -> Any:
        """A new array."""
        if self.torch is None:
            return np.zeros(shape, dtype)
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype), device=self.torch)

    def largest(self, rows: Any) -> Any:
        """The largest number of each row [W, n], 0 where n is 0."""
        if rows.shape[1] == 0:
            return self.zeros(len(rows))
        return rows.max(1) if self.torch is None else rows.amax(1)

    def put(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """numpy's arrays, where a kernel can reach them: as they are on a CPU, copies on a GPU."""
        if self.torch is None:
            return dict(arrays)
        import torch

        return {name: torch.from_numpy(array).to(self.torch) for name, array in arrays.items()}

    def write(self, to: Any, values: Array) -> None:
        """Copy numbers of numpy into an array that lies here."""
        if self.torch is None:
            to[...] = values
            return
        import torch

        to.copy_(torch.from_numpy(values))

    def numpy(self, array: Any) -> Array:
        """An array that lies here, in numpy's memory."""
        found: Array = array if self.torch is None else array.cpu().numpy()
        return found

    def flag(self) -> Any:
        """An int32 [1] that kernels read while Python writes it; on a GPU it is pinned memory of the host."""
        if not self.on_cuda:
            return np.zeros(1, np.int32)
        import torch

        return torch.zeros(1, dtype=torch.int32).pin_memory()


class Kept:
    """What stays on a device between launches: for each kind, that of the last objects it was made of."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[object, ...], Any]] = {}

    def get(self, kind: str, device: Device, owners: Sequence[object], make: Callable[[], T]) -> T:
        """What ``make`` makes of ``owners``, or made of them before. Nothing is kept in numpy's memory."""
        if device.torch is None:
            return make()
        known, found = self._last.get(kind, ((), None))
        if len(known) != len(owners) or any(one is not other for one, other in zip(known, owners, strict=True)):
            self._last.pop(kind, None)  # freed before anything else needs the memory
            found = make()
            self._last[kind] = tuple(owners), found
        kept: T = found
        return kept


def _missing_for_cuda() -> str | None:
    """What this machine lacks to run on a GPU; None: nothing."""
    if not _C.has_cuda:
        return "topoflow._C built with nvcc on the path, got a CPU build"
    try:
        import torch
    except ImportError:
        return "torch, run `pip install 'topoflow[torch]'`"
    return None if torch.cuda.is_available() else "a GPU that torch sees, got none"


def links_of(links: int, capacity: Any, latency: Any) -> tuple[Device, Any, Any]:
    """The device of the arrays [W, L] of links' numbers, and both as a kernel takes them; no latency stays None.

    They are numpy's or torch's; other objects that speak DLPack become torch's, without a copy. Raises ``ValueError``
    where their shape, dtype, device or a number breaks a law.
    """
    device, capacity = _numbers("capacity", capacity)
    if capacity.ndim != 2 or capacity.shape[1] != links:
        raise ValueError(f"capacity: expected [W, L] = [W, {links}], got {list(capacity.shape)}")
    if latency is None:
        return device, capacity, None
    other, latency = _numbers("latency", latency)
    if latency.shape != capacity.shape:
        raise ValueError(f"latency: expected [W, L] = {list(capacity.shape)}, got {list(latency.shape)}")
    if other != device:
        raise ValueError(f"latency: must lie where capacity does, in {_name(device)}, got {_name(other)}")
    return device, capacity, latency


def _numbers(name: str, array: Any) -> tuple[Device, Any]:
    if isinstance(array, np.ndarray):
        device, contiguous = Device(), array.flags.c_contiguous
        array = array if array.flags.writeable else array.copy()  # numpy does not hand out what is read-only
    elif not hasattr(array, "__dlpack__"):
        raise ValueError(f"{name}: must be an array, got {type(array).__name__}")
    else:
        import torch

        array = array.detach() if isinstance(array, torch.Tensor) else torch.from_dlpack(array)
        device, contiguous = Device(array.device), array.is_contiguous()
    if str(array.dtype).removeprefix("torch.") != "float64":
        raise ValueError(f"{name}: expected float64, got {array.dtype}")
    if not contiguous:
        raise ValueError(f"{name}: must be contiguous, got strides")
    if array.shape and 0 not in array.shape:
        low, high = float(array.min()), float(array.max())  # nan if there is one
        if not (low >= 0 and high < np.inf):
            raise ValueError(f"{name}: must be finite and not negative, got {low if not low >= 0 else high}")
    return device, array


def _name(device: Device) -> str:
    return "numpy" if device.torch is None else f"torch on {device.torch}"
