"""Pool: workers of a cluster that are given pieces of work and say what comes of them. One for each kind of cluster."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Protocol

from topoflow.engine.executor.worker import Event


class Pool(Protocol):
    """Workers. A piece of work that has begun has a handle; its events end with one that is no ``Note``."""

    def workers(self) -> int:
        """How many pieces can be done at once now, at least 1; nodes may come and go."""
        ...

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        """Have a worker do ``worker.events(payload, expected)``; ``name`` is for people."""
        ...

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, Event]]:
        """What has happened to pieces since the last call, as soon as something has, or after this many seconds."""
        ...

    def cancel(self) -> None:
        """End all pieces, without waiting for it."""
        ...


class Cluster(Protocol):
    """A frozen dataclass of ``configs/executor``."""

    @property
    def seconds(self) -> float:
        """That a piece of work is to take."""
        ...

    @property
    def least_seconds(self) -> float:
        """That a piece but the last is to take at least, once it is known how long one takes: to begin one costs."""
        ...

    @property
    def retries(self) -> int:
        """Of a piece whose worker has ended."""
        ...

    @property
    def is_prompt(self) -> bool:
        """Whether a piece begins at once, so that it may be small."""
        ...

    def threads(self, asked: int | None) -> int:
        """Of a piece; ``asked``: by the key ``threads``."""
        ...

    def pool(self, device: str, folder: Path | None) -> Pool:
        """Its workers with such a device; ``folder`` is for files. Raises ``ValueError`` where there is no cluster."""
        ...
