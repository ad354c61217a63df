"""Launch: a kernel runs in a thread of its own, so that progress is shown and Ctrl-C works meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from topoflow import _C
from topoflow.engine.device import Device

MAX_THREADS = 1024  # OpenMP gives up beyond some thousands
POLL_INTERVAL = 0.1  # s
MAX_NAMES = 3  # in an error


def count_threads(threads: int | None) -> int:
    """What a kernel takes: 0 for all. Raises ``ValueError`` unless ``threads`` is None or within 1..MAX_THREADS."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads: must be None or within 1..{MAX_THREADS}, got {threads!r}")
    return threads


class Named(Protocol):
    """A world."""

    @property
    def name(self) -> str: ...


W = TypeVar("W", bound=Named)
T = TypeVar("T")


class KernelFault(ValueError):
    """A kernel has ended the process's use of its GPU, as an access outside of memory does; a CPU still works."""


def launch(
    kernel: Callable[[], object],
    cancel: Any,
    device: Device = Device(),
    *,
    poll: Callable[[], None] | None = None,
    running: Callable[[], Sequence[str]] = tuple,
) -> None:
    """Call ``kernel`` on the caller's stream of ``device``, and ``poll`` repeatedly until it returns.

    What is raised meanwhile sets ``cancel``. Raises ``KernelFault`` with the names of the worlds that are ``running``
    where the GPU stops the kernel.
    """
    stream = device.current_stream()

    def run() -> object:
        with device.using(stream):
            return kernel()

    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            future = pool.submit(run)
            while not wait([future], timeout=POLL_INTERVAL).done:
                if poll is not None:
                    poll()
        except BaseException:
            cancel[0] = 1
            raise
    try:
        future.result()
    except _C.Fault as error:
        raise KernelFault(f"{device.torch}: must run {_listed(running())} without a fault, got {error}") from None


def in_halves(worlds: Sequence[W], device: Device, simulate: Callable[[Sequence[W], int], list[T]]) -> list[T]:
    """``simulate(worlds, 0)``; where the device's memory is not enough, of each half, with its first world's number.

    Raises ``ValueError`` that names a world which does not fit by itself.
    """

    def run(part: Sequence[W], first: int) -> list[T]:
        try:
            return simulate(part, first)
        except RuntimeError as error:
            if not device.lacks_memory(error):
                raise
            reason = str(error).partition("\n")[0]
        if len(part) == 1:
            raise ValueError(f"{part[0].name}: must fit in the memory of {device.torch}, got {reason}")
        half = len(part) // 2
        return run(part[:half], first) + run(part[half:], first + half)

    return run(worlds, 0)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more if names else "a kernel"
