"""Numbers in prose come from a command: a measured number that no command of the project prints fails the tests.

A *measured number* is one with a unit of a result: %, times, x, ms, us or s. It is covered where it stands in

- a block of its page, which ``tests/test_docs.py`` runs and compares with what is printed;
- a file of ``tests`` or ``benchmarks/results`` that its section names (``nccl.txt``), as it is there or rounded, as a
  share or in percent. Files of results say with which command, commit and hardware they were made;
- a block of another page that its section names.

A number that is cited from a source, or is a setting, follows ``cited`` in a comment of the page:
``<!-- cited: 2.8, TopoOpt 5.3 -->``. ``UNCOVERED`` counts the numbers of each page that nothing covers yet; it may only
become smaller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.test_docs import FENCE, ROOT
from tests.traffic.test_published_iterations import A100_80GB, RUNS, job, seconds

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"(?<![\w./=^-])(\d[\d,]*(?:\.\d+)?)(?= ?%| (?:times|ms|us|s)\b|x\b)")
ANY_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?")
NAMED = re.compile(r"[\w./-]+\.(?:txt|md|py|yaml)\b")
CITED = re.compile(r"<!-- cited: (.*?) -->", re.DOTALL)
UNCOVERED = {
    "docs/architecture.md": 2,
    "docs/clusters.md": 1,
    "docs/collectives.md": 2,
    "docs/compare.md": 1,
    "docs/emulate.md": 1,
    "docs/executors.md": 1,
    "docs/install.md": 2,
    "docs/packet.md": 19,
    "docs/profile.md": 1,
    "docs/python.md": 2,
    "docs/results.md": 1,
    "docs/search.md": 1,
    "docs/serve.md": 2,
    "docs/slotted.md": 20,
    "docs/track.md": 1,
    "docs/world_files.md": 1,
}


def sections(text: str) -> list[str]:
    """Return the prose of each section, without its blocks."""
    return re.split(r"^(?=#+ )", FENCE.sub("", text), flags=re.MULTILINE)


def named_files(page: Path, section: str) -> Iterator[Path]:
    for name in NAMED.findall(section):
        for folder in (ROOT, page.parent, ROOT / "benchmarks" / "results"):
            path = (folder / name).resolve()
            if path.is_file() and path != page:
                yield path
                break


@cache
def values(path: Path) -> tuple[float, ...]:
    """Return the numbers of a file that may cover others: of a page those of its blocks and citations, else all."""
    text = path.read_text()
    if path.suffix == ".md" and "results" not in path.parts:
        text = "\n".join([*(match[0] for match in FENCE.finditer(text)), *CITED.findall(text)])
    return tuple(float(number) for number in ANY_NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3})", "", text)))


def is_covered(number: str, covered: tuple[float, ...]) -> bool:
    decimals = len(number.partition(".")[2])
    return any(round(value * scale, decimals) == float(number) for value in covered for scale in (1, 100))


def uncovered(page: Path) -> list[str]:
    """Return the measured numbers of a page that nothing covers, each with the words before it."""
    missing = []
    for section in sections(page.read_text()):
        covered = values(page)
        for path in named_files(page, section):
            if path.is_relative_to(ROOT / "tests") or "results" in path.parts or path.suffix == ".md":
                covered += values(path)
        prose = CITED.sub("", section)
        for match in NUMBER.finditer(prose):
            if not is_covered(match[1].replace(",", ""), covered):
                missing.append(" ".join(prose[max(0, match.start() - 40) : match.end() + 6].split()))
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_number_in_prose_comes_from_a_command(page: Path) -> None:
    missing = uncovered(page)
    assert len(missing) == UNCOVERED.get(str(page.relative_to(ROOT)), 0), "\n".join(missing)


def test_a_new_number_without_a_command_is_found(tmp_path: Path) -> None:
    page, cites = tmp_path / "page.md", tmp_path / "cites.md"
    page.write_text("A step takes 12.3 ms.\n\n```text\n  fat_tree 12.3 ms\n```\n\n# Other\n\nIt is 7 % slower.\n")
    assert uncovered(page) == ["# Other It is 7 % slo"]
    cites.write_text("A step takes 12.3 ms, in the paper 7 times as long. <!-- cited: 12.3, 7, the paper -->\n")
    assert not uncovered(cites)


def documents(page: str, sentence: str) -> bool:
    """Return whether a page has a sentence, wherever its lines end."""
    return sentence in " ".join((ROOT / page).read_text().split())


@pytest.mark.slow
def test_the_pages_say_at_which_share_published_iterations_are_predicted() -> None:
    """59 to 74 % with rooflines and 88 to 99 % with measured kernels."""
    runs = [published.values[0] for published in RUNS]
    measured = replace(A100_80GB, efficiency="measured")
    kinds = ("selective", "full")
    shares = [
        [seconds(run, job(run, gpu), kind) / getattr(run, kind) for run in runs for kind in kinds]
        for gpu in (A100_80GB, measured)
    ]
    roofline, kernels = (f"{100 * min(series):.0f} to {100 * max(series):.0f} %" for series in shares)
    for page in ("README.md", "docs/accuracy.md"):
        assert documents(page, f"{roofline} of the measured time"), roofline
        assert documents(page, f"{kernels} with"), kernels


@pytest.mark.slow
def test_the_pages_say_what_a_recorded_step_replays_in(
    shared_data: Path, topoflow_cli: Callable[..., object], tmp_path: Path
) -> None:
    """219.8 ms were recorded, and 219 ms are predicted."""
    trace = shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"
    completed = topoflow_cli(
        "compare", "workload=captured", f"workload.trace={trace}", "fabric=ideal_switch", "degree=1", cwd=tmp_path
    )
    match = re.search(r"ideal_switch +([\d.]+) ms +([\d.]+) ms", str(getattr(completed, "stdout", "")))
    assert match is not None
    assert documents("README.md", f"a recorded ResNet-50 step of {match[2]} ms replays in {match[1]} ms")
    assert documents("docs/accuracy.md", f"measured step of {match[2]} ms | {match[1]} ms at 100 Gb/s")
