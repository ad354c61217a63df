"""What ``topoflow search`` finds impossible before it searches, and what it says of a start that does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main
from topoflow.search.base import Plan
from topoflow.search.result import SearchResult
from topoflow.strategy.grid import ParallelGrid
from topoflow.study import searches

pytestmark = pytest.mark.usefixtures("without_pixels")

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "search.proposals=64", "search.rounds=1")


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that begins fails."""

    def find(*arguments: object, **settings: object) -> SearchResult:
        raise AssertionError("searched")

    monkeypatch.setattr(searches, "run_search", find)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fabric=topoopt,ocs_reconfig"], "fabric: must keep its circuits while a job runs, got ocs_reconfig"),
        (["search.objective=cost", "~prices.usd.fiber"], "prices.usd: must have fiber, got"),
        (["search.objective=power", "~prices.watts.nic_port"], "prices.watts: must have nic_port, got"),
        (["gpu.memory=40e9,1e6"], "gpu.memory: must hold layer"),
        (
            ["fidelity=packet", "fabric=dragonfly", "routing=minimal"],
            "routing: must be of whole paths (ecmp, spray, ..), as",
        ),
        (["servers=1"], "servers: must be at least 2 for a strategy or a network to be searched, got 1"),
    ],
)
def test_what_is_impossible_is_known_before_anything_is_searched(
    arguments: list[str], message: str, tmp_path: Path, never: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", *SMALL, *arguments, f"out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow search: {message}")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_recorded_job_that_sends_nothing_has_no_network_to_be_searched(
    tmp_path: Path, never: None, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = silent_trace(tmp_path)
    assert main(["search", "workload=captured", f"workload.trace={trace}"]) == 2
    error = capsys.readouterr().err
    assert error == "topoflow search: workload: must send something between servers, got nothing by silent\n"
    assert main(["compare", "workload=captured", f"workload.trace={trace}", "fabric=ring,ideal_switch"]) == 0
    answer = "captured on 2 servers: 1 s per step on any network, as nothing goes between servers."
    assert answer in capsys.readouterr().out


def silent_trace(folder: Path) -> Path:
    """Two ranks that compute for a second each, and never meet."""
    head = {"format": "topoflow-trace", "version": 1, "name": "silent", "world_size": 2, "iterations": 1}
    head |= {"ranks": [0, 1], "groups": {}, "source": "by hand", "notes": []}
    compute = {"kind": "compute", "name": "step", "start": 0.0, "end": 1.0, "seconds": 1.0, "iteration": 0, "after": []}
    lines = [head, *({"rank": rank, **compute} for rank in (0, 1))]
    path = folder / "silent.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize("objective", ["cost", "power", "pareto"])
def test_an_objective_that_needs_a_price_needs_a_bill_of_materials(
    objective: str, never: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("topoflow.fabric.topoopt.TopoOpt._bill", lambda *_: ())
    assert main(["search", *SMALL, f"search.objective={objective}"]) == 2
    message = "search.objective: must be time where a network has no bill of materials, as topoopt, got"
    assert message in capsys.readouterr().err
    with pytest.raises(AssertionError, match="searched"):
        main(["search", *SMALL, "search.objective=time"])


def started(out: Path, *arguments: str) -> dict[str, Any]:
    assert main(["search", f"out={out}", *arguments]) == 0
    (row,) = json.loads((out / "result.json").read_text())["plans"]
    return dict(row)


def test_a_start_that_does_not_fit_is_told_with_where_the_search_began(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = started(tmp_path, *SMALL, "strategy=data_parallel", "workload.rows=100000", "gpu.memory=2e9")
    assert row["start_memory_per_gpu"] <= 1.6e9 < row["given_memory_per_gpu"]
    (note,) = row["notes"]
    assert note.startswith("The strategy given (data_parallel) needs ")
    assert " per GPU, has 1.6 GB (80% of 2 GB): the search began with " in note
    assert " layers on other servers (" in note
    assert note in capsys.readouterr().out
    assert note in (tmp_path / "report.html").read_text()


def test_degrees_that_do_not_fit_are_told_with_those_the_search_began_with(tmp_path: Path) -> None:
    job = ("workload=transformer", "strategy=parallel", "workload.layers=4", "servers=2", "search.degrees=2")
    row = started(tmp_path / "tight", *job, "search.rounds=1", "gpu.memory=2e9")
    assert row["start_memory_per_gpu"] <= 1.6e9 < row["given_memory_per_gpu"]
    assert "the search began with tensor " in row["notes"][0]
    assert isinstance(Plan.from_json((tmp_path / "tight" / "plan.json").read_text()).chosen(), ParallelGrid)
    roomy = started(tmp_path / "roomy", *job, "search.rounds=1", "gpu.memory=1e15")
    assert roomy["notes"] == []
    assert roomy["given_memory_per_gpu"] == roomy["start_memory_per_gpu"] == row["given_memory_per_gpu"]


@pytest.mark.slow
def test_searches_are_listed_in_one_order_on_the_terminal_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept = ["bandwidth_gbps=25,200,100", "fabric=fat_tree,topoopt", "search.objective=pareto", "search.proposals=0"]
    assert main(["search", "servers=4", "workload.tables=4", "workload.rows=1000", *swept, f"out={tmp_path}"]) == 0
    times = {
        row["search"]: row["iteration_time"] for row in json.loads((tmp_path / "result.json").read_text())["plans"]
    }
    quickest = sorted(times, key=lambda name: times[name])
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split()[:1]]
    assert [word for word in printed if word in times] == quickest
    page = (tmp_path / "report.html").read_text()
    assert sorted(times, key=lambda name: page.index(f"<td>{name}</td>")) == quickest
