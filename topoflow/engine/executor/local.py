"""``executor=local``: this process, with the threads and the GPUs that ``threads`` and ``device`` say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from topoflow.engine.device import Device
from topoflow.engine.executor.base import A, I, Work
from topoflow.engine.observer import Silent

if TYPE_CHECKING:
    from topoflow.engine.base import Run


@dataclass(frozen=True)
class Local:
    """This process."""

    workers = 1
    is_local = True
    is_prompt = True

    def keeping_nothing(self) -> Local:
        return self

    def placed(self, device: str, threads: int | None, folder: Path | None) -> tuple[Device, Local]:
        """The device of this process, and the executor."""
        return Device.named(device), self

    def map(self, work: Work[I, A], items: Sequence[I], run: Run) -> Iterator[tuple[int, A]]:
        """Of work that is a batch, all items at once."""
        if work.is_batch:
            yield from enumerate(work.do(items, run))
            return
        silent = replace(run, observer=Silent())
        for number, item in enumerate(items):
            run.observer.advance(number, len(items))
            yield number, work.do([item], silent)[0]
        run.observer.advance(len(items), len(items))
