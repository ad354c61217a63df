"""Streams of a GPU: what a communication follows, and what follows it, are said by streams and events alone.

    default stream      | compute 0 |--- wait for A | compute 1 |--- wait for B | compute 2 |
    all-gather stream   |      A      |      B      |       C       |

The host launches work long before it runs. So B, which the script issues after compute 1, follows what its stream has
waited for: here A, and an event that the default stream recorded before compute 1. Where PyTorch uses one stream for
each kind of communication, as FSDP does, this is its prefetch. Computation of all streams counts as the default one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

import torch

from topoflow.capture.record.file import Event, Row
from topoflow.capture.record.recording import Recording

MODULES = (torch.cpu, torch.cuda)  # their streams are replaced: a rank runs on the processor


class StreamRecording(Recording):
    """The events of a rank that works in streams. ``current`` is the stream that the script has chosen."""

    def __init__(self, write: Any) -> None:
        super().__init__(write, clock=lambda: 0, busy=lambda: 0)
        self.current: GpuStream | None = None  # None: the default stream
        self._host: set[int] = set()  # events that the host itself has waited for

    def issue(self, row: Row, issued: int) -> Event:
        """Add a communication, which follows the work on its stream."""
        if self.current is None:
            return super().issue(row, issued)
        event: Event = self._add(row, issued, sorted(self.current.newest | self._host))
        return event

    def waited(self, event: Event) -> None:
        """Note that the current stream waits for a communication, and so for all that this follows."""
        if self.current is not None:
            self.current.newest -= {*event.row["after"]}
        self.wait(self.current, {event.position})

    def wait(self, stream: GpuStream | None, events: Iterable[int]) -> None:
        """Let a stream wait for events."""
        if stream is not None:
            stream.newest |= {*events}
            return
        self._cut()
        self._waited += [event for event in sorted(events) if event != self._last_compute]

    def wait_on_host(self, events: set[int]) -> None:
        """Let the host, and so whatever it launches from now on, wait for events."""
        self._host = events
        self.wait(None, events)

    def newest(self, stream: GpuStream | None) -> set[int]:
        """Return the events that are followed by what comes next on a stream."""
        if stream is not None:
            return {*stream.newest}
        self._cut()
        return {*self._follows()}

    def _cut(self) -> None:
        """End the span of computation, so that others can follow it."""
        if not self.is_paused:
            self.pause()
            self.resume()


class GpuStream:
    """A stream in place of PyTorch's. Work on it follows the events ``newest``."""

    recording: ClassVar[StreamRecording]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.newest: set[int] = set()

    def wait_event(self, event: GpuEvent) -> None:
        """Let what comes next follow an event."""
        self.recording.wait(self.side, event.follows)

    def wait_stream(self, stream: GpuStream) -> None:
        """Let what comes next follow the work on another stream."""
        self.recording.wait(self.side, self.recording.newest(stream.side))

    def record_event(self, event: GpuEvent | None = None) -> GpuEvent:
        """Return an event that follows the work on this stream."""
        event = event or GpuEvent()
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Let the host wait for the work on this stream."""
        self.recording.wait_on_host(self.recording.newest(self.side))

    def query(self) -> bool:
        """Return that all work has ended, as nothing takes time."""
        return True

    @property
    def side(self) -> GpuStream | None:
        """Return this stream; None for the default one."""
        return self


class DefaultGpuStream(GpuStream):
    """The stream of all computation."""

    @property
    def side(self) -> None:
        """Return None."""
        return None


class GpuEvent:
    """An event in place of PyTorch's: a place in a stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.follows: set[int] = set()

    def record(self, stream: GpuStream | None = None) -> None:
        """Follow the work on a stream, or on the current one."""
        recording = GpuStream.recording
        self.follows = recording.newest(recording.current if stream is None else stream.side)

    def wait(self, stream: GpuStream | None = None) -> None:
        """Let what comes next on a stream, or on the current one, follow this event."""
        recording = GpuStream.recording
        recording.wait(recording.current if stream is None else stream.side, self.follows)

    def synchronize(self) -> None:
        """Let the host wait for this event."""
        GpuStream.recording.wait_on_host(self.follows)

    def query(self) -> bool:
        """Return that the event has come, as nothing takes time."""
        return True

    def elapsed_time(self, event: GpuEvent) -> float:
        """Return 1 ms: nothing takes time, but scripts divide by it."""
        return 1.0


@contextmanager
def gpu_streams(recording: StreamRecording) -> Iterator[None]:
    """Give scripts streams and events that say what follows what, in place of PyTorch's."""
    GpuStream.recording = recording
    default = DefaultGpuStream()

    def current_stream(device: Any = None) -> GpuStream:
        return recording.current or default

    @contextmanager
    def stream(chosen: GpuStream | None) -> Iterator[None]:
        before = recording.current
        recording.current = before if chosen is None else chosen.side
        try:
            yield
        finally:
            recording.current = before

    replaced = {"Stream": GpuStream, "Event": GpuEvent, "current_stream": current_stream, "stream": stream}
    with ExitStack() as stack:
        for module in MODULES:
            for name, replacement in replaced.items():
                stack.enter_context(patch.object(module, name, replacement, create=True))
        stack.enter_context(patch.object(torch.cuda, "default_stream", lambda device=None: default))
        yield
