"""``executor=ray``: the workers of a Ray cluster, or of one on this machine that ends with the process."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoflow.engine.executor.base import Workers, imported, reason

CONNECT_TIMEOUT = 5.0  # s


@dataclass(frozen=True)
class Ray:
    """A cluster at ``address``: HOST:PORT, or auto for the one of this machine. None: a new one on this machine.

    A chunk of work has as many CPUs as ``threads``, and a GPU if the device is one.
    """

    address: str | None = None

    def __post_init__(self) -> None:
        if self.address not in (None, "auto") and not re.fullmatch(r"[\w.-]+:\d{1,5}", str(self.address)):
            raise ValueError(f"executor.address: must be HOST:PORT, auto or null, got {self.address!r}")

    def workers(self, device: str, threads: int | None, out: Path | None) -> Workers:
        cpus, gpus = threads or 1, int(device.startswith("cuda"))
        return Workers(lambda: RayExecutor(self._connected(), cpus, gpus), device, cpus)

    def _connected(self) -> Any:
        ray = imported("ray", "ray")
        if ray.is_initialized():
            return ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options = {} if self.address else {"include_dashboard": False}
        try:
            if self.address not in (None, "auto"):  # Ray itself tries for two minutes
                host, _, port = str(self.address).rpartition(":")
                socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
            ray.init(self.address or "local", log_to_driver=False, configure_logging=False, **options)
        except Exception as error:
            raise ValueError(f"executor.address: no Ray answers at {self.address}: {reason(error)}") from error
        return ray


class RayExecutor(Executor):
    """Tasks of Ray as futures of the standard library. Ray submits none again by itself."""

    def __init__(self, ray: Any, cpus: int, gpus: int) -> None:
        self._ray, self._needs = ray, {"CPU": cpus, "GPU": gpus}
        self._task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_call)
        if self._max_workers == 0:
            raise ValueError(f"executor: no node of the Ray cluster has {cpus} CPUs and {gpus} GPUs")

    @property
    def _max_workers(self) -> int:
        """Number of tasks that the nodes can run at the same time; nodes come and go."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return sum(int(min(node.get(key, 0) // need for key, need in self._needs.items() if need)) for node in nodes)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = self._task.remote(fn, *args, **kwargs)
        future: Future[Any] = task.future()
        future.add_done_callback(lambda future: future.cancelled() and self._ray.cancel(task, force=True))
        return future


def _call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)
