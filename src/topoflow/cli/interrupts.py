"""Ctrl-C ends a command within two seconds, whatever a library makes of the KeyboardInterrupt that it raises.

Libraries catch it: while they import each other, in callbacks whose errors Python only prints, or to raise an error
of their own in its place. So it is remembered that it came, it is raised again while nothing handles it, and Python
prints no traceback of it.

Python raises nothing while a library's function runs, and one of numpy's can take ten seconds. A thread that still
sees no ``KeyboardInterrupt`` after ``MAX_DELAY`` ends the process. What a run writes it writes atomically, so the same
command continues it, as after kill -9.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

RETRY_INTERVAL = 0.2  # s
MAX_DELAY = 1.0  # s from Ctrl-C to KeyboardInterrupt
INTERRUPTED = 130  # exit status: 128 + SIGINT


class Interrupts:
    """``requested`` once Ctrl-C was pressed. ``command`` names the program in a message."""

    def __init__(self) -> None:
        self.requested = False
        self.command = "topoflow"
        self._ended = False
        self._handler_before: Any = None  # of SIGALRM

    def interrupt(self, signum: int, frame: FrameType | None) -> None:
        """SIGINT: raise ``KeyboardInterrupt`` now, and look later whether that was enough."""
        if not self.requested:
            self.requested = True
            self._handler_before = signal.signal(signal.SIGALRM, self.retry)
        signal.setitimer(signal.ITIMER_REAL, RETRY_INTERVAL)
        raise KeyboardInterrupt

    def retry(self, signum: int, frame: FrameType | None) -> None:
        """SIGALRM: raise it again where it was lost; where it is being handled, what it ends may take its time."""
        if self._ended:
            return
        signal.setitimer(signal.ITIMER_REAL, RETRY_INTERVAL)
        if not _is_handled(sys.exc_info()[1]):
            raise KeyboardInterrupt

    def watch(self, arrivals: socket.socket) -> None:
        """End the process if ``interrupt`` is not called soon after SIGINT; ``arrivals`` has a byte per signal."""
        while arrived := arrivals.recv(1):
            if arrived[0] == signal.SIGINT:
                time.sleep(MAX_DELAY)
                if not self.requested:
                    os.write(2, f"{self.command}: interrupted\n".encode(errors="replace"))
                    os._exit(INTERRUPTED)
        arrivals.close()

    def end(self) -> None:
        """No more retries, also not while it ends. The timer of a program that was not interrupted is never touched."""
        self._ended = True
        if self.requested:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._handler_before)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Handle Ctrl-C within ``with``. Threads other than the main one get no signals: there it does nothing."""
    handler = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield handler
        return
    before, printed_before = signal.signal(signal.SIGINT, handler.interrupt), sys.unraisablehook

    def print_others(unraisable: Any) -> None:
        if not _is_handled(unraisable.exc_value):
            printed_before(unraisable)

    sys.unraisablehook = print_others
    arrivals, arrives = socket.socketpair()
    arrives.setblocking(False)
    wakeup_before = signal.set_wakeup_fd(arrives.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=handler.watch, args=(arrivals,), daemon=True).start()
    try:
        yield handler
    finally:
        handler.end()
        signal.set_wakeup_fd(wakeup_before)
        arrives.close()
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = printed_before


def _is_handled(error: BaseException | None) -> bool:
    """Return whether ``error`` is a ``KeyboardInterrupt``, or was raised while one was handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
