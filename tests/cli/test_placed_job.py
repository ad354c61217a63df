"""``compare placement=FILE``: a job on the servers that a request got, and wrong files in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import topoflow
from tests.conftest import ROOT
from topoflow.case.base import Result
from topoflow.cli import main
from topoflow.engine.observer import Silent
from topoflow.study.configure.grid import grid
from topoflow.study.placements import CONFIG, check, place

EXAMPLE = str(ROOT / "examples" / "requests.csv")
CLUSTER = ["cluster.groups=3", "cluster.servers_per_group=4", "cluster.gpus=8"]
NETWORK = ["fabric=leaf_spine", "fabric.servers_per_leaf=4", "fabric.oversubscription=2", "degree=1"]
EXCHANGE = ["workload=all_to_all", "workload.bytes=1e6"]


def results(*arguments: str) -> list[Result]:
    return list(topoflow.compare(*EXCHANGE, *NETWORK, *arguments))


def written(folder: Path, *lines: Any) -> str:
    path = folder / "placements.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def test_what_place_writes_compare_reads(tmp_path: Path) -> None:
    """What ``place`` would write, without its pictures."""
    arguments = ["requests=csv", f"requests.file={EXAMPLE}", *CLUSTER, "policy=first_fit", "cluster=motion"]
    (placed,) = place(grid(arguments, check, CONFIG), Silent())
    several = next(line for line in placed.placements if len(line["servers"]) > 4)
    file = written(tmp_path, *placed.placements)
    (result,) = results(f"placement={file}", f"request={several['request']}")
    assert result.own_servers.tolist() == list(several["servers"])
    assert result.fabric.servers == 12
    sends = result.world.graph.bytes > 0
    assert set(result.world.graph.source[sends].tolist()) == set(several["servers"])
    assert result.flow_matrix.shape == (len(several["servers"]),) * 2
    assert result.flow_matrix.sum() == result.world.graph.bytes.sum()


def test_a_job_in_one_group_is_faster_than_over_three(tmp_path: Path) -> None:
    """4 servers below one leaf exchange at the rate of their cables, so do 4 over three leaves with more latency."""
    rows = [{"request": "near", "cluster_servers": 12, "servers": [4, 5, 6, 7]}]
    rows += [{"request": "far", "cluster_servers": 12, "servers": [0, 1, 4, 8]}]
    near, far = results(f"placement={written(tmp_path, *rows)}", "request=near,far", "latency_us=1")
    assert near.iteration_time == pytest.approx(3 * 1e6 / 12.5e9 + 2e-6)
    assert far.iteration_time >= near.iteration_time + 2e-6


def test_all_servers_of_a_cluster_are_a_job_of_its_own(tmp_path: Path) -> None:
    file = written(tmp_path, {"request": 7, "cluster_servers": 8, "servers": list(range(8))})
    (placed,), (alone,) = results(f"placement={file}"), results("servers=8")
    assert placed.row == alone.row


ROW = {"request": "a", "cluster_servers": 8, "servers": [1, 2]}


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ([], [], "request: must be one that FILE has a placement of, it has none, got None"),
        ([ROW], ["request=b"], "request: must be one that FILE has a placement of, it has 1, e.g. a, got b"),
        ([ROW, {**ROW, "request": "b"}], [], "request: must be given, as FILE has 2 placements, e.g. request=a"),
        ([ROW, ROW], ["request=a"], "got a in lines 1, 2 of FILE"),
        ([{"request": "a"}], [], "FILE:1: must have request, servers and cluster_servers"),
        ([{**ROW, "servers": [1, 8]}], [], "FILE:1: placement.servers: must be within 0..7, got (1, 8)"),
        ([{**ROW, "servers": [2, 1]}], [], "FILE:1: placement.servers: must be ascending, each once, got (2, 1)"),
        ([{**ROW, "servers": "12"}], [], "FILE:1: servers must be a list of whole numbers, got '12'"),
        ([{**ROW, "cluster_servers": 1.5}], [], "FILE:1: placement.cluster_servers: must be a whole number, got 1.5"),
        ([ROW], ["servers=3"], "servers: must be left out, or the 2 that the request got, got 3"),
        ([ROW], ["fail.servers=[0]"], "placement: must be without fail, got FILE"),
    ],
)
def test_a_wrong_placement_is_said_in_a_line(
    rows: list[Any], arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, *rows)
    assert main(["compare", *EXCHANGE, *NETWORK, f"placement={file}", *arguments]) == 2
    error = capsys.readouterr().err
    assert message.replace("FILE", file) in error
    assert error.count("\n") == 1


def test_a_placement_that_is_not_there_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *EXCHANGE, *NETWORK, "placement=nowhere.jsonl"]) == 2
    assert "nowhere.jsonl" in capsys.readouterr().err
    assert main(["compare", *EXCHANGE, *NETWORK, "request=a"]) == 2
    assert "request: must be the name of a request of placement=FILE, got 'a'" in capsys.readouterr().err
