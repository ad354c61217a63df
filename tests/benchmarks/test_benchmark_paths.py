"""Every benchmark stands in ``benchmarks/README.md``, and a path of a benchmark leads to one wherever it is written."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "csrc", "docs", "src", "tests", ".github")
WRITTEN_PATH = re.compile(r"(?<![\w/])benchmarks/(?:[\w/]+\.(?:py|sh)|results/[\w/]+\.(?:txt|md))\b")
SUFFIXES = {".cpp", ".h", ".json", ".md", ".py", ".sh", ".txt", ".yaml", ".yml"}


def test_the_readme_names_every_benchmark() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    scripts = [path for path in (ROOT / "benchmarks").rglob("*.py") if '__name__ == "__main__"' in path.read_text()]
    assert len(scripts) > 20
    assert [path.name for path in scripts if path.name not in readme and path.name != "gpu_kernels.py"] == []


def test_paths_of_benchmarks_exist() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    files += ROOT.glob("*.md")
    missing = {
        f"{path.relative_to(ROOT)}: {written}"
        for path in files
        for written in WRITTEN_PATH.findall(path.read_text())
        if not (ROOT / written).is_file()
    }
    assert missing == set()
