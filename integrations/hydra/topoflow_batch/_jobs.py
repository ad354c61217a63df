"""A job of a batch, as a function with a batch sees it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra_plugins.topoflow_batch._loader import DIR, OUT, SUBDIR, TASK, Composed
from omegaconf import DictConfig


@dataclass(frozen=True)
class LaunchedJob:
    """``Launched``, until the next is composed."""

    composed: Composed
    folder: Path

    @classmethod
    def of(cls, composed: Composed) -> LaunchedJob:
        """The job in the folder that Hydra's settings say; ``${hydra:...}`` reads these."""
        folder = Path(os.getcwd(), str(composed.at(DIR)), str(composed.at(SUBDIR)))  # a path of its own stays as it is
        composed.changed[OUT] = str(folder)
        found = cls(composed, folder)
        if composed.family.reads_hydra:
            found.config  # noqa: B018  HydraConfig has it
        return found

    @property
    def overrides(self) -> Sequence[str]:
        task: Sequence[str] = self.composed.changed[TASK]
        return task

    @property
    def choices(self) -> Mapping[str, str]:
        return self.composed.family.choices

    @property
    def config(self) -> DictConfig:
        config = self.composed.config
        HydraConfig.instance().cfg = config  # no copy of it, unlike set_config
        return config
