"""The interposed all-reduce, against a mock NCCL whose ranks are threads, and once against a real one."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Build = Callable[[str], Path]
SANITIZERS = ("address", "thread")
RINGS = {"TOPOFLOW_NCCL_RINGS": "1,3", "TOPOFLOW_NCCL_THRESHOLD": "1"}
# Laws of rings_test.c, and what differs from RINGS.
LAWS: dict[str, dict[str, str]] = {
    "sums": {},
    "types": {},
    "groups": {},
    "one_thread": {},
    "graphs": {},
    "finalize": {},
    "revoke": {},
    "shrink": {},
    "errors": {},
    "stuck": {},
    "abort_split": {"TOPOFLOW_NCCL_THRESHOLD": "4096"},  # above the 4 B of the all-reduce before the split
    "abort_comparison": {},
    "not_blocking": {},
    "nodes": {"TOPOFLOW_NCCL_RANKS_PER_NODE": "2"},
    "many": {"TOPOFLOW_NCCL_RINGS": "1,5,27,63", "TOPOFLOW_NCCL_WEIGHTS": ".25,.25,.25,.25"},
    "untouched": {"TOPOFLOW_NCCL_THRESHOLD": "262145"},  # 65536 elements of 4 B, and 1
}


def run(program: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOPOFLOW_NCCL")}
    command = [str(program), *arguments]
    return subprocess.run(command, env=inherited | variables, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_laws_of_spread_all_reduces(nccl_build: Build, sanitizer: str) -> None:
    program = nccl_build(sanitizer) / "tests" / "rings_test"
    for check, variables in LAWS.items():
        ran = run(program, check, **RINGS | variables)
        assert ran.returncode == 0, f"{check}: {ran.stderr}"


def test_an_order_is_listed_node_by_node(nccl_build: Build) -> None:
    """The order of stride 3 among 8 nodes, spelled out, gives the bytes of stride 3."""
    program = nccl_build("address") / "tests" / "rings_test"
    ran = run(program, "sums", **RINGS | {"TOPOFLOW_NCCL_RINGS": "0-1-2-3-4-5-6-7,0-3-6-1-4-7-2-5"})
    assert ran.returncode == 0, ran.stderr


# Call (mock.h's MockNcclCall: split, count, rank, device, group start, group end, all-reduce, destroy, all-gather), the
# number of the call, the error (a CUDA error, a refusal), and if the fault comes before the call has an effect.
FAULTS = [(0, nth, error, after) for nth in (1, 2, 3) for error in (1, 5) for after in (0, 1)]
FAULTS += [(call, nth, 1, 0) for call in range(1, 9) for nth in (1, 2, 3)] + [(6, 1, 1, 1), (6, 2, 1, 1), (8, 1, 1, 1)]
# These must be an error on the rank that has the fault: a failed comparison, vote or all-reduce, a communicator without
# answer. Of all else only that no rings are made may be noticed.
ERRORS = {(0, 2), (1, 1), (1, 3), (2, 1), (3, 1), (8, 1)} | {(call, nth) for call in (4, 5, 6) for nth in (1, 2, 3)}


def check_faults(program: Path, faults: list[tuple[int, int, int, int]]) -> None:
    for call, nth, error, after in faults:
        ran = run(program, "faults", FAULT=f"{call},{nth},2,{error},{after}", **RINGS)
        expected = "error" if (call, nth) in ERRORS else "right"
        assert (ran.returncode, ran.stdout.strip()) == (0, expected), f"{call, nth, error, after}: {ran.stderr}"


def test_a_fault_in_any_call_is_an_error_or_changes_nothing(nccl_build: Build) -> None:
    check_faults(nccl_build("address") / "tests" / "rings_test", FAULTS)


@pytest.mark.slow
def test_a_fault_in_any_call_races_with_nothing(nccl_build: Build) -> None:
    check_faults(nccl_build("thread") / "tests" / "rings_test", FAULTS)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_a_fault_of_the_driver_is_an_error_or_changes_nothing(nccl_build: Build, sanitizer: str) -> None:
    """The ranks hear in time of streams and events that cannot be made. A rank gets an error if it cannot compare its
    settings with those of the others, or cannot order a stream.

    Each of 8 ranks makes a stream, a context, an allocation and two copies for the comparison, then a stream and two
    events for the rings.
    """
    program = nccl_build(sanitizer) / "tests" / "rings_test"
    faults = {
        "error": [
            (0, 1),
            (0, 8),
            *((call, nth) for call in (2, 3) for nth in (1, 2, 9)),
            (4, 8),
            (5, 8),
            (6, 1),
            (6, 9),
        ],
        "right": [(0, 9), (0, 16), (1, 1), (1, 9), (4, 9), (5, 9), (6, 17)],
    }
    for expected, calls in faults.items():
        for call, nth in calls:
            ran = run(program, "cuda_faults", FAULT=f"{call},{nth}", **RINGS)
            assert (ran.returncode, ran.stdout.strip()) == (0, expected), f"{call, nth}: {ran.stderr}"


@pytest.mark.parametrize(
    "program", [("rings_test_alone",), ("late_test", "librings_test_library.so")], ids=["linked", "dlopen"]
)
def test_preloaded_it_stands_before_nccl(nccl_build: Build, program: tuple[str, ...]) -> None:
    """Whether the program is linked with NCCL, or loads a library privately that is."""
    build = nccl_build("")
    arguments = [*(str(build / "tests" / name) for name in program[1:]), "sums"]
    ran = run(build / "tests" / program[0], *arguments, LD_PRELOAD=str(build / "libtopoflow_nccl.so"), **RINGS)
    assert ran.returncode == 0, ran.stderr
    alone = run(build / "tests" / program[0], *arguments, **RINGS)
    assert alone.returncode == 1, "without it no byte takes the strides"


def test_with_a_nccl_that_cannot_split_all_is_passed_on(nccl_build: Build) -> None:
    build = nccl_build("")
    variables = {"LD_PRELOAD": str(build / "libtopoflow_nccl.so"), "LD_LIBRARY_PATH": str(build / "tests" / "old")}
    ran = run(build / "tests" / "rings_test_alone", "untouched", **RINGS | variables)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "lacks a function" in ran.stderr


NO_SETTINGS = "-"


def run_jobs(build: Path, jobs: list[list[str]]) -> tuple[list[str], str]:
    """The answers of settings_test.c for jobs that have the settings of each rank, and its standard error."""
    lines = "".join("\t".join(job) + "\n" for job in jobs)
    program = str(build / "tests" / "settings_test")
    ran = subprocess.run([program], input=lines, env=os.environ | RINGS, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split(), ran.stderr


def drawn_settings(draw: random.Random, ranks: int) -> str:
    """Settings that are valid for some number of ranks, often for this one."""
    if draw.random() < 0.15:
        return NO_SETTINGS
    node = draw.choice((1, 1, 1, 2, 3))
    nodes = max(1, ranks // node)
    order = draw.sample(range(nodes), nodes)
    kinds = ("1", str(draw.randint(1, nodes)), str(max(1, nodes - 1)), "-".join(map(str, order)) if nodes > 1 else "1")
    rings = draw.choices(kinds, k=draw.randint(1, 3))
    weights = draw.choice(("", {1: "1", 2: ".25,.75", 3: ".5,.3,.2"}[len(rings)]))
    threshold = draw.choice(("", "1", "12000", "24000", "24001"))  # of 40, 12,000 and 24,000 B
    return f"{','.join(rings)};{weights};{threshold};{node}"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_sums_are_right_and_rings_are_used_by_all_ranks_or_none_whatever_the_settings_of_each(
    nccl_build: Build, sanitizer: str
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    jobs = [["1,3;;1;1"] * 4, ["1,3;;1;1"] * 3 + ["3,1;;1;1"]]
    for _ in range(60):
        ranks = draw.randint(1, 9)
        usual, other = drawn_settings(draw, ranks), drawn_settings(draw, ranks)
        share = draw.choice((0, 0, 0.3, 0.7))  # of ranks with the others' settings
        jobs.append([other if draw.random() < share else usual for _ in range(ranks)])
    answers, _ = run_jobs(nccl_build(sanitizer), jobs)
    for job, answer in zip(jobs, answers, strict=True):
        assert answer == "own" or (answer == "rings" and len(set(job)) == 1), f"seed {seed}: {job} gave {answer}"
    assert answers[:2] == ["rings", "own"]


DIFFERENT = {
    "TOPOFLOW_NCCL_RINGS": "3,1;;1;1",
    "TOPOFLOW_NCCL_WEIGHTS": "1,3;.25,.75;1;1",
    "TOPOFLOW_NCCL_THRESHOLD": "1,3;;100;1",
    "TOPOFLOW_NCCL_RANKS_PER_NODE": "1,3;;1;2",
}


def test_the_setting_and_the_rank_that_differ_are_named(nccl_build: Build) -> None:
    usual = "1,3;;1;1"
    for name, other in [*DIFFERENT.items(), ("TOPOFLOW_NCCL_RINGS", NO_SETTINGS)]:
        answers, errors = run_jobs(nccl_build("address"), [[usual] * 4, [usual, usual, other, usual]])
        assert answers == ["rings", "own"], name
        assert errors.count("\n") == 1
        has = "none" if other == NO_SETTINGS else "another value"
        value = RINGS.get(name, "none")
        assert f"topoflow: {name}: must be the same on all ranks of a communicator, got {value} on rank 0 and" in errors
        assert f"{has} on rank 2 (1 of 4 ranks differ from rank 0)" in errors


def test_ranks_that_wait_for_another_to_compare_its_settings_say_so(nccl_build: Build) -> None:
    answers, errors = run_jobs(nccl_build("address"), [["1,3;;1;1"] * 3 + ["~1,3;;1;1"]])
    assert answers == ["rings"]
    assert errors.count("\n") == 1
    assert "have compared their settings for 1 s: is this library preloaded on all of them?" in errors


BAD = {
    "TOPOFLOW_NCCL_RINGS": [
        "",
        "1,",
        "0",
        "1,x",
        "-1",
        "0-1-1",
        "0-2",
        "1 3",
        "1;3",
        "1\n3",
        "99999999999",
        ",".join("1" * 17),
    ],
    "TOPOFLOW_NCCL_WEIGHTS": ["", "1", ".5,.4", ".5,.5,.5", "nan,1", "-1,2", "a,b"],
    "TOPOFLOW_NCCL_THRESHOLD": ["", "-1", "1k", "1e6", "99999999999999999999"],
    "TOPOFLOW_NCCL_RANKS_PER_NODE": ["", "0", "two", "-4"],
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_setting_is_one_line_and_changes_nothing(nccl_build: Build, name: str) -> None:
    program = nccl_build("address") / "tests" / "rings_test"
    for value in BAD[name]:
        ran = run(program, "untouched", **RINGS | {name: value})
        assert ran.returncode == 0, f"{value!r}: {ran.stderr}"
        assert ran.stderr.count("\n") == 1, f"{value!r}: {ran.stderr}"
        assert ran.stderr.startswith(f"topoflow: {name}: "), value


@pytest.mark.parametrize("rings", ["1,2", "8,1", "0-1-2", "9"])
def test_a_ring_of_other_nodes_leaves_the_communicator_alone(nccl_build: Build, rings: str) -> None:
    """Strides that do not generate the group of 8, an order of 3 nodes: other communicators of the job may fit."""
    ran = run(nccl_build("address") / "tests" / "rings_test", "untouched", **RINGS | {"TOPOFLOW_NCCL_RINGS": rings})
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "is no ring of the 8 nodes" in ran.stderr


def test_the_interface_is_that_of_a_real_header(tmp_path: Path) -> None:
    """Every function and constant of nccl_abi.h, compared by the compiler; nvidia-nccl-cu13 brings nccl.h."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    folders = [
        os.environ.get("NCCL_INCLUDE_DIR"),
        *(f"{path}/include" for path in (spec and spec.submodule_search_locations) or ()),
    ]
    header = next((Path(folder) for folder in folders if folder and (Path(folder) / "nccl.h").exists()), None)
    if header is None:
        pytest.skip("needs nccl.h: pip install nvidia-nccl-cu13, or NCCL_INCLUDE_DIR")
    tests = ROOT / "integrations" / "nccl" / "tests"
    includes = [f"-I{tests / 'cuda_headers'}", f"-I{header}"]
    command = ["gcc", "-std=gnu11", "-fsyntax-only", *includes, str(tests / "abi_check.c")]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr


@pytest.mark.gpu
def test_real_nccl_sends_to_the_strides(nccl_build: Build, tmp_path: Path) -> None:
    """Five processes on one GPU; see nccl_on_one_gpu.py."""
    torch = pytest.importorskip("torch")
    if not (torch.cuda.is_available() and torch.distributed.is_nccl_available()):
        pytest.skip("needs a GPU and a torch with NCCL")
    script = Path(__file__).with_name("nccl_on_one_gpu.py")
    ran = run(Path(sys.executable), str(script), str(nccl_build("")), str(tmp_path), "5", "1,2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
