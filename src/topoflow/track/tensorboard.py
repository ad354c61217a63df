"""TensorBoard (``tensorboard=on``): a folder of events for each run in ``tensorboard.dir``."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from topoflow.track.base import About, TableRows, TrackedResults, TrackerLog


@dataclass(frozen=True)
class Tensorboard:
    """Keys of the TensorBoard tracker; ``tensorboard --logdir DIR`` shows the runs in ``dir``."""

    PACKAGE: ClassVar[str] = "tensorboardX"

    dir: str = "runs/tensorboard"

    def begin(self, about: About) -> TrackerLog:
        """Begin a run in a new folder, named by the time and the verb."""
        from tensorboardX import event_file_writer, summary
        from tensorboardX.proto.event_pb2 import Event

        name = f"{datetime.now():%Y-%m-%d-%H-%M-%S}-{about.verb}"
        parent = Path(self.dir) / re.sub(r"[^\w.,=+-]", "_", about.group or "")
        folder = next(path for path in (parent / f"{name}-{number}" for number in count(1)) if not path.exists())
        folder.mkdir(parents=True)
        # EventsWriter, not SummaryWriter: the latter writes in a thread, whose errors cannot be handled here.
        log = _Folder(folder, event_file_writer.EventsWriter(str(folder / "events")), Event, summary)
        log.text("command", about.command)
        log.text("config", f"```json\n{json.dumps(about.config, indent=1, default=str)}\n```")
        return log


@dataclass
class _Folder:
    folder: Path
    writer: Any
    event: Any
    summary: Any
    step: int = 0

    @property
    def where(self) -> str:
        return f"the run is in {self.folder}; tensorboard --logdir shows it"

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.step = step
        for key, value in values.items():
            self._write(self.summary.scalar(key, value))
        self.writer.flush()

    def record_results(self, results: TrackedResults) -> None:
        """Log numbers as scalars of the last step, tables as text, and pictures as images; files are not logged."""
        from PIL import Image

        for key, value in results.summary.items():
            if isinstance(value, int | float):
                self._write(self.summary.scalar(key, value))
            else:
                self.text(key, str(value))
        for name, rows in results.tables.items():
            self.text(name, _markdown(rows))
        for name, path in results.pictures.items():
            with Image.open(path) as picture:
                self._write(self.summary.image(name, np.asarray(picture.convert("RGB")), dataformats="HWC"))
        self.writer.flush()

    def text(self, name: str, text: str) -> None:
        """Log a text, which may be Markdown."""
        self._write(self.summary.text(name, text))

    def end(self, failed: bool) -> None:
        if failed:
            self.text("failed", "true")
        self.writer.close()

    def _write(self, summary: Any) -> None:
        self.writer.write_event(self.event(wall_time=time.time(), step=self.step, summary=summary))


def _markdown(rows: TableRows) -> str:
    columns = [*dict.fromkeys(key for row in rows for key in row)]
    lines = [columns, ["---"] * len(columns), *([row.get(key, "") for key in columns] for row in rows)]
    cells = [[str(cell).replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
