"""``topoflow search`` from the command line to the files, stopped and gone on, and what it says about wrong input."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main
from topoflow.search import alternate
from topoflow.search.base import Plan
from topoflow.search.checkpoint import Checkpoint
from topoflow.search.problem import SearchSettings
from topoflow.strategy.grid import ParallelGrid
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.point import Point
from topoflow.study.searches import CONFIG, check, names

pytestmark = pytest.mark.usefixtures("without_pixels")

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "search.proposals=64", "search.rounds=2")
FILES = {"checkpoint.npz", "plan.json", "report.html", "result.json"}


def rows(out: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((out / "result.json").read_text())["plans"]
    return records


def test_a_search_writes_a_plan_numbers_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["search", f"out={out}", *SMALL]) == 0
    assert {path.name for path in out.iterdir() if path.suffix != ".png"} == FILES
    (row,) = rows(out)
    plan = Plan.from_json((out / "plan.json").read_text())
    assert (row["iteration_time"], row["bound"], row["cost_usd"]) == (plan.iteration_time, plan.bound, plan.cost)
    assert plan.iteration_time <= row["start_time"]
    assert (plan.fabric, plan.servers, plan.degree) == ("topoopt", 4, 4)
    printed = capsys.readouterr().out
    assert "dlrm on 4 servers, topoopt with 4 interfaces of 100 Gb/s" in printed
    assert "report.html" in printed


def test_defaults_of_the_config_are_those_of_the_settings() -> None:
    (point,) = grid([], check, CONFIG)
    listed = {name: list(getattr(SearchSettings, name)) for name in ("emphasis", "acceptance")}
    assert build(point, "search") == replace(SearchSettings(), **listed)


def test_searches_whose_names_are_alike_have_a_folder_each() -> None:
    points = [Point({"workload.path": path}, {}, {}) for path in ("a/b", "a_b", "a b")]
    assert names(points) == ["workload.path=a_b", "workload.path=a_b (2)", "workload.path=a_b (3)"]


@pytest.mark.slow
def test_the_same_command_gives_the_same_plan_and_another_seed_needs_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        assert main(["search", f"out={tmp_path / name}", "seed=7", *SMALL]) == 0
    plans = [(tmp_path / name / "plan.json").read_bytes() for name in ("one", "two")]
    assert plans[0] == plans[1]
    assert main(["search", f"out={tmp_path / 'one'}", "seed=8", *SMALL]) == 2
    assert "got one with another seed; give another out, or resume=false to begin anew" in capsys.readouterr().err
    assert (tmp_path / "one" / "plan.json").read_bytes() == plans[0]
    assert main(["search", f"out={tmp_path / 'one'}", "seed=8", "resume=false", *SMALL]) == 0


def test_what_is_interrupted_goes_on_to_the_plan_of_an_unbroken_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGINT while chains walk; the same command again."""
    unbroken, broken = ([f"out={tmp_path / name}", "seed=7", "search.chains=1", *SMALL] for name in ("whole", "broken"))
    assert main(["search", *unbroken]) == 0
    interrupted_at: list[Checkpoint] = []

    def save_and_interrupt(path: Path, key: dict[str, str], checkpoint: Checkpoint) -> None:
        save(path, key, checkpoint)
        walk = checkpoint.walk
        if not interrupted_at and walk is not None and walk.step == 32:  # of 50
            interrupted_at.append(checkpoint)
            signal.raise_signal(signal.SIGINT)

    save = alternate.save
    monkeypatch.setattr(alternate, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(alternate, "save", save_and_interrupt)
    capsys.readouterr()
    assert main(["search", *broken]) == 130
    checkpoint_file = tmp_path / "broken" / "checkpoint.npz"
    message = f"topoflow search: interrupted; the search is kept in {checkpoint_file}, the same command resumes it\n"
    assert capsys.readouterr().err == message
    assert not (tmp_path / "broken" / "plan.json").exists()
    assert main(["search", *broken]) == 0
    (saved,) = interrupted_at
    proposals = f"{saved.history.num_proposals} proposals"
    continuation = f"Continuing from round {saved.round + 1}, {proposals}, in {checkpoint_file}."
    assert continuation in capsys.readouterr().out
    assert (tmp_path / "broken" / "plan.json").read_bytes() == (tmp_path / "whole" / "plan.json").read_bytes()


def test_what_is_interrupted_without_a_folder_says_that_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("topoflow.study.searches.run_search", interrupted)
    assert main(["search", *SMALL]) == 130
    assert capsys.readouterr().err == "topoflow search: interrupted; nothing is kept without out=DIR\n"


def interrupted(*arguments: Any, **named: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_several_searches_have_a_folder_each_and_the_objective_chooses(tmp_path: Path) -> None:
    out = tmp_path / "out"
    swept = ["fabric=topoopt,ideal_switch", "bandwidth_gbps=25,100", "search.objective=pareto"]
    assert main(["search", f"out={out}", *swept, *SMALL]) == 0
    plans = rows(out)
    assert len(plans) == 4
    bought = [row for row in plans if "fabric=topoopt" in str(row["search"])]  # nobody can buy an ideal switch
    for row in plans:
        plan = Plan.from_json((out / str(row["search"]) / "plan.json").read_text())
        assert plan.iteration_time == row["iteration_time"]
        beaten = [
            other
            for other in bought
            if other["cost_usd"] <= row["cost_usd"] and other["iteration_time"] < row["iteration_time"]
        ]
        assert row["chosen"] == (row in bought and not beaten)
    assert (out / "report.html").exists()


@pytest.mark.slow
def test_several_networks_are_no_slower_than_each_alone_and_their_restarts_resume(tmp_path: Path) -> None:
    """Each begins a second time from what is best on the others."""
    fabrics = ("torus", "fat_tree")
    alone = {}
    for fabric in fabrics:
        assert main(["search", f"out={tmp_path / fabric}", f"fabric={fabric}", *SMALL]) == 0
        alone[fabric] = rows(tmp_path / fabric)[0]["iteration_time"]
    both = ["search", f"out={tmp_path / 'both'}", f"fabric={','.join(fabrics)}", *SMALL]
    assert main(both) == 0
    together = {str(row["search"]): row["iteration_time"] for row in rows(tmp_path / "both")}
    for fabric in fabrics:
        assert together[f"fabric={fabric}"] <= alone[fabric]
    assert list((tmp_path / "both").glob("*/checkpoint_others.npz")), "nothing began again"
    plans = [path.read_bytes() for path in sorted((tmp_path / "both").glob("*/plan.json"))]
    assert main(both) == 0  # from its checkpoints, also those of the restarts
    assert [path.read_bytes() for path in sorted((tmp_path / "both").glob("*/plan.json"))] == plans


def test_a_transformer_is_searched_by_its_degrees_and_a_recorded_job_by_its_network(tmp_path: Path) -> None:
    degrees = ["workload=transformer", "workload.layers=2", "strategy=parallel", "search.degrees=4", "servers=2"]
    assert main(["search", *degrees, f"out={tmp_path / 'degrees'}", "search.rounds=1"]) == 0
    plan = Plan.from_json((tmp_path / "degrees" / "plan.json").read_text())
    assert isinstance(plan.chosen(), ParallelGrid)
    trace = Path(__file__).resolve().parents[2] / "examples" / "ddp_4_ranks.jsonl.gz"
    recorded = ["workload=captured", f"workload.trace={trace}", f"out={tmp_path / 'recorded'}"]
    assert main(["search", *recorded]) == 0
    assert Plan.from_json((tmp_path / "recorded" / "plan.json").read_text()).chosen().name == "as_captured"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search.proposal=5"], "search.proposal: no such key; did you mean search.proposals?"),
        (["search.chains=0"], "search.chains: must be a whole number within 1..65536, got 0"),
        (["search.chains=many"], "search.chains: must be a whole number, got 'many'"),
        (["search.objective=joy"], "search.objective: must be one of time, cost, power, pareto, got 'joy'"),
        (["rings=flows"], "rings: no such key of topoflow search; topoflow compare has rings"),
        (
            ["search.objective=time,cost"],
            "search.objective: must be one, as it chooses between searches, got time, cost",
        ),
        (
            ["seed=9223372036854775808"],
            "seed: must be a whole number within 0..9223372036854775807, got 9223372036854775808",
        ),
        (["resume=perhaps"], "resume: must be true or false, got 'perhaps'"),
        (["degree=0"], "degree: must be a whole number of at least 1, got 0"),
        (["fabric=ocs_reconfig"], "fabric: must keep its circuits while a job runs, got ocs_reconfig"),
        (["gpu.memory=1e6"], "gpu.memory: must hold layer"),
        (
            ["workload=transformer", "strategy=parallel", "gpu.memory=1e6"],
            "gpu.memory: transformer on 4 servers must fit",
        ),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["servers=4"] if arguments[0].startswith("workload") else SMALL
    assert main(["search", *sizes, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow search: {message}")
    assert error.count("\n") == 1
