"""``hydra/launcher=topoflow_batch``: the jobs of a multirun are one batch, and each has its folder, config and result.

topoflow compare --multirun hydra/launcher=topoflow_batch fabric=torus 'bandwidth_gbps=range(1,1001)'

It launches what is ``Batched``, as are the verbs of topoflow that can simulate many points at once.

Hydra runs this module whenever an application of Hydra starts, before the module is known by its name: so it imports
little, and its annotations are no strings, which ``dataclass`` would look up. It does not import ``_jobs``.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides
from hydra.plugins.launcher import Launcher
from hydra.types import TaskFunction
from omegaconf import DictConfig, open_dict

log = logging.getLogger(__name__)


@dataclass
class Config:
    """The configuration of ``hydra/launcher=topoflow_batch``."""

    _target_: str = "hydra_plugins.topoflow_batch.launcher.BatchLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="topoflow_batch", node=Config, provider="topoflow")


@runtime_checkable
class Batched(Protocol):
    """A function of one job that can run many."""

    def __call__(self, config: DictConfig, /) -> Any:
        """Run the job of one configuration."""

    def batch(self, jobs: Iterator["Launched"], /) -> list[Any]:
        """Return what each job returns, or the exception that it would raise."""


class Launched(Protocol):
    """A job whose folder has its configuration."""

    @property
    def overrides(self) -> Sequence[str]:
        """Arguments of the job, without those of Hydra itself."""

    @property
    def folder(self) -> Path:
        """The folder of its files, absolute."""

    @property
    def config(self) -> DictConfig:
        """Return the configuration with Hydra's own node, which is that of ``HydraConfig`` from here on."""


class BatchLauncher(Launcher):
    """Runs all jobs at once, in this process."""

    def setup(self, *, hydra_context: Any, task_function: TaskFunction, config: DictConfig) -> None:
        """Let sweepers compose no job: the batch does."""
        from hydra_plugins.topoflow_batch._jobs import UncheckedLoader  # imports topoflow, only where it is asked for

        if not isinstance(task_function, Batched):
            name = f"{task_function.__module__}.{getattr(task_function, '__name__', type(task_function).__name__)}"
            raise ValueError(f"hydra/launcher: must be of a function with a batch, as those of topoflow, got {name}")
        self.context, self.function, self.config = hydra_context, task_function, config
        hydra_context.config_loader = UncheckedLoader(hydra_context.config_loader)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the jobs as one batch. The log of the batch is in the folder of the sweep, not in those of the jobs."""
        hydra = self.config.hydra
        folder = Path(str(hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        with open_dict(hydra.runtime):
            hydra.runtime.output_dir = str(folder.absolute())
        configure_log(hydra.job_logging, hydra.verbose)
        log.info("Launching %d jobs as one batch", len(job_overrides))
        returns = [JobReturn(overrides=[*filter_overrides(overrides)]) for overrides in job_overrides]
        outer = HydraConfig.instance().cfg
        try:
            values = self.function.batch(self._jobs(job_overrides, initial_job_idx, returns))
        finally:
            HydraConfig.instance().cfg = outer
        for returned, value in zip(returns, values, strict=True):
            returned.status = JobStatus.FAILED if isinstance(value, Exception) else JobStatus.COMPLETED
            returned.return_value = value
            self.context.callbacks.on_job_end(config=returned.hydra_cfg, job_return=returned)
        return returns

    def _jobs(
        self, job_overrides: Sequence[Sequence[str]], first: int, returns: Sequence[JobReturn]
    ) -> Iterator[Launched]:
        """Yield each job, once its folder has its configuration."""
        from hydra_plugins.topoflow_batch._jobs import Jobs

        jobs, has_callbacks = Jobs(self.config), bool(self.config.hydra.callbacks)
        for number, (overrides, returned) in enumerate(zip(job_overrides, returns, strict=True), first):
            job = jobs.job(overrides, number)
            jobs.write(job)
            if has_callbacks:
                returned.hydra_cfg = job.config
                self.context.callbacks.on_job_start(config=returned.hydra_cfg, task_function=self.function)
            yield job
