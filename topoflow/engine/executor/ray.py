"""``executor=ray``: the workers of a Ray cluster, or of one on this machine that ends with the process.

A piece of work is a task of Ray that yields how far it is and in the end its answers. Ray does none again by itself:
what to do when a worker ends is the same for all executors (``remote``).
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import socket
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topoflow.engine.device import Device
from topoflow.engine.executor.remote import Remote
from topoflow.engine.executor.settings import check_settings
from topoflow.engine.executor.worker import Ended, Event, Failed, Note

CONNECT_TIMEOUT = 5.0  # s
NODES_INTERVAL = 5.0  # s, after which it is asked again which nodes there are


@dataclass(frozen=True)
class Ray:
    """``address``: HOST:PORT of a cluster, or auto, the one that this machine is in; None: one on this machine.

    A piece of work has ``cpus``, and ``gpus`` (None: one where the device is a GPU), and is to take ``seconds``. It is
    done again up to ``retries`` times where its worker ends.
    """

    address: str | None = None
    cpus: int = 1
    gpus: float | None = None
    seconds: float = 10.0
    retries: int = 3
    least_seconds = 0.5  # to begin a piece takes some 10 ms
    is_prompt = True

    def __post_init__(self) -> None:
        check_settings(self)
        if self.address is not None and self.address != "auto" and not re.fullmatch(r"[\w.-]+:\d{1,5}", self.address):
            raise ValueError(f"executor.address: must be HOST:PORT, auto or null, got {self.address!r}")

    def placed(self, device: str, threads: int | None, folder: Path | None) -> tuple[Device, Remote]:
        return Remote.placed(self, device, threads, folder)

    def threads(self, asked: int | None) -> int:
        return asked or self.cpus

    def pool(self, device: str, folder: Path | None) -> RayPool:
        gpus = self.gpus if self.gpus is not None else float(device.startswith("cuda"))
        pool = RayPool(_connected(self.address), self.cpus, gpus)
        pool.check()
        return pool


@dataclass
class RayPool:
    """Tasks of a Ray that this process is connected to."""

    ray: Any
    cpus: int
    gpus: float
    busy: list[Any] = field(default_factory=list)  # generators
    _remote: Any = field(init=False)
    _workers: int = 0
    _asked: float = -NODES_INTERVAL

    def __post_init__(self) -> None:
        self._remote = self.ray.remote(_task)  # pickled and sent to Ray once, not for each piece

    def check(self) -> None:
        """Raise ``ValueError`` where no node has what a piece of work needs."""
        nodes = self._nodes()
        for key, name, needed in (("cpus", "CPU", float(self.cpus)), ("gpus", "GPU", self.gpus)):
            most = max((float(node.get(name, 0)) for node in nodes), default=0.0)
            if needed > most:
                raise ValueError(
                    f"executor.{key}: must be at most the {most:g} of a node of the cluster, got {needed:g}"
                )

    def workers(self) -> int:
        now = time.monotonic()
        if now - self._asked > NODES_INTERVAL:
            self._asked, self._workers = now, max(1, sum(map(self._on, self._nodes())))
        return self._workers

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        task = self._remote.options(
            num_returns="streaming", max_retries=0, num_cpus=self.cpus, num_gpus=self.gpus, name=f"topoflow: {name}"
        )
        self.busy.append(task.remote(payload, expected))
        return id(self.busy[-1])

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, Event]]:
        ready, _ = self.ray.wait(self.busy, num_returns=len(self.busy), timeout=0)
        if not ready:
            ready, _ = self.ray.wait(self.busy, num_returns=1, timeout=seconds)
        found = []
        for each in ready:
            event = self._next(each)
            found.append((id(each), event))
            if not isinstance(event, Note):
                self.busy.remove(each)
        return found

    def cancel(self) -> None:
        for each in self.busy:
            self.ray.cancel(each, force=True)
        self.busy.clear()

    def _next(self, generator: Any) -> Event:
        from ray.exceptions import RayError, RayTaskError

        try:
            event: Event = self.ray.get(next(generator))
        except RayTaskError as error:  # the task itself raises nothing: topoflow could not be imported, say
            return Failed(f"executor: must have workers with topoflow, got {_last_line(error)}")
        except (RayError, StopIteration) as error:
            return Ended(_first_line(error))
        return event

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def _on(self, node: dict[str, float]) -> int:
        fit = node.get("CPU", 0) // self.cpus
        return int(min(fit, node.get("GPU", 0) // self.gpus) if self.gpus else fit)


def _task(payload: bytes, expected: str) -> Iterator[Event]:
    """Runs in a worker of Ray."""
    from topoflow.engine.executor.worker import events

    yield from events(payload, expected)


def _connected(address: str | None) -> Any:
    """Ray, connected once in this process. Raises ``ValueError`` in one line for what is in the way."""
    try:
        import ray
    except ImportError as error:
        law = "must be local where Ray is not installed (pip install 'topoflow[ray]')"
        raise ValueError(f"executor: {law}, got {error}") from error
    if ray.is_initialized():  # before, or by the script that calls topoflow
        return ray
    if address not in (None, "auto"):
        _check_reachable(str(address))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with _outside_of_checkouts():
            ray.init(
                address=address or "local",
                log_to_driver=False,
                configure_logging=False,
                **({"include_dashboard": False} if address is None else {}),
            )
    except Exception as error:  # of many kinds, plain ones too
        raise _refused(address, error) from error
    atexit.register(_end, ray)  # before what Ray itself does at the end
    return ray


def _end(ray: Any) -> None:
    """Disconnect, and end a Ray that this process began; Ray itself would then only wait.

    At the end of a process it sleeps for half a second, for what it may still print, which is nothing here. And it
    gives a second to the monitor of its nodes, which SIGTERM does not end; of a Ray of one machine nobody needs it.
    """
    for process in Path("/proc").glob("[0-9]*"):  # nothing where the system has no such folders
        with suppress(OSError):  # it has ended
            parent = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"ray/autoscaler/" in process.joinpath("cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
    ray.shutdown()


@contextmanager
def _outside_of_checkouts() -> Iterator[None]:
    """In the root folder for a while. Ray puts the current folder first where workers look for modules: in a checkout
    of topoflow they would find one that is not built."""
    folder = os.getcwd()
    os.chdir(os.sep)
    try:
        yield
    finally:
        os.chdir(folder)


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"executor.address: must be a Ray cluster, got {address} ({error})") from error


def _refused(address: str | None, error: Exception) -> ValueError:
    """Why there is no connection: mostly versions, which Ray lists over several lines, theirs first."""
    pairs = re.findall(r"Ray: (\S+)\s+Python: (\S+)", str(error))
    if len(pairs) == 2:
        theirs, ours = (f"Ray {ray} on Python {python}" for ray, python in pairs)
        return ValueError(f"executor.address: must be a cluster with {ours}, as here, got {theirs}")
    got = "one of this machine" if address is None else address
    return ValueError(f"executor.address: must be a Ray cluster that answers, got {got} ({_first_line(error)})")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
