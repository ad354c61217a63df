"""``executor=dask``: the workers of a Dask cluster, or processes of this machine that end with this one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoflow.engine.executor.base import Workers, imported, reason


@dataclass(frozen=True)
class Dask:
    """The scheduler at ``address``, as tcp://HOST:PORT. None: the client that this process has, or a new cluster."""

    address: str | None = None

    def workers(self, device: str, threads: int | None, out: Path | None) -> Workers:
        return Workers(lambda: DaskExecutor(self._client(threads or 1)), device, threads or 1)

    def _client(self, threads: int) -> Any:
        distributed = imported("distributed", "dask")
        warnings.filterwarnings("ignore", "Sending large graph")  # worlds take MB
        if self.address is not None:
            try:
                return distributed.Client(self.address)
            except Exception as error:
                raise ValueError(f"executor.address: no Dask answers at {self.address}: {reason(error)}") from error
        try:
            return distributed.Client.current()
        except ValueError:
            count = max(1, (os.cpu_count() or 1) // threads)
            options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
            return distributed.Client(n_workers=count, **options)


class DaskExecutor(Executor):
    """A client's executor that tells its number of workers."""

    def __init__(self, client: Any) -> None:
        self._client, self._executor = client, client.get_executor()

    @property
    def _max_workers(self) -> int:
        """Number of threads of all workers, which come and go."""
        return sum(self._client.nthreads().values())

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(fn, *args, **kwargs)
        return future
