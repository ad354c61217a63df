"""Calls of a function in processes of their own: files of several ranks are read at the same time."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def map_processes(function: Callable[[Path], T], files: Sequence[Path], workers: int) -> Iterator[T]:
    """Yield ``function(file)`` for each file, in order; at most ``workers`` processes run at once.

    The processes are forked, so that a user's script needs no ``if __name__ == "__main__"``. What the function raises
    is raised here; ``ValueError`` if a process is killed.
    """
    waiting, running = deque(files), deque[tuple[Path, Connection]]()
    context = get_context("fork")
    while waiting or running:
        while waiting and len(running) < workers:
            file = waiting.popleft()
            receiver, sender = context.Pipe(duplex=False)
            context.Process(target=_send, args=(sender, function, file), daemon=True).start()
            sender.close()  # only the process holds it: its end is the end of the pipe
            running.append((file, receiver))
        file, receiver = running.popleft()
        try:
            answer = receiver.recv()
        except EOFError:
            raise ValueError(f"{file}: must be read, got a process that was killed: is the memory full?") from None
        if isinstance(answer, Exception):
            raise answer
        yield answer


def _send(sender: Connection, function: Callable[[Path], T], file: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process without a traceback
    try:
        sender.send(function(file))
    except Exception as error:
        sender.send(error)
