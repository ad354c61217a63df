"""The files of a user that docs/hydra.md shows, and the commands below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from topoflow.cli import main

BLOCK = re.compile(r"## Your own files.*?```text\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_documented_files_and_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    match = BLOCK.search(Path("docs/hydra.md").read_text())
    assert match is not None
    path = Path()
    for line in match[1].splitlines():
        name, text = line[:31].strip(), line[31:]
        path = tmp_path / name if name else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + text + "\n")
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line)[1:] for line in match[2].splitlines()]
    assert len(commands) == 3
    assert [main(command) for command in commands] == [0, 0, 0]
