"""Device code with a mistake in it fails under emulation: each mutant is a copy of the headers with one change."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import emulation
import pytest

from tests.examples import FACTOR

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = 86  # the exit status of a program in which device code did something wrong

WORLDS = """
import sys
import numpy as np
from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid

random = np.random.default_rng(1)
tasks, links = 48, 5
paths = [random.permutation(links)[: random.integers(1, 4)] for _ in range(tasks)]
after = [random.integers(0, task, min(task, int(random.integers(0, 3)))) for task in range(tasks)]
graph = LoweredGraph(
    delay=random.choice([0.0, 1e-3], tasks), bytes=random.random(tasks), release=np.zeros(tasks),
    path=np.arange(tasks, dtype=np.int32), after_offsets=np.cumsum([0, *map(len, after)]),
    after=np.concatenate(after).astype(np.int32), path_offsets=np.cumsum([0, *map(len, paths)]),
    path_links=np.concatenate(paths).astype(np.int32), owner=np.arange(tasks, dtype=np.int32), owners=tasks,
    links=links,
)
least = 1e-6 if sys.argv[1] == "fluid" else 1  # beside a link of so little bandwidth, rates are not found by rounds
worlds = [World("some", graph, np.append(1 + random.random(links - 1), least), np.zeros(links)) for _ in range(3)]
fidelity = Bound() if sys.argv[1] == "bound" else Fluid()
try:
    found = fidelity.simulate(worlds, Run(DeviceMemory.named("cuda")))
    for timeline, expected in zip(found, fidelity.simulate(worlds), strict=True):
        np.testing.assert_allclose(timeline.finish, expected.finish, rtol=1e-9)
except Exception as error:
    print(error)
"""

LADDER = """
import numpy as np
from topoflow.engine.device import DeviceMemory
from topoflow.engine.screen.contention import Contention
from topoflow.search.memory import budget
from topoflow.search.moves import moves
from topoflow.search.placements import choices
from topoflow.search.tempering import Tempering, shares
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.traffic.lower import lower

keys = ["servers=4", "fabric=topoopt", "workload.tables=2", "workload.dense_layers=2", "workload.feature_layers=1"]
(point,) = grid([*keys, "workload.rows=100000"], check)
workload = build(point, "workload").build()
strategy = build(point, "strategy").place(workload, 4)
fabric = build(point, "fabric").build(4, lower(workload, strategy).demand())
placed = choices(4, strategy.placement.values())
start = np.tile(placed.placement(workload, strategy), (2, 3, 1))
try:
    walks = []
    for device in (DeviceMemory(), DeviceMemory.named("cuda")):
        model = Contention(workload, fabric, placed.holders, device=device)
        known = budget(workload, placed), moves(workload, placed), shares((0.01, 0.2), 3)
        tempering = Tempering(model, *known, 7, 0, 2)
        *_, stretch = tempering.walk(tempering.begin(start, 4), 12)
        walks.append(stretch.walk)
    for name, value in vars(walks[0]).items():
        np.testing.assert_array_equal(value, getattr(walks[1], name), name)
except Exception as error:
    print(error)
"""

PROGRAMS = {"bound": WORLDS, "fluid": WORLDS, "rounds": WORLDS, "screen": LADDER}
SOURCES = {"rounds": "fluid"}  # of a program, where they are not named as it is


@dataclass(frozen=True)
class Mutant:
    kernel: str  # what is compiled anew, and run
    header: str
    before: str  # a regular expression that matches once
    after: str
    finding: str


MUTANTS = {
    "a barrier left out": Mutant(
        "bound",
        "parallel/teams/block_team.h",
        r"(void for_each\(int32_t n, F f\) const \{\n.*?f\(i\);\n) *__syncthreads\(\);\n",
        r"\1",
        "race in memory",
    ),
    "a thread that does not wait": Mutant(
        "bound",
        "parallel/teams/block_team.h",
        r"(void for_each\(int32_t n, F f\) const \{\n.*?f\(i\);\n *)__syncthreads\(\);\n",
        r"\1if (threadIdx.x != 7) __syncthreads();\n",
        "threads of a block wait for",
    ),
    "an access after the end": Mutant(
        "bound",
        "parallel/teams/block_team.h",
        r"(void for_each\(int32_t n, F f\) const \{\n.*?)i < n;",
        r"\1i < n + 100000;",
        "access after the end of memory|access of memory that is none of the device's",
    ),
    "a wait left out": Mutant(
        "bound",
        "parallel/launch.h",
        r"(next_job = atomicAdd\(next, 1\);\n) *__syncthreads\(\);\n",
        r"\1",
        "race in shared memory",
    ),
    "an append without an atomic": Mutant(
        "fluid", "parallel/team.h", r"items\[team\.atomic_add\(size, 1\)\] = item", "items[(*size)++] = item", "race in"
    ),
    "a queue that changes while other lanes look into it": Mutant(
        "fluid", "fluid/tournament.h", r" *team\.wait\(\);  // until all have found it\n", "", "race in memory"
    ),
    "a list that lanes read before others have written it": Mutant(
        "fluid",
        "parallel/teams/warp_team.h",
        r" *__syncwarp\(\);  // also until no lane reads what [^\n]+\n",
        "",
        "race in",
    ),
    "a list of paths that is read while others write it": Mutant(
        "rounds",
        "parallel/teams/block_team.h",
        r"(f\(i, i < n\);\n) *__syncthreads\(\);\n",
        r"\1",
        "race in shared memory",
    ),
    "an uninitialised read": Mutant(
        "fluid",
        "fluid/world.h",
        r" *state_\.pending\[task\] = static_cast<int32_t>\(after\[1\] - after\[0\]\);\n",
        "",
        "read of uninitialised",
    ),
    "a ladder whose placement changes while others read it": Mutant(
        "screen",
        "screen/coflow_loads.h",
        r" *team\.wait\(\);  // all have read the placement\n",
        "",
        "race in memory",
    ),
    "a ladder whose step is taken twice": Mutant(
        "screen",
        "screen/ladder.h",
        r"team\.for_each\(1, (\[&\]\(int32_t\) \{\n *const int64_t row)",
        r"team.for_each(2, \1",
        "race in memory",
    ),
    "a ladder whose proposals are overwritten while others read them": Mutant(
        "screen",
        "screen/ladder.h",
        r" *team\.wait\(\);  // all have read proposed_\n",
        "",
        "race in memory",
    ),
    "a cast that overflows": Mutant(
        "bound",
        "bound/run.h",
        r"Bound\(batch, group, memory \+ team_index \* numbers\)",
        "Bound(batch, group + static_cast<int32_t>(batch.graph.links * 0.9e9) * 0, memory + team_index * numbers)",
        "cast of a number that does not fit",
    ),
}

OF_EACH_FINDING = [*{mutant.finding: name for name, mutant in MUTANTS.items()}.values()]  # the last; at night all


@pytest.fixture(scope="module")
def built() -> Path:
    """The library without a mistake."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return emulation.build()


def run(library: Path, kernel: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAMS[kernel], kernel]
    return subprocess.run(command, env=emulation.environment(library), capture_output=True, text=True, timeout=280)


def mutated(built: Path, mutant: Mutant, folder: Path) -> Path:
    """The library with this kernel compiled from a changed copy of the headers."""
    shutil.copytree(ROOT / "csrc", folder / "csrc")
    header = folder / "csrc" / mutant.header
    text, count = re.subn(mutant.before, mutant.after, header.read_text(), count=2, flags=re.DOTALL)
    assert count == 1, f"{mutant.header}: expected {mutant.before!r} once, got {count}"
    header.write_text(text)
    entries = json.loads((built.parent / "compile_commands.json").read_text())
    mutants = []
    for entry in entries:
        name = Path(entry["file"]).name
        kernel = SOURCES.get(mutant.kernel, mutant.kernel)
        if re.fullmatch(rf"{kernel}(_\w+)?\.cu", name):  # a kernel may be in several files
            command = entry["command"].replace(str(ROOT / "csrc"), str(folder / "csrc"))
            mutants.append(folder / f"{name}.o")
            subprocess.run(shlex.split(re.sub(r" -o \S+ ", f" -o {mutants[-1]} ", command)), cwd=folder, check=True)
    assert mutants
    built_objects = [built.parent / entry["output"] for entry in entries]  # not what an earlier build has left there
    objects = [path for path in built_objects if path.name not in {one.name for one in mutants}]
    kernels = [path for path in objects if path.name.endswith(".cu.o")]
    others = [path for path in objects if path not in kernels]
    library = folder / built.name
    # Kernels have functions in common, of which the linker takes the first: the mutant's.
    link = ["g++", "-shared", "-o", str(library), *map(str, (*others, *mutants, *kernels))]
    subprocess.run([*link, "-ldl", "-lgomp", "-lpthread"], check=True)
    return library


@pytest.mark.slow
@pytest.mark.parametrize("kernel", PROGRAMS)
def test_device_code_as_it_is_has_no_finding(kernel: str, built: Path) -> None:
    done = run(built, kernel)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_rates_are_the_same_where_patience_ends(built: Path, tmp_path: Path) -> None:
    """No world is known whose links are adjusted so often that they are refilled instead: here after one of them."""
    impatient = Mutant("fluid", "fluid/adjust.h", r"const int64_t patience = [^;]+;", "const int64_t patience = 1;", "")
    done = run(mutated(built, impatient, tmp_path), "fluid")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS if FACTOR > 1 else OF_EACH_FINDING)
def test_a_mutant_fails(name: str, built: Path, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    done = run(mutated(built, mutant, tmp_path), mutant.kernel)
    assert done.returncode == FINDINGS, done.stdout + done.stderr
    assert re.search(f"cuda emulation: (?:{mutant.finding})", done.stderr), done.stderr
