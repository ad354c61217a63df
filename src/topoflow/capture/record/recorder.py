"""Recorder: sees every communication of a PyTorch script from inside its process, without touching the script.

Five things are watched:

- operators of the c10d namespaces, those of DDP's C++ reducer among them: a communication is issued
  (``topoflow.capture.record.kernels`` sees it, ``topoflow.capture.record.c10d`` reads it);
- ``Work.wait`` and ``wait_tensor``: the main thread waits for a communication;
- backward passes: at their end DDP and FSDP wait, in C++, for all that was issued during them;
- calls of modules, and optimizer steps: iterations (``topoflow.capture.record.training_steps``);
- in some iterations every operator of the main thread, by a dispatch mode: what is computed and moved
  (``topoflow.capture.record.operators``; ``topoflow.capture.record.iteration_work`` says in which).

A transfer's end is when the wait for it returned, or when the writing thread finds its ``Work`` completed, which is
within about a millisecond. (A callback of gloo's threads would be exact. But it needs the GIL, and aborts a process
that ends with a communication under way.) gloo does not report when a transfer began: ``start`` is the time of issue.

An error of the recorder ends the recording, never the script: ``_stop`` says it in one line, and from then on operators
pass through. A forked process records nothing.

Cost: about 2 us per call of a module; 10-20 us per operator where operators are counted. That of any dispatch mode,
about half, is part of the compute spans; that of counting is left out of them. A kernel in front of a collective takes
about 45 us: the methods of ``ProcessGroup`` that Python calls most are watched themselves, past the kernel, in C++
(``csrc/bindings/recording.cpp``); ``benchmarks/results/capture_overhead.md`` has what that takes.

Not seen: threads that the script starts (their communications are counted) and processes, and times on devices other
than the CPU.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import orjson
import torch
import torch.distributed as dist
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import _profiler_enabled
from torch.distributed import ProcessGroup, Work
from torch.utils._python_dispatch import TorchDispatchMode, _len_torch_dispatch_stack

from topoflow import _C
from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.record import c10d
from topoflow.capture.record.c10d import PLAIN
from topoflow.capture.record.file import MAX_WAITING_ROWS, Event, RecordFile, Row, describe, say
from topoflow.capture.record.kernels import DispatchKernels
from topoflow.capture.record.operators import work_of
from topoflow.capture.record.recording import UNKNOWN_PEER, Recording
from topoflow.capture.record.training_steps import TrainingHooks, in_backward

PATIENCE = 600 * 10**9  # ns after which nobody looks whether a communication has ended
MAX_LOOKS = 32  # communications at a time
MAX_SHAPES = 1000  # of communications of a method and a group whose rows are kept
RECORDED = "topoflow.capture"  # marks PyTorch's state of the main thread


class Recorder(TorchDispatchMode):
    """``with Recorder(file) as recorder: ...`` records what this process communicates, up to ``recorder.finish()``."""

    def __init__(self, file: RecordFile) -> None:
        super().__init__()
        self._file = file
        self._recording = Recording(file.append, queue=file.rows)
        self._active = False
        self._process = os.getpid()
        self._main = threading.get_ident()
        self._works: WeakKeyDictionary[Work, Event] = WeakKeyDictionary()
        self._groups: WeakKeyDictionary[ProcessGroup, c10d.Group] = WeakKeyDictionary()
        self._ranks: dict[str, tuple[int, ...]] = {}  # of the groups by name
        self._newest: Work | None = None  # of the last communication, kept alive until its caller holds it
        self._tensors: dict[int, Event] = {}  # result of a functional collective (by storage) -> communication
        self._in_backward: list[Event] = []  # issued in the running backward pass
        self._unfinished: deque[tuple[Event, Work]] = deque()  # not known to have ended
        self._unknown: Counter[str] = Counter()
        self._backends: set[str] = set()
        self._on_device = 0
        self._on_fakes = 0
        self._job: tuple[int, int] | None = None  # rank and world size of the default process group
        self._other_threads = 0  # communications of threads that the script started
        self._kernels = DispatchKernels(self._kernel_called)
        self._hooks = TrainingHooks(self, self._guarded)

    def __enter__(self) -> Recorder:
        self._active = True
        torch._C._stash_obj_in_tls(RECORDED, True)
        self._file.start(self, self._stop)
        os.register_at_fork(after_in_child=self._forked)
        # The descriptors are kept, not the functions that they return: these would be no methods when put back.
        self._wait = vars(Work)["wait"]
        threads = self._kernels.threads
        self._direct_calls = _C.DirectCalls(
            *(
                self,
                self._recording,
                self._file.rows,
                MAX_WAITING_ROWS,
                threads,
                _len_torch_dispatch_stack,
                _profiler_enabled,
                Work,
                PLAIN,
            )
        )
        Work.wait = self._direct_calls.wait(Work.wait, self._waiting(Work.wait))
        self._methods = {name: vars(ProcessGroup)[name] for name in c10d.METHODS if name in vars(ProcessGroup)}
        for name in self._methods:
            setattr(ProcessGroup, name, self._called(name))
        self._hooks.install()
        self._kernels.install()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._recording.work.counting:
            super().__exit__(*exception)
        self._kernels.remove()
        self._hooks.remove()
        Work.wait = self._wait
        for name, method in self._methods.items():
            setattr(ProcessGroup, name, method)

    def finish(self, ended: bool) -> bool:
        """Write the rest, and whether the script has ``ended`` well; return whether the record is whole."""
        if os.getpid() != self._process:
            return False
        self._guarded(self._recording.pause)
        self._guarded(self._recording.flush)
        if ended:
            self._guarded(self._file.append, {"kind": "ended"})
        failure = self._guarded(self._file.close)
        if failure:
            self._stop(failure)
        was_active, self._active = self._active, False
        return was_active

    def look(self) -> bool:
        """Note which communications have ended, of the oldest; return whether others have not."""
        self._recording.flush()
        for _ in range(min(len(self._unfinished), MAX_LOOKS)):
            event, work = self._unfinished.popleft()
            if "end" in event.row or work.is_completed():
                self._recording.done(event)
            elif self._recording.now() - event.row["issue"] < PATIENCE:
                self._unfinished.append((event, work))
        return bool(self._unfinished)

    def state(self) -> Row:
        """Return the row of everything that is no event."""
        return {
            "kind": "state",
            "torch": torch.__version__,
            "backends": sorted(self._backends),
            "job": self._job,
            "on_device": self._on_device,
            "on_fakes": self._on_fakes,
            "other_threads": self._other_threads,
            "unknown": dict(self._unknown),
        }

    def _stop(self, reason: str) -> None:
        """End the recording, not the script."""
        if self._active:
            self._active = False
            self._unfinished.clear()
            say(f"{self._file.path}: recording stopped; the job continues: {reason}")

    def _forked(self) -> None:
        self._active = False

    def _guarded(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a part of the recorder; an error of it ends the recording."""
        if not self._active:
            return None
        try:
            return function(*arguments)
        except Exception as error:
            return self._failed(error)

    def _failed(self, error: Exception) -> None:
        """End the recording for an error of the recorder's own."""
        self._stop(describe(error))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types and any(kind.__module__.startswith("torch.distributed") for kind in types):
            return NotImplemented  # DTensor, AsyncCollectiveTensor: what they compute comes back here as plain tensors
        result = func(*args, **kwargs)
        if (
            func.namespace == "aten"
            and threading.get_ident() == self._main
            and not self._direct_calls.is_sending  # operators of the backend are no computation
            and not self._asks_for_shapes(types, args)
        ):
            self._guarded(self._count, func, args, kwargs, result)
        return result

    def _asks_for_shapes(self, types: Any, args: Any) -> bool:
        """Return whether an operator runs on FakeTensors: it computes nothing."""
        return bool(types) and any(issubclass(kind, FakeTensor) for kind in types)

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Add the operator's work to the running compute span, which this does not lengthen."""
        began = time.thread_time_ns()
        work = work_of(func, args, kwargs, result)
        if work is not None:
            self._recording.work.operator(work)
        self._recording.leave_out(time.thread_time_ns() - began)

    def _switch_counting(self) -> None:
        """Enter or leave the dispatch mode, unless the script's own modes or a backward pass would undo this."""
        wanted = self._recording.work.wanted
        if (
            wanted is not self._recording.work.counting
            and _len_torch_dispatch_stack() == (not wanted)
            and not in_backward()
        ):
            if wanted:
                super().__enter__()
            else:
                super().__exit__(None, None, None)
            self._recording.work.count(wanted)

    def module_called(self, module: Any, inputs: Any) -> None:
        """Note a call of a module and the shapes of its inputs."""
        if self._recording.is_paused:  # who was to wait has not
            self._recording.resume()
        shapes = [tensor.shape for tensor in inputs if isinstance(tensor, torch.Tensor)]
        self._recording.work.mark((type(module), *shapes))
        if self._recording.work.wanted and not self._recording.work.counting:
            self._switch_counting()

    def begin_iterations(self) -> None:
        """Note that the first iteration begins."""
        self._recording.begin_iterations()

    def before_backward(self) -> None:
        """Begin the backward phase."""
        self._recording.enter("backward")
        self._switch_counting()

    def after_backward(self) -> None:
        """End the backward phase: the thread has waited for what was issued in it."""
        self._recording.enter("forward")
        for event in self._in_backward:
            self._recording.waited(event)
        self._in_backward = []

    def _kernel_called(self, func: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operator of the c10d namespaces, and record it unless it is that of a thread that the script started.

        PyTorch's state of a thread is also that of the threads which run backward passes for it.
        """
        if not self._active or TracingContext.try_get() is not None:  # a compiler asks for the shape of the result
            return call(*args, **kwargs)
        if not torch._C._is_key_in_tls(RECORDED):
            self._other_threads += func._schema.name in c10d.CALLS
            return call(*args, **kwargs)
        if func._schema.name in c10d.CALLS:
            self._on_fakes += any(isinstance(tensor, FakeTensor) for tensor in c10d.tensors_of(args))
        return self._communicate(func, call, args, kwargs)

    def _communicate(self, func: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operator of the c10d namespaces and record what it sends."""
        on_main = threading.get_ident() == self._main
        if on_main:
            self._guarded(self._recording.pause)
        # The output of a functional operator has the size of its result, so that one is read afterwards; but the time
        # of issue is before, when the others may still have to arrive.
        issued, arguments = self._recording.now(), self._guarded(c10d.before_call, args)
        try:
            result = call(*args, **kwargs)
            self._guarded(self._issued, func, arguments, kwargs, result, issued)
            return result
        finally:
            if on_main:
                self._guarded(self._recording.resume)

    def _issued(self, func: Any, args: Any, kwargs: Any, result: Any, issued: int) -> None:
        """Record what an operator of the c10d namespaces sends, or waits for."""
        name = func._schema.name
        arguments = {**dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)), **kwargs}
        if name == c10d.WAIT:
            event = self._tensors.pop(arguments["tensor"].untyped_storage()._cdata, None)
            if event is not None:
                self._recording.done(event)
                self._recording.waited(event)
            return
        call = c10d.CALLS.get(name)
        if call is None:
            if name not in c10d.LOCAL:
                self._unknown[name] += 1
            return
        row, on_device = c10d.communication(call, self._group(c10d.group_of(arguments)), arguments, result)
        self._sent(row, on_device, arguments.get("async_op", True), result, issued)

    def _sent(self, row: Row, on_device: bool, is_async: bool, result: Any, issued: int) -> None:
        """Record a communication that was issued."""
        self._on_device += on_device
        event = self._recording.issue(row, issued)
        if self._recording.phase == "backward":
            self._in_backward.append(event)
        self._watch(event, result, is_async, on_device)
        if self._file.is_stuck:
            self._stop("the disk does not take the rows")

    def _sent_by_method(self, row: Row, on_device: bool, is_async: bool, result: Any, issued: int) -> None:
        self._sent(row, on_device, is_async, result, issued)
        if is_async or result is None:  # else the caller waits at once
            self._recording.resume()

    def _called(self, name: str) -> Callable[..., Any]:
        """Return a method of ProcessGroup that records what it sends, and calls the backend as its operator does.

        The kernel would see the operator, but takes twice as long as a tiny collective. The row of a communication is
        made once for each group and each size, dtype and root.
        """
        operator, names, options = c10d.METHODS[name]
        rows: WeakKeyDictionary[ProcessGroup, dict[Any, tuple[Any, ...]]] = WeakKeyDictionary()

        def describe(args: Any, shape: Any) -> tuple[Any, ...]:
            group, *values, call_options = args
            arguments = dict(zip(names, values, strict=True))
            for argument, option in options.items():
                arguments[argument] = getattr(call_options, option)
            rows_of_group = rows.setdefault(group, {})
            if len(rows_of_group) >= MAX_SHAPES:
                rows_of_group.clear()
            row, on_device = c10d.communication(c10d.CALLS[operator], self._group(group), arguments, None)
            rows_of_group[shape] = (row, on_device, row["group"], (*row.values(),), orjson.dumps(row)[:-1])
            return rows_of_group[shape]

        of_backend = operator.removeprefix("c10d::").removesuffix("_")
        method = getattr(ProcessGroup, name)
        has_list, has_root = len(names) == 1, bool(options)
        return self._direct_calls.method(method, of_backend, has_list, has_root, vars(rows)["data"], describe)

    def _group(self, group: ProcessGroup) -> c10d.Group:
        """Return what rows say of the process group, after the row that says who is in it."""
        known = self._groups.get(group)
        if known is None:
            known = self._groups[group] = c10d.describe_group(group)
            self._backends.add(known.backend)
            self._job = self._job or (dist.get_rank(), dist.get_world_size())
            self._ranks[known.name] = known.ranks
            self._file.append({"kind": "group", "name": known.name, "ranks": known.ranks})
        return known

    def _watch(self, event: Event, result: Any, is_async: bool, on_device: bool) -> None:
        """Learn when the communication ends."""
        work = result[-1] if isinstance(result, (tuple, list)) and result else result
        if isinstance(work, (torch.ScriptObject, Work)):
            self._newest = work if isinstance(work, Work) else Work.unbox(work)
            self._recording.newest_event = event
            if is_async:  # else the caller waits at once: no other will be the newest
                self._works[self._newest] = event
                # On a device a Work completes when it is queued, not when it is done; a message of gloo, when it is
                # waited for.
                if not on_device and event.row["op"] not in POINT_TO_POINT:
                    self._unfinished.append((event, self._newest))
                    self._file.wake()
        elif result is None:  # monitored_barrier_ returns when it has finished
            self._recording.done(event)
            self._recording.waited(event)
        else:
            for tensor in c10d.tensors_of(result):
                self._tensors[tensor.untyped_storage()._cdata] = event

    def _waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """Return a ``Work.wait`` that also records what was waited for."""

        def wait_and_record(work: Work, *args: Any, **kwargs: Any) -> Any:
            on_main = threading.get_ident() == self._main
            if on_main and not self._recording.is_paused:
                self._guarded(self._before_wait)
            try:
                return wait(work, *args, **kwargs)
            finally:
                self._guarded(self._after_wait, work, on_main)

        return wait_and_record

    def _before_wait(self) -> None:
        self._recording.pause()

    def _after_wait(self, work: Work, on_main: bool) -> None:
        event = self._recording.newest_event if work is self._newest else self._works.get(work)
        if event is not None:
            self._recording.done(event)
            if event.row.get("peer") == UNKNOWN_PEER:
                self._recording.name_peer(event, self._ranks[event.row["group"]][work._source_rank()])
            if on_main:
                self._recording.waited(event)
        if on_main:
            self._recording.resume()

    def before_step(self) -> None:
        """Begin the optimizer phase."""
        self._recording.enter("optimizer")

    def after_step(self, ends_iteration: bool) -> None:
        """End the optimizer phase, and maybe the iteration; an optimizer may step within a backward pass."""
        self._recording.enter("backward" if in_backward() else "forward")
        if ends_iteration:
            self._recording.step()
            self._switch_counting()
