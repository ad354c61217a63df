"""MLflow (``mlflow=on``): a run of an experiment on the server, database or folder ``mlflow.uri``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from topoflow.track.base import About, TrackedResults, TrackerLog

MAX_VALUE_LENGTH = 500  # characters of a parameter's value that every store of MLflow accepts


@dataclass(frozen=True)
class Mlflow:
    """Keys of the MLflow tracker; null means MLflow's default: ``MLFLOW_TRACKING_URI``."""

    PACKAGE: ClassVar[str] = "mlflow"

    uri: str | None = None
    experiment: str = "topoflow"

    def begin(self, about: About) -> TrackerLog:
        """Begin a run; the runs of a multirun share the tag ``group``."""
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=self.uri)
        existing = client.get_experiment_by_name(self.experiment)
        experiment = client.create_experiment(self.experiment) if existing is None else existing.experiment_id
        tags = {"verb": about.verb, "command": about.command, **dict.fromkeys(about.tags, "")}
        if about.group is not None:
            tags["group"] = about.group
        run = client.create_run(experiment, tags=tags, run_name=about.name)
        for key, value in _flat(about.config):
            client.log_param(run.info.run_id, key, str(value)[:MAX_VALUE_LENGTH])
        return _Run(client, Metric, run.info.run_id)


@dataclass
class _Run:
    client: Any
    metric: Any
    id: str
    step: int = 0

    @property
    def where(self) -> str:
        return f"the run is {self.id} at {self.client.tracking_uri}"

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.step, now = step, int(time.time() * 1000)
        metrics = [self.metric(_name(key), value, now, step) for key, value in values.items()]
        self.client.log_batch(self.id, metrics=metrics)

    def record_results(self, results: TrackedResults) -> None:
        """Log numbers as metrics, tables as JSON, and all files as artifacts."""
        numbers = {key: value for key, value in results.summary.items() if isinstance(value, int | float)}
        self.record(self.step + 1, numbers)
        for key, value in results.summary.items():
            if key not in numbers:
                self.client.set_tag(self.id, key, str(value))
        for name, rows in results.tables.items():
            self.client.log_text(self.id, json.dumps([dict(row) for row in rows], default=str), f"{name}.json")
        for name, path in results.files.items():
            folder = PurePosixPath(name).parent.as_posix()
            self.client.log_artifact(self.id, str(path), None if folder == "." else folder)

    def end(self, failed: bool) -> None:
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by their dotted keys."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield _name(f"{prefix}{key}"), value


def _name(key: str) -> str:
    """Replace the characters of a key that MLflow does not allow by "_"."""
    return "".join(char if char.isalnum() or char in "_-./ " else "_" for char in key)
