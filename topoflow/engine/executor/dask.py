"""``executor=dask``: the workers of a Dask cluster, or processes of this machine that end with this one."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from topoflow.engine.executor.base import Workers, imported, reason


@dataclass(frozen=True)
class Dask:
    """The scheduler at ``address``, as tcp://HOST:PORT. None: the client that this process has, or a new cluster."""

    address: str | None = None

    def workers(self, device: str, threads: int | None, out: Path | None) -> Workers:
        return Workers(lambda: self._executor(threads or 1), device, threads or 1)

    def _executor(self, threads: int) -> Executor:
        distributed = imported("distributed", "dask")
        try:
            client = distributed.Client(self.address) if self.address else distributed.Client.current()
        except ValueError:
            count = max(1, (os.cpu_count() or 1) // threads)
            client = distributed.Client(n_workers=count, threads_per_worker=1, dashboard_address=None)
        except Exception as error:
            raise ValueError(f"executor.address: no Dask answers at {self.address}: {reason(error)}") from error
        executor: Executor = client.get_executor()
        executor._max_workers = sum(client.nthreads().values())  # type: ignore[attr-defined]
        return executor
