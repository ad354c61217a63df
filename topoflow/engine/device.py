"""Where arrays lie: numpy's memory, or a device of torch.

torch is imported only where somebody brings its tensors or asks for CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from topoflow import _C
except ImportError as error:
    raise ImportError(f"topoflow._C: must be built, run `pip install .` ({error})") from error

Array = NDArray[Any]


@dataclass(frozen=True)
class Home:
    """Where the arrays of a launch lie: numpy's memory (``device`` None), or a device of torch."""

    device: Any = None

    @property
    def on_cuda(self) -> bool:
        return self.device is not None and self.device.type == "cuda"

    @property
    def stream(self) -> int:
        """The caller's stream, as a number."""
        if not self.on_cuda:
            return 0
        import torch

        return int(torch.cuda.current_stream(self.device).cuda_stream)

    def zeros(self, *shape: int, dtype: str = "float64") -> Any:
        """A new array."""
        if self.device is None:
            return np.zeros(shape, dtype)
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype), device=self.device)

    def largest(self, rows: Any) -> Any:
        """The largest number of each row [W, n], 0 where n is 0."""
        if rows.shape[1] == 0:
            return self.zeros(len(rows))
        return rows.max(1) if self.device is None else rows.amax(1)

    def put(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """numpy's arrays, where a kernel can reach them: as they are on a CPU, copies on a GPU."""
        if not self.on_cuda:
            return dict(arrays)
        import torch

        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}

    def write(self, to: Any, values: Array) -> None:
        """Numbers of numpy into an array that lies here."""
        if self.device is None:
            to[...] = values
            return
        import torch

        to.copy_(torch.from_numpy(values))

    def numpy(self, array: Any) -> Array:
        """An array that lies here, in numpy's memory."""
        found: Array = array if self.device is None else array.cpu().numpy()
        return found

    def flag(self) -> Any:
        """An int32 [1] that kernels read while Python writes it; on a GPU it is pinned memory of the host."""
        if not self.on_cuda:
            return np.zeros(1, np.int32)
        import torch

        return torch.zeros(1, dtype=torch.int32).pin_memory()


def home(device: str) -> Home:
    """Raises ``ValueError`` unless ``device`` is "cpu", or "cuda" and there is one."""
    if device == "cpu":
        return Home()
    if device != "cuda":
        raise ValueError(f"device: must be cpu or cuda, got {device!r}")
    if not _C.has_cuda:
        raise ValueError("device: topoflow._C must be built with nvcc on the path to run on 'cuda', got a CPU build")
    try:
        import torch
    except ImportError:
        raise ValueError("device: 'cuda' needs torch, run `pip install 'topoflow[torch]'`") from None
    if not torch.cuda.is_available():
        raise ValueError("device: 'cuda' needs a GPU that torch sees, got none")
    return Home(torch.device("cuda", torch.cuda.current_device()))


def links_of(links: int, capacity: Any, latency: Any) -> tuple[Home, Any, Any]:
    """Where the arrays [W, L] of links' numbers lie, and both as a kernel takes them; no latency stays None.

    They are numpy's or torch's; other objects that speak DLPack become torch's, without a copy. Raises ``ValueError``
    where their shape, dtype, device or a number breaks a law.
    """
    where, capacity = _numbers("capacity", capacity)
    if capacity.ndim != 2 or capacity.shape[1] != links:
        raise ValueError(f"capacity: expected [W, L] = [W, {links}], got {list(capacity.shape)}")
    if latency is None:
        return where, capacity, None
    also, latency = _numbers("latency", latency)
    if latency.shape != capacity.shape:
        raise ValueError(f"latency: expected [W, L] = {list(capacity.shape)}, got {list(latency.shape)}")
    if also != where:
        raise ValueError(f"latency: must lie where capacity does, in {_name(where)}, got {_name(also)}")
    return where, capacity, latency


def _numbers(name: str, array: Any) -> tuple[Home, Any]:
    if isinstance(array, np.ndarray):
        where, contiguous = Home(), array.flags.c_contiguous
        array = array if array.flags.writeable else array.copy()  # numpy does not hand out what is read-only
    elif not hasattr(array, "__dlpack__"):
        raise ValueError(f"{name}: must be an array, got {type(array).__name__}")
    else:
        import torch

        array = array.detach() if isinstance(array, torch.Tensor) else torch.from_dlpack(array)
        where, contiguous = Home(array.device), array.is_contiguous()
    if str(array.dtype).removeprefix("torch.") != "float64":
        raise ValueError(f"{name}: expected float64, got {array.dtype}")
    if not contiguous:
        raise ValueError(f"{name}: must be contiguous, got strides")
    if array.shape and 0 not in array.shape:
        low, high = float(array.min()), float(array.max())  # nan if there is one
        if not (low >= 0 and high < np.inf):
            raise ValueError(f"{name}: must be finite and not negative, got {low if not low >= 0 else high}")
    return where, array


def _name(where: Home) -> str:
    return "numpy" if where.device is None else f"torch on {where.device}"
