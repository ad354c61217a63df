"""Launch: a kernel runs in a thread of its own, so that progress is shown and Ctrl-C works meanwhile.

    launch       one kernel, or one on each of several devices
    in_pieces    the worlds of a batch, on one device or several

A GPU has two pieces at a time, on a stream each: one is copied while the kernel of the other runs. Everything but
kernels happens in the caller's thread.

    copies    1 to | 2 to |      | 1 back, 3 to | 2 back, 4 to |
    stream a       | kernel 1    |              | kernel 3 ...
    stream b              | kernel 2            |              | kernel 4 ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from topoflow import _C
from topoflow.engine.device import DeviceMemory
from topoflow.engine.observer import Observer

MAX_THREADS = 1024  # OpenMP gives up beyond some thousands
POLL_INTERVAL = 0.1  # s
MAX_NAMES = 3  # in an error
STREAMS = 2  # of a GPU: one piece is copied while the kernel of another runs
SHARES = 4  # pieces for each of several GPUs, so that one that is done earlier takes more of them


def count_threads(threads: int | None) -> int:
    """Return the threads of a kernel, 0 for all. Raises ``ValueError`` unless they are None or 1..MAX_THREADS."""
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
S = TypeVar("S")


class KernelFault(ValueError):
    """A kernel has ended the process's use of its GPU, as an access outside of memory does; a CPU still works."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that is to run: ``call`` returns when it has ended, which what is not 0 in ``cancel`` [1] hastens."""

    call: Callable[[], object]
    cancel: Any
    running: Callable[[], Sequence[str]] = tuple  # names of the worlds that it is at, for an error
    done: Callable[[], float] = int  # worlds of this launch that have ended, and shares of those that run


Steps = Generator[Kernel, None, T]  # what comes before a kernel, the kernel, and what comes after it


def launch(kernel: Kernel, device: DeviceMemory = DeviceMemory()) -> None:
    """Run it on the caller's stream of ``device``. What is raised meanwhile, as by Ctrl-C, cancels it.

    Raises ``KernelFault`` with the names of the worlds that it was at where the GPU stops it.
    """
    launch_together([(kernel, device)])


def launch_together(kernels: Sequence[tuple[Kernel, DeviceMemory]]) -> None:
    """Run each kernel on its device, all at once, as ``launch`` does one; return when all have ended."""
    with ThreadPoolExecutor(max_workers=len(kernels)) as pool:
        try:
            begun = [_Begun(kernel, Lane(device), pool) for kernel, device in kernels]
            while wait([kernel_run.future for kernel_run in begun], timeout=POLL_INTERVAL).not_done:
                pass
        except BaseException:
            for kernel, _ in kernels:
                kernel.cancel[0] = 1
            raise
    for kernel_run in begun:
        kernel_run.result()


def in_pieces(
    worlds: Sequence[W],
    device: DeviceMemory,
    observer: Observer,
    cut: Callable[[Sequence[W], int], Iterable[Sequence[W]]],
    steps: Callable[[Sequence[W], DeviceMemory], Steps[list[T]]],
) -> list[T]:
    """Return what ``steps`` return of the pieces of a batch, in the order of ``worlds``, on any device.

    ``cut`` makes pieces that fit in this much memory (B). One that does not after all is tried again without others,
    then in halves. ``observer`` is informed how many of the worlds are done.

    Raises ``ValueError`` that names a world which does not fit by itself, and as ``launch`` does.
    """
    memory = min(member.memory for member in device.all)
    pieces = [piece for share in _shares(worlds, len(device.all)) for piece in cut(share, memory)]
    return _Batch(pieces, device, observer, steps).run()


def cut_by_memory(worlds: Sequence[W], memory: int, needed: Callable[[W], int]) -> Iterator[Sequence[W]]:
    """Yield pieces of a batch, in order, that need at most ``memory`` B each; a world that needs more goes alone."""
    first, used = 0, 0
    for index, world in enumerate(worlds):
        need = needed(world)
        if index > first and used + need > memory:
            yield worlds[first:index]
            first, used = index, 0
        used += need
    if first < len(worlds):
        yield worlds[first:]


def _shares(worlds: Sequence[W], devices: int) -> list[Sequence[W]]:
    """The worlds, in order, cut into about equally many for each of several devices; all of them for one."""
    count = min(SHARES * devices if devices > 1 else 1, len(worlds))
    bounds = [len(worlds) * share // count for share in range(count + 1)] if count else []
    return [worlds[first:end] for first, end in pairwise(bounds)]


class Lane:
    """A place for one kernel at a time: a stream of a GPU, number 0 the caller's, or the CPU."""

    def __init__(self, device: DeviceMemory, number: int = 0) -> None:
        self.device, self.number = device, number
        self._stream = device.current_stream() if number == 0 else None

    def using(self) -> Any:
        """A context in which arrays are made and copied on this stream."""
        if self._stream is None and self.number > 0:
            self._stream = self.device.other_stream()
        return self.device.using(self._stream)


class _Begun:
    """A kernel that runs in a thread of the pool."""

    def __init__(self, kernel: Kernel, lane: Lane, pool: ThreadPoolExecutor) -> None:
        self.kernel, self.lane = kernel, lane

        def run() -> object:
            with lane.using():
                return kernel.call()

        self.future: Future[object] = pool.submit(run)

    def result(self) -> None:
        try:
            self.future.result()
        except _C.Fault as error:
            names = listed(self.kernel.running())
            raise KernelFault(f"{self.lane.device.torch}: must run {names} without a fault, got {error}") from None


@dataclass(frozen=True)
class _Piece(Generic[W]):
    first: int  # of its worlds, in the whole batch
    worlds: Sequence[W]
    alone: bool  # runs only while no other does


class _Batch(Generic[W, T]):
    """Pieces that wait, those that run on a lane each, and what was found of those that have ended."""

    def __init__(
        self,
        pieces: Sequence[Sequence[W]],
        device: DeviceMemory,
        observer: Observer,
        steps: Callable[[Sequence[W], DeviceMemory], Steps[list[T]]],
    ) -> None:
        devices = [replace(member, pins=member.on_cuda and len(pieces) > len(device.all)) for member in device.all]
        lanes = [Lane(member, n) for n in range(STREAMS) for member in devices if n == 0 or member.on_cuda]
        self.free = deque(lanes[: len(pieces)])
        self.waiting: deque[_Piece[W]] = deque()
        self.total = 0
        for worlds in pieces:
            self.waiting.append(_Piece(self.total, worlds, alone=len(self.free) == 1))
            self.total += len(worlds)
        self.observer, self.steps = observer, steps
        self.busy: dict[Future[object], tuple[_Piece[W], Steps[list[T]], _Begun]] = {}
        self.results: dict[int, list[T]] = {}  # by the first world
        self.failed: dict[int, ValueError] = {}  # likewise
        self.cancels: list[Any] = []  # of all kernels that were begun

    def run(self) -> list[T]:
        if not self.waiting:
            return []
        with ThreadPoolExecutor(max_workers=len(self.free)) as pool:
            try:
                while self.waiting or self.busy:
                    self._begin(pool)
                    self._wait()
            except BaseException:
                for cancel in self.cancels:
                    cancel[0] = 1
                raise
        if self.failed:
            raise self.failed[min(self.failed)]
        return [result for first in sorted(self.results) for result in self.results[first]]

    def _begin(self, pool: ThreadPoolExecutor) -> None:
        """Give the next pieces to lanes that are free."""
        while self.waiting and self.free and not (self.busy and self._excludes_others()):
            piece, lane = self.waiting.popleft(), self.free.popleft()
            steps = self.steps(piece.worlds, lane.device)

            def begin(steps: Steps[list[T]] = steps, lane: Lane = lane) -> _Begun:
                with lane.using():
                    kernel = next(steps)
                    self.cancels.append(kernel.cancel)
                    return _Begun(kernel, lane, pool)

            begun = self._tried(piece, lane, begin)
            if begun is None:
                self.free.appendleft(lane)
            else:
                self.busy[begun.future] = piece, steps, begun

    def _excludes_others(self) -> bool:
        """Return whether the next piece waits for those that run, or one of these runs alone."""
        return self.waiting[0].alone or any(piece.alone for piece, *_ in self.busy.values())

    def _wait(self) -> None:
        """Wait until a kernel has ended, at most ``POLL_INTERVAL``."""
        if not self.busy:
            return
        for future in wait(self.busy, timeout=POLL_INTERVAL, return_when=FIRST_COMPLETED).done:
            self._end(future)
        self.observer.advance(self._done(), self.total)

    def _done(self) -> float:
        return sum(map(len, self.results.values())) + sum(begun.kernel.done() for *_, begun in self.busy.values())

    def _end(self, future: Future[object]) -> None:
        """Store the results of a kernel, and free its lane."""
        piece, steps, begun = self.busy.pop(future)

        def end() -> list[T]:
            with begun.lane.using():
                begun.result()
                return _returned(steps)

        results = self._tried(piece, begun.lane, end)
        if results is not None:
            self.results[piece.first] = results
        self.free.append(begun.lane)

    def _tried(self, piece: _Piece[W], lane: Lane, step: Callable[[], S]) -> S | None:
        """Return the result of ``step``, or None if it failed.

        If memory is insufficient, the piece waits once more. If worlds are invalid, the error is stored: of several
        invalid pieces, the error of the first in order is raised, even if another one ends first.
        """
        try:
            return step()
        except KernelFault:
            raise
        except ValueError as error:
            self.failed[piece.first] = error
            self.waiting.clear()
            return None
        except RuntimeError as error:
            if not lane.device.lacks_memory(error):
                raise
            reason = str(error).partition("\n")[0]
            error.__traceback__ = None  # its frames keep arrays
        self._again(piece, lane.device, reason)
        return None

    def _again(self, piece: _Piece[W], device: DeviceMemory, reason: str) -> None:
        first, worlds = piece.first, piece.worlds
        if not piece.alone:  # it may fit without the others
            self.waiting.appendleft(_Piece(first, worlds, alone=True))
            return
        if len(worlds) == 1:
            raise ValueError(f"{worlds[0].name}: must fit in the memory of {device.torch}, got {reason}")
        half = len(worlds) // 2
        self.waiting.appendleft(_Piece(first + half, worlds[half:], alone=True))
        self.waiting.appendleft(_Piece(first, worlds[:half], alone=True))


def _returned(steps: Steps[T]) -> T:
    """Return the value of ``steps`` after their kernel."""
    try:
        next(steps)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("steps: must have one kernel, got another")


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more if names else "a kernel"
