"""``executor=slurm``: jobs of a Slurm cluster that submitit submits, one for each chunk of work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from topoflow.engine.executor.base import Workers, imported, reason
from topoflow.units import check_among, check_count, check_positive

SYSTEMS = ("slurm", "local")


@dataclass(frozen=True)
class Slurm:
    """Up to ``jobs`` jobs of Slurm at the same time, of at most ``minutes`` each.

    ``memory`` (GB), ``partition`` and ``account`` have Slurm's default if they are None. With ``system`` local,
    processes of this machine replace jobs, for a trial.
    """

    jobs: int = 16
    minutes: int = 60
    memory: float | None = None
    partition: str | None = None
    account: str | None = None
    system: str = "slurm"

    def __post_init__(self) -> None:
        check_count("executor.jobs", self.jobs)
        check_count("executor.minutes", self.minutes)
        if self.memory is not None:
            check_positive("executor.memory", self.memory)
        check_among("executor.system", self.system, SYSTEMS)

    def workers(self, device: str, threads: int | None, out: Path | None) -> Workers:
        if out is None:
            raise ValueError("out: must be given with executor=slurm, a folder that all nodes see, got null")
        return Workers(lambda: self._executor(device, threads or 1, out), device, threads or 1, shortest_chunk=60.0)

    def _executor(self, device: str, threads: int, out: Path) -> Executor:
        submitit = imported("submitit", "slurm")
        try:
            executor = submitit.AutoExecutor(out / "slurm", self.system)
        except RuntimeError as error:
            raise ValueError(f"executor: this machine does not submit to Slurm: {reason(error)}") from error
        parameters = {
            "name": "topoflow",
            "timeout_min": self.minutes,
            "cpus_per_task": threads,
            "gpus_per_node": int(device.startswith("cuda")) or None,
            "mem_gb": self.memory,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
        }
        executor.update_parameters(**{key: value for key, value in parameters.items() if value is not None})
        return JobExecutor(executor, self.jobs)


class JobExecutor(Executor):
    """Jobs of submitit as futures of the standard library."""

    def __init__(self, submitit: Any, jobs: int) -> None:
        self._submitit, self._max_workers = submitit, jobs

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        job, future = self._submitit.submit(fn, *args, **kwargs), Future[Any]()
        future.add_done_callback(lambda future: future.cancelled() and job.cancel(check=False))
        Thread(target=_settle, args=(future, job), daemon=True).start()
        return future


def _settle(future: Future[Any], job: Any) -> None:
    """Wait for the job, and give the future its result."""
    try:
        result, error = job.result(), None
    except Exception as failure:
        result, error = None, failure
    if future.set_running_or_notify_cancel():
        future.set_exception(error) if error else future.set_result(result)
