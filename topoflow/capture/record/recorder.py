"""Recorder: sees every communication of a PyTorch script from inside its process, without touching the script.

A ``TorchDispatchMode`` sees each operator that PyTorch runs in the main thread and in the backward pass, those of DDP's
C++ reducer among them. Four things are watched:

- an operator of the c10d namespaces: a communication is issued (``topoflow.capture.record.c10d`` reads it);
- ``Work.wait`` and ``wait_tensor``: the main thread waits for a communication;
- the end of a backward pass: DDP and FSDP then wait, in C++, for all that was issued during it;
- forward passes and optimizer steps: iterations (``topoflow.capture.record.training_steps``).

A transfer's end is when its ``Work`` completes (gloo's futures report it from their own thread; for send, recv and
reduce_scatter it is when the wait returned). gloo does not report when it began: ``start`` is the time of issue.
Cost: 10-20 us per operator of the script, nearly all of it that of any dispatch mode, which is part of the compute
spans. What each operator computes and moves is added to its span (``topoflow.capture.record.operators``). Not
seen: threads that the script starts (their communications are counted) and processes, and times on devices other than
the CPU.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import Work
from torch.utils._python_dispatch import TorchDispatchMode

from topoflow.capture.base import Trace
from topoflow.capture.record import c10d
from topoflow.capture.record.operators import work_of
from topoflow.capture.record.other_threads import OtherThreads
from topoflow.capture.record.recording import UNKNOWN_PEER, Pending, Recording
from topoflow.capture.record.training_steps import TrainingHooks

NOT_IN_BACKWARD = -1  # torch._C._current_graph_task_id outside of a backward pass
PATIENCE = 30.0  # s that the end of a script waits for communications that it has not waited for


class Recorder(TorchDispatchMode):
    """``with Recorder() as recorder: ...`` records what this process communicates; then ``recorder.trace(...)``."""

    def __init__(self) -> None:
        super().__init__()
        self._recording = Recording()
        self._main = threading.get_ident()
        self._works: WeakKeyDictionary[Work, Pending] = WeakKeyDictionary()
        self._newest: Work | None = None  # kept alive until its caller holds it
        self._tensors: dict[int, Pending] = {}  # result of a functional collective (by storage) -> communication
        self._in_backward: list[Pending] = []  # issued in the running backward pass
        self._unfinished: set[Pending] = set()  # gloo's threads have not reported yet that these ended
        self._unknown: Counter[str] = Counter()
        self._backends: set[str] = set()
        self._on_device = 0
        self._job: tuple[int, int] | None = None  # rank and world size of the default process group
        self._others = OtherThreads()
        self._hooks = TrainingHooks(self._recording.begin_iterations, self._before_step, self._after_step)

    def __enter__(self) -> Recorder:
        self._wait = Work.wait
        Work.wait = self._waiting(Work.wait)
        self._hooks.install()
        self._others.install()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._others.remove()
        self._hooks.remove()
        Work.wait = self._wait

    def trace(self, name: str, rank: int, world_size: int, origin: float) -> Trace:
        """What was recorded, with times in seconds since ``origin`` (of ``capture.record.clock``).

        A process group larger than the number of processes is a fake one: then this is the trace of one of its ranks.
        """
        self._recording.pause()
        self._wait_for_reports()
        notes = [f"{count} calls of {op} were seen but not understood" for op, count in sorted(self._unknown.items())]
        if unseen := self._others.communications:
            notes.append(f"{unseen} communications of threads that the script started are not recorded")
        if self._on_device:
            self._recording.forget_work()  # a device's backward pass runs on a thread of its own
            notes.append(f"{self._on_device} communications were on a device: their ends and compute were not timed")
        if self._job is not None and self._job[1] > world_size:
            notes.append(
                f"{world_size} of {self._job[1]} ranks ran, the others were fake: nothing was sent or received"
            )
            rank, world_size = self._job
        backends = ", ".join(sorted(self._backends)) or "no communication"
        source = f"recorder (torch {torch.__version__}, {backends})"
        return self._recording.trace(name, rank, world_size, origin, source, tuple(notes))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind.__module__.startswith("torch.distributed") for kind in types):
            return NotImplemented  # DTensor, AsyncCollectiveTensor: what they send comes back here as plain tensors
        if any(kind.__module__.startswith("torch._subclasses") for kind in types):
            return func(*args, **(kwargs or {}))  # FakeTensor: only shapes are asked for, nothing is sent
        on_main = threading.get_ident() == self._main
        if on_main:
            self._follow_backward()
        if func.namespace not in c10d.NAMESPACES:
            result = func(*args, **(kwargs or {}))
            if on_main and func.namespace == "aten":
                self._count(func, args, kwargs or {}, result)
            return result
        if on_main:
            self._recording.pause()
        try:
            return self._communicate(func, args, kwargs or {})
        finally:
            if on_main:
                self._recording.resume()

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Add the operator's work to the running compute span, which this does not lengthen."""
        began = time.thread_time()
        work = work_of(func, args, kwargs, result)
        if work is not None:
            self._recording.operator(work)
        self._recording.leave_out(time.thread_time() - began)

    def _follow_backward(self) -> None:
        """Notice where a backward pass begins and ends; at its end the thread waited for what was issued in it."""
        if torch._C._current_graph_task_id() != NOT_IN_BACKWARD:
            if self._recording.phase != "backward":
                self._recording.enter("backward")
        elif self._recording.phase == "backward":
            self._recording.enter("forward")
            for pending in self._in_backward:
                self._recording.waited(pending)
            self._in_backward = []

    def _communicate(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator of the c10d namespaces and record what it sends."""
        name = func._schema.name
        arguments = {**dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)), **kwargs}
        if name == c10d.WAIT:
            return self._wait_tensor(func, arguments["tensor"])
        call = c10d.CALLS.get(name)
        if call is None:
            if name not in c10d.LOCAL:
                self._unknown[name] += 1
            return func(*args, **kwargs)
        # The output of a functional operator has the size of its result, so that one is read afterwards; but the time
        # of issue is before, when the others may still have to arrive.
        issued = self._recording.now()
        result = func(*args, **kwargs)
        group = c10d.group_of(arguments)
        self._backends.add(dist.get_backend(group))
        self._job = self._job or (dist.get_rank(), dist.get_world_size())
        pending = self._recording.issue(c10d.communication(call, group, arguments, result), issued)
        if self._recording.phase == "backward":
            self._in_backward.append(pending)
        self._watch(pending, arguments, result)
        return result

    def _watch(self, pending: Pending, arguments: Any, result: Any) -> None:
        """Learn when the communication ends."""
        on_device = any(tensor.device.type != "cpu" for tensor in c10d.tensors_of([*arguments.values()]))
        self._on_device += on_device
        work = result[-1] if isinstance(result, (tuple, list)) and result else result
        if isinstance(work, torch.ScriptObject):
            self._newest = Work.unbox(work)
            self._works[self._newest] = pending
            if not on_device:  # a device's future completes when the work is queued, not when it is done
                self._when_done(self._newest, pending)
        elif result is None:  # monitored_barrier_ returns when it has finished
            self._recording.done(pending)
            self._recording.waited(pending)
        else:
            for tensor in c10d.tensors_of(result):
                self._tensors[tensor.untyped_storage().data_ptr()] = pending

    def _when_done(self, work: Work, pending: Pending) -> None:
        try:
            future = work.get_future()
        except RuntimeError:  # gloo: "Work::getFuture not implemented" for send, recv and reduce_scatter
            return
        self._unfinished.add(pending)
        future.add_done_callback(lambda _: self._ended(pending))

    def _ended(self, pending: Pending) -> None:
        self._recording.done(pending)
        self._unfinished.discard(pending)

    def _wait_for_reports(self) -> None:
        """Wait until gloo's threads have reported what has ended.

        DDP waits in C++, so the script may continue before they have reported; and a thread that asks for the GIL while
        Python shuts down aborts the process.
        """
        deadline = time.monotonic() + PATIENCE
        while self._unfinished and time.monotonic() < deadline:
            time.sleep(0.001)

    def _waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """``Work.wait`` that also records what was waited for."""

        def wait_and_record(work: Work, *args: Any, **kwargs: Any) -> Any:
            pending = self._works.get(work)
            on_main = threading.get_ident() == self._main
            if on_main:
                self._follow_backward()
                self._recording.pause()
            try:
                return wait(work, *args, **kwargs)
            finally:
                if pending is not None:
                    self._completed(work, pending, on_main)
                if on_main:
                    self._recording.resume()

        return wait_and_record

    def _completed(self, work: Work, pending: Pending, on_main: bool) -> None:
        self._recording.done(pending)
        if pending.event.peer == UNKNOWN_PEER:
            self._recording.name_peer(pending, pending.event.group[work._source_rank()])
        if on_main:
            self._recording.waited(pending)

    def _wait_tensor(self, func: Any, tensor: torch.Tensor) -> Any:
        result = func(tensor)
        pending = self._tensors.pop(tensor.untyped_storage().data_ptr(), None)
        if pending is not None:
            self._recording.done(pending)
            self._recording.waited(pending)
        return result

    def _before_step(self) -> None:
        self._follow_backward()
        self._recording.enter("optimizer")

    def _after_step(self, ends_iteration: bool) -> None:
        self._recording.enter("forward")
        if ends_iteration:
            self._recording.step()
