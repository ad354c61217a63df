"""Reading back what trackers write."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BLOCK = 32768  # B, of the transaction log of W&B: LevelDB's format, records of 7 B and a part of a message
PATIENCE = 60  # s, at most; a run returns before the last of its file is written
FULL, LAST = 1, 4  # kinds of parts that end a message


def messages(path: Path) -> Iterator[bytes]:
    """The messages of a ``.wandb`` file."""
    data, at, message = path.read_bytes(), 7, b""
    assert b":W&B".startswith(data[:4])
    while at + 7 <= len(data):  # what is still being written ends within a message
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        if at + 7 + length > len(data):
            return
        message += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield message
            message = b""


class WandbRun:
    """A run that W&B wrote offline, parsed by W&B's own messages."""

    def __init__(self, path: Path) -> None:
        from wandb.proto.wandb_internal_pb2 import Record

        self.folder = path.parent
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.artifacts: dict[str, set[str]] = {}  # by type: the files
        self.exit_code: int | None = None
        for message in messages(path):
            record = Record.FromString(message)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            elif kind == "history":
                self.history.append(self._values(record.history.item))
            elif kind == "summary":
                self.summary |= self._values(record.summary.update)
            elif kind == "artifact":
                files = {file.path for file in record.artifact.manifest.contents}
                self.artifacts.setdefault(record.artifact.type, set()).update(files)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code

    @staticmethod
    def _values(items: Any) -> dict[str, Any]:
        return {"/".join([item.key] * bool(item.key) or item.nested_key): json.loads(item.value_json) for item in items}


@pytest.fixture
def wandb_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[WandbRun]]:
    """``wandb_runs(folder)``: the runs in a folder; skipped where W&B is not installed."""
    pytest.importorskip("wandb", reason="needs the extra wandb")
    for name in ("WANDB_API_KEY", "WANDB_PROJECT", "WANDB_RUN_GROUP", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)

    def read(folder: Path) -> list[WandbRun]:
        paths, began = sorted(folder.glob("wandb/offline-run-*/*.wandb")), time.monotonic()
        while True:
            runs = [WandbRun(path) for path in paths]
            if all(run.exit_code is not None for run in runs) or time.monotonic() > began + PATIENCE:
                return runs
            time.sleep(0.1)

    return read
