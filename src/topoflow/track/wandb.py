"""Weights & Biases: ``wandb=online``, or ``wandb=offline`` without a network (``wandb sync`` uploads the files)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from topoflow.track.base import About, TrackedResults, TrackerLog
from topoflow.units import check_among, check_positive

MODES = ("online", "offline")


@dataclass(frozen=True)
class Wandb:
    """Keys of the W&B tracker; null means W&B's default: ``WANDB_PROJECT``, ``WANDB_ENTITY``, its own settings.

    ``timeout`` is the longest wait (s) for the network at the beginning, and at the end, of the run.
    """

    PACKAGE: ClassVar[str] = "wandb"

    mode: str
    project: str | None = None
    entity: str | None = None
    group: str | None = None  # null: the folder of a multirun
    tags: Sequence[str] = ()  # in addition to the verb
    dir: str | None = None  # null: wandb/ in the current folder
    timeout: float = 30.0

    def __post_init__(self) -> None:
        check_among("wandb.mode", self.mode, MODES)
        check_positive("wandb.timeout", self.timeout)
        for tag in self.tags:
            if not isinstance(tag, str) or not 1 <= len(tag) <= 64:
                raise ValueError(f"wandb.tags: must be texts of 1 to 64 letters, got {tag!r}")

    def begin(self, about: About) -> TrackerLog:
        """Begin a run; messages of W&B go to its own log file, not to the terminal."""
        import wandb

        logging.getLogger("wandb").propagate = False  # not into the log of a job of Hydra
        project = self.project or os.environ.get("WANDB_PROJECT") or "topoflow"
        try:
            run = wandb.init(
                mode="offline" if self.mode == "offline" else "online",
                project=project,
                entity=self.entity,
                name=about.name[:128],
                job_type=about.verb,
                group=self.group or about.group,
                tags=[about.verb, *self.tags, *about.tags],
                config={**about.config, "command": about.command},
                dir=self.dir,
                save_code=False,
                settings=wandb.Settings(
                    silent=True,
                    console="off",
                    login_timeout=self.timeout,  # W&B would wait for a typed key otherwise
                    init_timeout=self.timeout,
                    finish_timeout=self.timeout,
                ),
            )
        except wandb.Error as error:  # it names neither the project nor the entity
            entity = self.entity or os.environ.get("WANDB_ENTITY")
            named = f"wandb.project={project}" + ("" if entity is None else f" of wandb.entity={entity}")
            raise ValueError(f"{named}: {error}") from error
        return _Run(wandb, run)


@dataclass
class _Run:
    wandb: Any
    run: Any

    @property
    def where(self) -> str:
        if self.run.offline:
            return f"the run is in {os.path.dirname(self.run.dir)}; wandb sync uploads it"
        return f"the run is at {self.run.url}"

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def record_results(self, results: TrackedResults) -> None:
        """Log numbers as the summary, tables and pictures in the workspace, and all files as an artifact."""
        media: dict[str, Any] = {}
        for name, rows in results.tables.items():
            columns = [*dict.fromkeys(key for row in rows for key in row)]
            media[name] = self.wandb.Table(
                columns, [[row.get(key) for key in columns] for row in rows], allow_mixed_types=True
            )
        media |= {f"pictures/{name}": self.wandb.Image(str(path)) for name, path in results.pictures.items()}
        if media:
            self.run.log(media)
        self.run.summary.update(dict(results.summary))
        artifact = self.wandb.Artifact(f"{self.run.job_type}-{self.run.id}", type="topoflow")
        for name, path in results.files.items():
            artifact.add_file(str(path), name)
        if results.files:
            self.run.log_artifact(artifact)

    def end(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))
