"""Device: where arrays lie and kernels run: numpy's memory, or a device of torch.

torch is imported only where somebody brings its tensors or asks for CUDA.
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from topoflow.units import check_capacity, check_not_negative

try:
    from topoflow import _C
except ImportError as error:
    raise ImportError(f"topoflow._C: must be built, run `pip install .` ({error})") from error

Array = NDArray[Any]
T = TypeVar("T")
NAMES = ("auto", "cpu", "cuda", "cuda:N")  # and several of the last with commas
HOST_MEMORY = 2**31  # B for the arrays of one launch on a CPU, and as much again for the state of its teams
PINNED_ABOVE = 2**20  # B of an array: a copy of fewer takes less than to pin them
SHARE = 4  # of a GPU's free memory: arrays of the launch that runs and of the next, state of teams, a reserve


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a launch's arrays, where its kernel runs: numpy's (``torch`` None), or a device of torch.

    ``others`` share the worlds of a batch with it (``topoflow.engine.launch.in_pieces``); all else is its own. Where it
    ``pins``, large copies to a GPU go through pinned memory, which is faster from the second one on.
    """

    torch: Any = None
    others: tuple[DeviceMemory, ...] = ()
    pins: bool = field(default=False, compare=False)

    @classmethod
    def named(cls, name: str) -> DeviceMemory:
        """Return the device of a name.

        "cpu"; "cuda", torch's current GPU; "cuda:1", the second; "auto", the GPU if one is usable, else the CPU;
        "cuda:0,cuda:1": both share each batch. Raises ``ValueError`` for another name, and for a GPU where something is
        missing.
        """
        check_name(name)
        if "," in name:
            first, *others = (cls.named(part) for part in name.split(","))
            return cls(first.torch, tuple(others))
        kind, _, number = name.partition(":")
        missing = None if name == "cpu" else _missing_for_cuda(int(number) if number else None)
        if kind == "cuda" and missing is not None:
            raise ValueError(f"device: {name} needs {missing}")
        if name == "cpu" or missing is not None:
            return cls()
        import torch

        return cls(torch.device("cuda", int(number) if number else torch.cuda.current_device()))

    @property
    def all(self) -> tuple[DeviceMemory, ...]:
        """Return this device and the others, each as a separate device."""
        return (DeviceMemory(self.torch), *self.others)

    @property
    def on_cuda(self) -> bool:
        return self.torch is not None and self.torch.type == "cuda"

    @property
    def stream(self) -> int:
        """The caller's stream, as a number."""
        return int(self.current_stream().cuda_stream) if self.on_cuda else 0

    def current_stream(self) -> Any:
        """The caller's stream on this GPU, for ``using``; None on a CPU."""
        if not self.on_cuda:
            return None
        import torch

        return torch.cuda.current_stream(self.torch)

    def other_stream(self) -> Any:
        """A stream of this GPU other than the caller's, for ``using``: the same at every call."""
        return _other_stream(self.torch)

    @contextmanager
    def using(self, stream: Any) -> Iterator[None]:
        """Makes this GPU and the stream torch's current ones in this thread: torch exports arrays of no other GPU."""
        if not self.on_cuda:
            yield
            return
        import torch

        with torch.cuda.device(self.torch), torch.cuda.stream(stream):
            yield

    def wait(self) -> None:
        """Wait until the work on the caller's stream is done."""
        if self.on_cuda:
            self.current_stream().synchronize()

    @property
    def memory(self) -> int:
        """B for the arrays of one launch; as much again for the state of its teams."""
        if not self.on_cuda:
            return HOST_MEMORY
        import torch

        free, _ = torch.cuda.mem_get_info(self.torch)
        unused = torch.cuda.memory_reserved(self.torch) - torch.cuda.memory_allocated(self.torch)
        return int(free + unused) // SHARE

    def lacks_memory(self, error: Exception) -> bool:
        """Return whether ``error`` says that the memory of this device is not enough."""
        if self.torch is None:
            return False
        import torch

        return isinstance(error, torch.OutOfMemoryError)

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
        """numpy's arrays, where a kernel can reach them: as they are on a CPU, copies on a GPU.

        These are made on the caller's stream.
        """
        return dict(arrays) if self.torch is None else {name: self._put(array) for name, array in arrays.items()}

    def _put(self, array: Array) -> Any:
        import torch

        host = torch.from_numpy(array)
        if not self.pins or array.nbytes < PINNED_ABOVE:
            return host.to(self.torch)
        return host.pin_memory().to(self.torch, non_blocking=True)  # torch keeps what is pinned until it is copied

    def write(self, to: Any, values: Array) -> None:
        """Copy numbers of numpy into an array that lies here."""
        if self.torch is None:
            to[...] = values
            return
        import torch

        to.copy_(torch.from_numpy(values))

    def numpy(self, array: Any) -> Array:
        """Return an array of this device in numpy's memory."""
        host_array: Array = array if self.torch is None else array.cpu().numpy()
        return host_array

    def shared(self, n: int) -> Any:
        """Return int32 [n] zeros in the host's memory, which a kernel and Python read and write at the same time."""
        if self.torch is None:
            return np.zeros(n, np.int32)
        import torch

        host_array = torch.zeros(n, dtype=torch.int32)
        return host_array.pin_memory() if self.on_cuda else host_array

    def here(self, shared: Any) -> Any:
        """Return an array that ``shared`` has made, on the device of all other arrays."""
        return shared.to(self.torch) if self.on_cuda else shared

    def flag(self) -> Any:
        """Return the int32 [1] that stops a kernel once it is not 0."""
        return self.shared(1)


def check_name(name: object) -> None:
    """Raise ``ValueError`` unless it is one that ``DeviceMemory.named`` knows, here or on another machine."""
    if name in NAMES[:3]:
        return
    names = name.split(",") if isinstance(name, str) else [name]
    numbered = [entry for entry in names if isinstance(entry, str) and re.fullmatch(r"cuda:\d{1,4}", entry, re.ASCII)]
    if len(names) == 1 and not numbered:
        raise ValueError(f"device: must be one of {', '.join(NAMES)}, got {name!r}")
    if len(names) > 1 and len(numbered) < len(names):
        raise ValueError(f"device: must be cuda:N for each of several, got {name!r}")
    if len({int(entry[5:]) for entry in numbered}) < len(numbered):
        raise ValueError(f"device: must be another GPU each time, got {name!r}")


class DeviceCache:
    """A cache on each device between launches: for each kind, the value of the last owners."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, DeviceMemory], tuple[tuple[object, ...], Any]] = {}

    def get(self, kind: str, device: DeviceMemory, owners: Sequence[object], make: Callable[[], T]) -> T:
        """Return the last value of ``owners``, or a new one of ``make``. Nothing is cached in numpy's memory."""
        if device.torch is None:
            return make()
        known_owners, value = self._last.get((kind, device), ((), None))
        if len(known_owners) != len(owners) or any(map(operator.is_not, known_owners, owners)):
            self._last.pop((kind, device), None)  # freed before anything else needs the memory
            value = make()
            device.wait()  # another stream may read it
            self._last[kind, device] = tuple(owners), value
        cached: T = value
        return cached


@cache
def _other_stream(device: Any) -> Any:
    import torch

    return torch.cuda.Stream(device)  # torch keeps memory for each stream: it should not be another every time


def build() -> str:
    """Return the file of the compiled module, and the devices it was built for."""
    if not _C.has_cuda:
        return f"{_C.__file__}: CPU, without CUDA"
    return (
        f"{_C.__file__}: CPU and CUDA for {', '.join(f'sm_{architecture // 10}' for architecture in _C.architectures)}"
    )


def _missing_for_cuda(number: int | None) -> str | None:
    """Return what this machine lacks to run on a GPU (``number`` None: torch's current one); None: nothing."""
    if not _C.has_cuda:
        return "topoflow._C built with nvcc on the path, got a CPU build"
    try:
        import torch
    except ImportError:
        return "torch, run `pip install 'topoflow[torch]'`"
    if torch.version.cuda is None and not torch.cuda.is_available():
        return f"torch built with CUDA, got {torch.__version__}"
    with warnings.catch_warnings(record=True) as caught_warnings:  # why, where it is the driver
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        reason = caught_warnings[0].message if caught_warnings else ""
        return " ".join(f"a GPU that torch sees, got none. {reason}".split())
    if number is not None and number >= torch.cuda.device_count():
        return f"more GPUs than torch sees, got {torch.cuda.device_count()}"
    number = torch.cuda.current_device() if number is None else number
    try:
        if _C.has_kernels_for(number):
            return None
    except _C.Fault as error:  # of an earlier kernel: CUDA answers nothing else until the process ends
        return f"a process in which no kernel has failed, got {error}"
    built = ", ".join(f"sm_{architecture // 10}" for architecture in _C.architectures)
    major, minor = torch.cuda.get_device_capability(number)
    build = f"CUDAARCHS={major}{minor} pip install ."
    return f"a GPU that topoflow._C is built for, {built}, got sm_{major}{minor}; run `{build}`"


def links_of(links: int, capacity: Any, latency: Any) -> tuple[DeviceMemory, Any, Any]:
    """The device of the arrays [W, L] of links' numbers, and both as a kernel takes them; no latency stays None.

    They are numpy's or torch's; other objects that speak DLPack become torch's, without a copy. Raises ``ValueError``
    where their shape, dtype, device or a number breaks a law.
    """
    device, capacity = _numbers("capacity", capacity, check_capacity)
    if capacity.ndim != 2 or capacity.shape[1] != links:
        raise ValueError(f"capacity: expected [W, L] = [W, {links}], got {list(capacity.shape)}")
    if latency is None:
        return device, capacity, None
    other, latency = _numbers("latency", latency, check_not_negative)
    if latency.shape != capacity.shape:
        raise ValueError(f"latency: expected [W, L] = {list(capacity.shape)}, got {list(latency.shape)}")
    if other != device:
        raise ValueError(f"latency: must lie where capacity does, in {_name(device)}, got {_name(other)}")
    return device, capacity, latency


def _numbers(name: str, array: Any, check: Callable[[str, float], None]) -> tuple[DeviceMemory, Any]:
    if isinstance(array, np.ndarray):
        device, contiguous = DeviceMemory(), array.flags.c_contiguous
        array = array if array.flags.writeable else array.copy()  # numpy does not hand out what is read-only
    elif not hasattr(array, "__dlpack__"):
        raise ValueError(f"{name}: must be an array, got {type(array).__name__}")
    else:
        import torch

        array = array.detach() if isinstance(array, torch.Tensor) else torch.from_dlpack(array)
        device, contiguous = DeviceMemory(array.device), array.is_contiguous()
    if str(array.dtype).removeprefix("torch.") != "float64":
        raise ValueError(f"{name}: expected float64, got {array.dtype}")
    if not contiguous:
        raise ValueError(f"{name}: must be contiguous, got strides")
    if array.shape and 0 not in array.shape:
        for extreme in (array.min(), array.max()):  # nan if there is one
            check(name, float(extreme))
    return device, array


def _name(device: DeviceMemory) -> str:
    return "numpy" if device.torch is None else f"torch on {device.torch}"
