"""Every command and every line of Python in the documentation is run, and prints what the text says that it prints.

- A block of ``bash`` or ``python`` is run, in the order of its page, in a folder with a copy of ``examples/``.
- A block of ``text`` after it is what it prints: the same words; a line ``...`` stands for what is left out.
- A block whose title is a path of the project is quoted from that file.
- Any other title says why the block is not run: ``takes ...`` or ``needs ...``.
- Commands that install are those of ``.ci/run``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow.parquet import read_schema

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "integrations/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src" / "topoflow" / "papers").glob("*/README.md")),
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "examples").glob("*.md")),
]
FENCE = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', flags=re.MULTILINE | re.DOTALL)
VERBS = ("compare", "search", "experiment", "place", "simulate", "capture", "inspect", "node", "nccl")


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    title: str
    text: str
    output: str  # of the block of text that follows at once

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.text.strip().splitlines()[0][:50]}"

    @property
    def quoted(self) -> bool:
        return (ROOT / self.title).is_file()

    @property
    def command(self) -> str:
        """What the reader of an installed topoflow runs."""
        return re.sub(r"^pip install \. && (?=topoflow )", "", self.text)

    @property
    def installs(self) -> bool:
        return "pip install" in self.command

    @property
    def runs(self) -> bool:
        return self.language in ("bash", "python") and not self.title and not self.installs


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in FENCE.finditer(text):
        follows = re.match(r"\s*```text\n(.*?)^```$", text[match.end() :], flags=re.MULTILINE | re.DOTALL)
        yield Block(page, match[1], match[2] or "", match[3], follows[1] if follows else "")


BLOCKS = [block for page in PAGES for block in blocks(page)]


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run as a user would: the environment's own topoflow, python and torchrun first on PATH."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False)


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(["bash", "-ec", command], cwd)


def words(text: str) -> str:
    """Without what depends on the width of the terminal: line ends, spaces, rules."""
    return " ".join(word for word in text.split() if set(word) != {"─"})


RUN = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page == PAGES[0] else pytest.mark.slow) for page in RUN],  # the README: always
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_blocks_of_a_page_run_and_print_what_follows_them(page: Path, tmp_path: Path) -> None:
    """In order and in one folder with the examples, where the reader of the page stands: they build on each other."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for block in blocks(page):
        if block.runs:
            check_block(block, tmp_path)


def check_block(block: Block, folder: Path) -> None:
    command = ["bash", "-ec"] if block.language == "bash" else [sys.executable, "-c"]
    done = run([*command, block.command], folder)
    assert done.returncode == 0, f"{block.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    printed, position = words(done.stdout), 0
    for part in re.split(r"^\.\.\.$", block.output, flags=re.MULTILINE):
        position = printed.find(words(part), position)
        assert position >= 0, f"{block.text}\n{done.stdout}\ndoes not print\n{part}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.quoted], ids=str)
def test_a_quoted_file_is_the_file(block: Block) -> None:
    assert block.text == (ROOT / block.title).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    for block in blocks(page):
        assert not block.title or block.quoted or block.title.split()[0] in ("takes", "needs"), block.title
    text = page.read_text()
    assert not re.search(r"^(<<<<<<<|>>>>>>>) ", text, flags=re.MULTILINE)  # a merge that was not resolved
    assert len(re.findall(r"^\s*```\w", text, flags=re.MULTILINE)) == len(list(blocks(page)))  # no other form of fence


def columns_of(value: object) -> Iterator[str]:
    """The keys of JSON, down to those that a configuration or a layer names."""
    if isinstance(value, list):
        for element in value[:1]:
            yield from columns_of(element)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from columns_of(inner) if key not in ("config", "overrides", "strategy", "routes") else ()


@pytest.mark.slow
def test_the_columns_of_every_file_are_documented(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in (
        "compare workload=resnet50 servers=4 fabric=topoopt fail.each=fiber out=compare",
        "search workload=resnet50 servers=4 search.proposals=32 search.rounds=1 out=search",
        "inspect examples/ddp_4_ranks.jsonl.gz --out inspect",
    ):
        completed = shell(f"topoflow {command}", tmp_path)
        assert completed.returncode == 0, completed.stderr
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "results.md").read_text()))
    files = [path for folder in ("compare", "search", "inspect") for path in sorted((tmp_path / folder).iterdir())]
    ours = [path for path in files if path.name != "trace.json"]  # which is in the format of Perfetto
    files = [path for path in ours if path.suffix in (".json", ".parquet")]
    assert len(files) == 7
    for file in files:
        columns = list(columns_of(json.loads(file.read_text()))) if file.suffix == ".json" else read_schema(file).names
        assert set(columns) <= documented, f"{file.parent.name}/{file.name}: {sorted(set(columns) - documented)}"


@pytest.mark.parametrize("group", ["workload", "strategy", "fabric", "fidelity", "gpu", "prices"])
def test_every_choice_is_documented(group: str) -> None:
    text = "".join(page.read_text() for page in PAGES)
    for config in sorted((ROOT / "src" / "topoflow" / "configs" / group).glob("*.yaml")):
        assert re.search(rf"`(?:{group}=)?{config.stem}`", text), f"{group}={config.stem} is in no page"


@pytest.mark.parametrize(("folder", "page"), [("collectives", "collectives.md"), ("routing", "compare.md")])
def test_every_module_of_lowering_is_documented(folder: str, page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for module in sorted((ROOT / "src" / "topoflow" / "engine" / "lowering" / folder).glob("[a-z]*.py")):
        assert f"`{module.stem}`" in text, f"{module.stem} is not in docs/{page}"


def test_ci_runs_the_commands_that_install() -> None:
    steps = (ROOT / ".ci" / "run").read_text()
    installs = [block for block in BLOCKS if "pip install" in block.text and not block.title]
    assert len(installs) >= 2
    for block in installs:
        for command in block.text.replace(" && ", "\n").splitlines():
            assert command in steps, f".ci/run does not call: {command}"


def test_ci_runs_what_pytest_alone_leaves_out() -> None:
    assert "\n  pytest -m slow\n" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_a_help_works(verb: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    text = shell(f"topoflow {verb} --help", tmp_path).stdout
    examples = [line.strip() for line in text.splitlines() if line.startswith("  topoflow ")]
    assert examples, f"topoflow {verb} --help shows no example"
    for example in examples:
        done = shell(example, tmp_path)
        assert done.returncode == 0, f"{example}\n{done.stderr[-2000:]}"
