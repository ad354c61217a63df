"""What the tests of experiments share: a figure, small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main

Figure = Callable[..., dict[str, Any]]


@pytest.fixture
def figure(tmp_path: Path) -> Figure:
    """``figure("topoopt_fig13", "servers=8")`` makes the figure in a folder of its own and returns its result.json."""

    def make(name: str, *overrides: str) -> dict[str, Any]:
        assert main(["experiment", name, *overrides, f"out={tmp_path / name}"]) == 0
        result: dict[str, Any] = json.loads((tmp_path / name / "result.json").read_text())
        return result

    return make
