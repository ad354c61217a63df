"""GPUs for a torch without CUDA: tensors in the memory of the emulated devices, as far as topoflow uses them.

What a kernel reads was allocated by the emulation, so that it knows its bounds and its device. Work of torch on a GPU
is done by the CPU after what the current stream still has to do.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

CPU, CUDA = 1, 2  # DLPack's device types

library = ctypes.CDLL(os.environ["TOPOFLOW_EMULATED"])
for name, result, arguments in (
    ("allocate", ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_int)),
    ("allocate_pinned", ctypes.c_void_p, (ctypes.c_size_t,)),
    ("release", None, (ctypes.c_void_p,)),
    ("device", ctypes.c_int, ()),
    ("devices", ctypes.c_int, ()),
    ("set_device", None, (ctypes.c_int,)),
    ("memory_left", ctypes.c_size_t, (ctypes.c_int,)),
    ("memory", ctypes.c_size_t, ()),
    ("create_stream", ctypes.c_void_p, (ctypes.c_int,)),
    ("finish", ctypes.c_int, (ctypes.c_void_p,)),
    ("wait", None, (ctypes.c_void_p, ctypes.c_void_p)),
):
    function = getattr(library, f"emulation_{name}")
    function.restype, function.argtypes = result, arguments

memory: dict[int, int] = {}  # device of each storage, by its address


def place(plain: torch.Tensor, device: int | None, copy: bool = True) -> torch.Tensor:
    """The tensor in memory of a device; of pinned memory where it is None."""
    size = max(plain.numel() * plain.element_size(), 1)
    address = library.emulation_allocate_pinned(size) if device is None else library.emulation_allocate(size, device)
    if not address:
        raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes on GPU {device}")
    buffer = (ctypes.c_char * size).from_address(address)
    weakref.finalize(buffer, release, address).atexit = False
    if device is not None:
        memory[address] = device
        cache.take(address, size)
    flat = torch.frombuffer(buffer, dtype=torch.uint8)
    placed = flat[: size if plain.numel() else 0].view(plain.dtype).view(plain.shape)
    if copy and plain.numel():
        placed.copy_(plain)
    return placed


def allocate(size: int, device: Any = None, stream: Any = None) -> int:
    """``torch.cuda.caching_allocator_alloc``"""
    index = torch.cuda.current_device() if device is None else index_of(device)
    address = library.emulation_allocate(size, index)
    if not address:
        raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes on GPU {index}")
    cache.take(int(address), size)
    return int(address)


def release(address: int) -> None:
    memory.pop(address, None)
    cache.give_back(address)
    library.emulation_release(address)


class Cache:
    """What torch's caching allocator would keep: memory of a size, given back on a stream, is for it again.

    Here it is freed, so that an access after that is found; what torch would ask the GPU for is counted.
    """

    def __init__(self) -> None:
        self.kept: Counter[tuple[int, int]] = Counter()  # blocks by stream and size
        self.taken: dict[int, tuple[int, int]] = {}  # by address
        self.asked = 0  # times that the GPU was asked for memory
        self.lock = threading.RLock()  # memory may be given back while a lock is held, by the collection of garbage

    def take(self, address: int, size: int) -> None:
        block = torch.cuda.current_stream().cuda_stream or 0, (size + 511) // 512
        with self.lock:
            self.taken[address] = block
            self.asked += self.kept[block] == 0
            self.kept[block] -= self.kept[block] > 0

    def give_back(self, address: int) -> None:
        with self.lock:
            if address in self.taken:
                self.kept[self.taken.pop(address)] += 1


cache = Cache()


def without_overrides() -> Any:
    return torch._C.DisableTorchFunctionSubclass()


class Gpu(torch.Tensor):
    """A tensor of an emulated GPU."""

    @property
    def device(self) -> torch.device:
        with without_overrides():
            address = self.untyped_storage().data_ptr()
        return torch.device("cuda", memory.get(address, self.__dict__.get("_on", 0)))

    @property
    def is_cuda(self) -> bool:
        return True

    def cpu(self) -> torch.Tensor:
        finish()
        with without_overrides():
            return torch.Tensor.clone(self.as_subclass(torch.Tensor))

    def backward(self, *args: Any, **kwargs: Any) -> None:
        with without_overrides():
            plain = self.as_subclass(torch.Tensor)
        plain.backward(*args, **kwargs)  # with overrides: functions that it calls have tensors of GPUs

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, *_: Any, **__: Any) -> Any:
        self.numpy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, self.device.index)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        if self.device.index != torch.cuda.current_device():
            raise BufferError(
                "Can't export tensors on a different CUDA device index. "
                f"Expected: {self.device.index}. Current device: {torch.cuda.current_device()}."
            )
        if stream not in (None, -1):
            library.emulation_wait(0 if stream in (1, 2) else stream, torch.cuda.current_stream().cuda_stream)
        with without_overrides():
            capsule = torch.Tensor.__dlpack__(self.as_subclass(torch.Tensor).detach())
        tensor = Header.from_address(pointer_of(capsule, b"dltensor"))
        tensor.device_type, tensor.device_id = CUDA, self.device.index
        return capsule

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [argument for argument in (*args, *kwargs.values()) if isinstance(argument, torch.Tensor)]
        devices = [tensor.device.index for tensor in tensors if isinstance(tensor, Gpu)]
        if kwargs.get("device") is not None:
            kwargs.pop("device")
        copies = function is torch.Tensor.copy_
        if not copies and (
            len({*devices}) > 1
            or (
                len(devices) < len(tensors)
                and any(tensor.dim() for tensor in tensors if not isinstance(tensor, Gpu))
                and function is not torch.Tensor.__getitem__
            )
        ):
            raise RuntimeError("Expected all tensors to be on the same device")
        finish()
        with without_overrides():
            returned = function(*args, **kwargs)
            if copies:
                return args[0]
            return on_gpu(returned, devices[0] if devices else 0)


def on_gpu(value: Any, device: int) -> Any:
    """The tensors of what a function of torch has returned, on the device; others as they are."""
    if isinstance(value, Gpu):
        return value
    if isinstance(value, torch.Tensor):
        if value.untyped_storage().data_ptr() not in memory:
            with torch.no_grad():
                value.data = place(value.detach(), device)
        gpu = value.as_subclass(Gpu)
        gpu.__dict__["_on"] = device
        return gpu
    if isinstance(value, tuple | list):
        return type(value)([on_gpu(item, device) for item in value])
    return value


def finish() -> None:
    """All of the current stream; raises what a kernel of it did wrong."""
    if library.emulation_finish(torch.cuda.current_stream().cuda_stream):
        raise RuntimeError("CUDA error: unspecified launch failure")


class Header(ctypes.Structure):
    """The beginning of DLPack's DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def index_of(device: Any) -> int | None:
    """The number of a GPU; None: it is none."""
    if device is None:
        return None
    device = torch.device(device) if not isinstance(device, int) else torch.device("cuda", device)
    if device.type != "cuda":
        return None
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= library.emulation_devices():
        raise RuntimeError("CUDA error: invalid device ordinal")
    return int(index)


def factory(make: Callable[..., torch.Tensor], copy: bool = True) -> Callable[..., torch.Tensor]:
    """A function of torch that takes ``device``."""

    def create(*args: Any, device: Any = None, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        index = index_of(device)
        plain = make(*args, **kwargs, **({"device": device} if device is not None and index is None else {}))
        if pin_memory:
            return pinned(plain)
        return plain if index is None else on_gpu_from(plain, index, copy)

    return create


def on_gpu_from(plain: torch.Tensor, device: int, copy: bool = True) -> torch.Tensor:
    with without_overrides():
        gpu = place(plain.as_subclass(torch.Tensor).detach(), device, copy).as_subclass(Gpu)
    gpu.__dict__["_on"] = device
    return gpu.requires_grad_() if plain.requires_grad else gpu


def pinned(plain: torch.Tensor) -> torch.Tensor:
    return place(plain, None)


def moved(to: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``Tensor.to`` that knows GPUs."""

    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        target = kwargs.get("device", args[0] if args else None)
        if not isinstance(target, torch.device | str):
            return to(self, *args, **kwargs)
        dtypes = [one for one in args[1:] if isinstance(one, torch.dtype)]
        index = index_of(target)
        if index is None:
            host = self.cpu() if isinstance(self, Gpu) else self
            return to(host, target, *dtypes)
        if isinstance(self, Gpu) and self.device.index == index:
            return to(self, *dtypes) if dtypes else self
        plain = self.cpu() if isinstance(self, Gpu) else self
        return on_gpu_from(to(plain, *dtypes) if dtypes else plain, index)

    return method


def imported(from_dlpack: Callable[[Any], torch.Tensor]) -> Callable[[Any], torch.Tensor]:
    """``torch.from_dlpack`` that knows GPUs."""

    def import_tensor(source: Any) -> torch.Tensor:
        kind, device = source.__dlpack_device__()
        if kind != CUDA:
            return from_dlpack(source)
        capsule = source.__dlpack__(stream=torch.cuda.current_stream(device).cuda_stream or 1)
        tensor = Header.from_address(pointer_of(capsule, b"dltensor"))
        tensor.device_type, tensor.device_id = CPU, 0
        returned: torch.Tensor = on_gpu(from_dlpack(capsule), device)
        return returned

    return import_tensor


class Stream:
    def __init__(self, device: Any = None, priority: int = 0, *, address: int | None = None) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device() if device is None else index_of(device))
        self.cuda_stream = library.emulation_create_stream(self.device.index) if address is None else address

    def synchronize(self) -> None:
        if library.emulation_finish(self.cuda_stream):
            raise RuntimeError("CUDA error: unspecified launch failure")

    def wait_stream(self, other: Stream) -> None:
        library.emulation_wait(self.cuda_stream, other.cuda_stream)

    def query(self) -> bool:
        self.synchronize()
        return True

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        if event.stream is not None:
            self.wait_stream(event.stream)


class Event:
    def __init__(self, **_: Any) -> None:
        self.stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or torch.cuda.current_stream()

    def wait(self, stream: Stream | None = None) -> None:
        (stream or torch.cuda.current_stream()).wait_event(self)

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.synchronize()

    def query(self) -> bool:
        return True


class Using:
    """``torch.cuda.device``: a GPU as the current one."""

    def __init__(self, device: Any) -> None:
        self.index = index_of(device)

    def __enter__(self) -> None:
        self.before = torch.cuda.current_device()
        if self.index is not None:
            library.emulation_set_device(self.index)

    def __exit__(self, *_: object) -> None:
        library.emulation_set_device(self.before)


def install() -> None:
    """Give torch GPUs."""
    local = threading.local()
    cuda: Any = torch.cuda

    def current_stream(device: Any = None) -> Stream:
        index = library.emulation_device() if device is None else index_of(device)
        stream: Stream | None = getattr(local, "streams", {}).get(index)
        return stream or Stream(index, address=0)

    @contextmanager
    def stream(used: Stream | None) -> Iterator[None]:
        if used is None:
            yield
            return
        before = dict(getattr(local, "streams", {}))
        with Using(used.device):
            local.streams = {**before, used.device.index: used}
            try:
                yield
            finally:
                local.streams = before

    def set_stream(used: Stream) -> None:
        local.streams = {**getattr(local, "streams", {}), used.device.index: used}

    for name in ("zeros", "ones", "full", "arange", "tensor", "as_tensor", "rand", "randn", "linspace"):
        setattr(torch, name, factory(getattr(torch, name)))
    torch.empty = factory(torch.empty, copy=False)
    torch.from_dlpack = imported(torch.from_dlpack)
    torch.Tensor.to = moved(torch.Tensor.to)
    torch.Tensor.cuda = lambda self, device=None, **_: self.to(torch.device("cuda") if device is None else device)
    torch.Tensor.pin_memory = lambda self, *_: pinned(self)
    torch.Tensor.record_stream = lambda self, _: None
    cuda.is_available = lambda: library.emulation_devices() > 0
    cuda.is_initialized = lambda: True
    cuda.init = lambda: None
    cuda.device_count = library.emulation_devices
    cuda.current_device = library.emulation_device
    cuda.set_device = lambda device: library.emulation_set_device(index_of(device))
    cuda.device = Using
    cuda.current_stream = current_stream
    cuda.default_stream = lambda device=None: Stream(device, address=0)
    cuda.Stream, cuda.Event, cuda.stream, cuda.set_stream = Stream, Event, stream, set_stream
    cuda.ExternalStream = lambda address, device=None: Stream(device, address=address)
    cuda.synchronize = lambda device=None: finish_all()
    cuda.mem_get_info = lambda device=None: (
        library.emulation_memory_left(library.emulation_device() if device is None else index_of(device)),
        library.emulation_memory(),
    )
    cuda.memory_stats = lambda device=None: {"num_device_alloc": cache.asked}
    cuda.memory_reserved = cuda.memory_allocated = lambda device=None: 0  # nothing is kept
    cuda.caching_allocator_alloc = allocate
    cuda.caching_allocator_delete = release
    cuda.empty_cache = lambda: None
    cuda.get_device_name = lambda device=None: "emulated GPU"
    cuda.get_device_capability = lambda device=None: divmod(int(os.environ.get("CUDA_EMULATION_ARCHITECTURE", 90)), 10)
    cuda.get_device_properties = lambda device=None: SimpleNamespace(
        name="emulated GPU", major=9, minor=0, multi_processor_count=2, total_memory=library.emulation_memory()
    )


def finish_all() -> None:
    if library.emulation_finish(None):
        raise RuntimeError("CUDA error: unspecified launch failure")
