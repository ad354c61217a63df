"""Several jobs on one cluster: what each loses to the others, and what a file of jobs may say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topoflow.engine.base import Run
from topoflow.engine.simulation import simulate
from topoflow.study.builder import Builder
from topoflow.study.configure.build import fidelity_of
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.study.figures.base import Row, where
from topoflow.study.shared_jobs import JobsComparison, JobsFigure, SharingJobs

SMALL = (
    "workload=transformer, workload.layers=2, workload.hidden=1024, workload.heads=8, workload.key_value_heads=8, "
    "workload.sequence=512, workload.vocabulary=1024, workload.dtype=bfloat16, efficiency=roofline"
)
KEYS = dict(setting.split("=") for setting in SMALL.split(", "))
CLUSTER = ("node=hgx_h100", "gpus=32")


def job(gpus: str, **keys: str) -> dict[str, str]:
    return {"placement": gpus, **KEYS, "global_batch": str(len(_numbers(gpus))), **keys}


def _numbers(gpus: str) -> list[int]:
    ranges = [list(map(int, part.split("-"))) for part in gpus.split(",")]
    return [gpu for part in ranges for gpu in range(part[0], part[-1] + 1)]


def sharing_jobs(folder: Path, jobs: object, *arguments: str) -> SharingJobs:
    file = folder / "jobs.yaml"
    file.write_text(jobs if isinstance(jobs, str) else json.dumps(jobs))
    return SharingJobs.of([f"jobs={file}", *CLUSTER, *arguments])


def rows_of(folder: Path, jobs: object, *arguments: str) -> list[Row]:
    return JobsComparison(sharing_jobs(folder, jobs, *arguments), Run()).rows()


def test_jobs_that_share_no_link_take_as_long_as_alone(tmp_path: Path) -> None:
    """On one switch without contention in it, jobs on GPUs of their own have links of their own."""
    rows = rows_of(tmp_path, {"a": job("0-15"), "b": job("16-31", **{"workload.layers": "4"})}, "fabric=ideal_switch")
    assert [row["slowdown"] for row in rows] == pytest.approx([1, 1], rel=1e-9)
    assert rows[0]["alone"] < rows[1]["alone"]


def test_a_job_alone_takes_as_long_as_on_a_cluster_of_its_own(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, {"only": job("8-23")}, "fabric=ideal_switch")
    arguments = [f"{key}={value}" for key, value in KEYS.items()]
    points = grid([*arguments, "global_batch=16", "node=hgx_h100", "gpus=16", "fabric=ideal_switch"], check)
    ((case,),) = [point.cases for point in Builder().build(points)]
    (timeline,) = simulate([case.world], fidelity_of(points[0]))
    assert row["alone"] == pytest.approx(timeline.makespan, rel=1e-9)
    assert row["together"] == pytest.approx(timeline.makespan, rel=1e-9)


def test_jobs_that_cross_the_same_links_slow_each_other_down(tmp_path: Path) -> None:
    """Both jobs have a node on either side of a network of 1:8: all their gradients cross its few uplinks.

    Two jobs that are alike take at most twice as long as one, as each has at least half of every link.
    """
    jobs = {"a": job("0-7,16-23"), "b": job("8-15,24-31")}
    slow = ("fabric=leaf_spine", "fabric.servers_per_leaf=16", "fabric.oversubscription=16")
    separate = {"a": job("0-15"), "b": job("16-31")}
    crossing, inside = rows_of(tmp_path, jobs, *slow), rows_of(tmp_path, separate, *slow)
    assert [row["slowdown"] for row in inside] == pytest.approx([1, 1], rel=1e-9)
    for row in crossing:
        assert 1.05 < row["slowdown"] <= 2 + 1e-9
        assert row["longest"] >= row["together"] >= row["alone"]


def test_nodes_as_endpoints_take_as_long_as_their_gpus(tmp_path: Path) -> None:
    jobs = {"a": job("0-15"), "b": job("16-31")}
    folded, single = (rows_of(tmp_path, jobs, "fabric=rail_optimized", f"fold={fold}") for fold in ("true", "false"))
    for key in ("alone", "together"):
        assert [row[key] for row in folded] == pytest.approx([row[key] for row in single], rel=1e-6)


def test_a_request_of_topoflow_place_has_the_gpus_of_its_nodes(tmp_path: Path) -> None:
    placed = tmp_path / "placements.jsonl"
    placed.write_text('{"request": "one", "servers": [1, 3], "cluster_servers": 4}\n')
    of_request = {"request": "one", **KEYS, "global_batch": "16"}
    placed_job = sharing_jobs(tmp_path, {"a": of_request}, "fabric=fat_tree", f"placement={placed}").jobs[0]
    assert placed_job.gpus == (*range(8, 16), *range(24, 32))


def test_every_network_of_the_command_line_has_every_job(tmp_path: Path) -> None:
    jobs = {"a": job("0-7"), "b": job("8-15")}
    rows = rows_of(tmp_path, jobs, "fabric=fat_tree,ideal_switch", "seed=1")
    assert [(row["fabric"], row["job"]) for row in rows] == [
        (fabric, name) for fabric in ("fat_tree", "ideal_switch") for name in "ab"
    ]
    (picture,) = JobsFigure().draw(rows)
    assert picture.file == "step_times.png"
    assert len(where(rows, job="a")) == 2


@pytest.mark.parametrize(
    ("jobs", "arguments", "message"),
    [
        ("", (), "must have the keys of each job"),
        ("- a", (), "must have the keys of each job"),
        ("{a: ", (), "must be YAML"),
        ("a: &x {placement: 0-7}\nb: {c: *x, d: *x}", (), "jobs.yaml:2: must have no alias, got [*]x"),
        ("a: {placement: 0-7}\na: {placement: 8-15}", (), "jobs.yaml:2: must have each key once, got 'a' twice"),
        ("a: 3", (), "a: must have placement or request"),
        ({"a": {**job("0-7"), "request": "x"}}, (), "a: must have placement or request"),
        ({"a": job("0-7") | {"placement": "7-0"}}, (), "a.placement: must be numbers and ranges"),
        ({"a": job("0-7") | {"placement": "node 1"}}, (), "a.placement: must be numbers and ranges"),
        ({"a": job("24-35")}, (), r"a.placement: must be of the GPUs 0..31 of the cluster, got 32"),
        ({"a": job("0-15"), "b": job("8-23")}, (), "b.placement: must be GPUs of one job, got 8 that a has"),
        ({"a": {**KEYS, "request": "x"}}, (), "a.request: must be with placement=FILE"),
        ({"a": job("0-7", fabric="ring")}, (), "a: a key of a job: must be one of .* got 'fabric'"),
        ({"a": {**job("0-7"), "strategy.tensor": [1]}}, (), "a.strategy.tensor: must be text or a number"),
        ({"a": job("0-7", **{"strategy.tensor": "1,2"})}, (), "a: strategy.tensor: must be one value"),
        (
            {"a": job("0-7")},
            ("workload.layers=2,4",),
            "workload.layers: must be in .* for each job, got 2,4",
        ),
        ({"a": job("0-7", **{"workload.layers": "0"})}, (), "a: .*layers"),
        ({"a": job("0-7", **{"strategy.tensor": "3"})}, (), "a: .*tensor"),
        ({"a": job("0-7")}, ("request=x",), "request: must be in .* for each job"),
        ({"a": job("0-7")}, ("fail.each=fiber",), "fail: must be left out with jobs"),
        ({"a": job("0-7")}, ("gpus=32,64",), "gpus: must be one value with jobs"),
        ({"a": job("0-7")}, ("node=null", "gpus=8"), "node: must be given with jobs"),
        ({"a": job("0-7,16-19")}, ("fold=true",), "fold: must be false, as a has no whole nodes"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, jobs: object, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        rows_of(tmp_path, jobs, "fabric=ideal_switch", *arguments)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"jobs: must be a file that can be read, got nowhere\.yaml"):
        SharingJobs.of(["jobs=nowhere.yaml", *CLUSTER])
