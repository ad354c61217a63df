"""The example that divides bandwidth by a torch optimizer finds a faster network than the one it begins with."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


def test_a_divided_network_is_faster_than_equal_links(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "allocate_bandwidth.py"), "12"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    equal, divided = map(float, re.findall(r"links +([0-9.]+) ms", done.stdout))
    assert divided < 0.95 * equal
