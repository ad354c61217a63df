"""The benchmarks are scripts beside each other, not a package: their folder goes where imports are looked for."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
