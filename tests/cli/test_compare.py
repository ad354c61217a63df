"""``topoflow compare`` from the command line to the files, and what it says about wrong input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from topoflow.cli import main
from topoflow.cli.parsers import parse

pytestmark = pytest.mark.usefixtures("without_pixels")

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
FILES = {
    "iteration_time.png",
    "link_load.png",
    "links.parquet",
    "path_length.png",
    "price.png",
    "report.html",
    "result.json",
    "tasks.parquet",
    "trace.json",
    "timeline.png",
    "topology.png",
    "traffic.png",
}
SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000")  # a DLRM that is placed in a blink


@pytest.mark.slow
def test_without_arguments_it_answers_for_a_dlrm_on_16_servers(topoflow_cli: Cli, tmp_path: Path) -> None:
    done = topoflow_cli("compare", f"out={tmp_path / 'out'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "dlrm on 16 servers" in done.stdout
    assert "the fastest" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    rows = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    assert len({row["fabric"] for row in rows}) == len(rows) >= 5
    for row in rows:
        assert row["servers"] == 16
        assert row["bandwidth"] == 12.5e9  # 100 Gb/s
        assert row["iteration_time"] >= row["compute_time"] > 0
        assert row["bandwidth_tax"] >= 1
        assert row["path_length_mean"] >= 1
        assert row["cost_usd"] > 0
    switched = {"ideal_switch", "fat_tree", "leaf_spine"}
    assert all(row["bandwidth_tax"] == 1 for row in rows if row["fabric"] in switched)


def test_the_grid_is_the_product_of_what_is_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["fabric=ideal_switch,ring", "bandwidth_gbps=25,100", f"out={out}", *SMALL]
    assert main(["compare", *arguments]) == 0
    rows = json.loads((out / "result.json").read_text())["rows"]
    gbps25, gbps100 = 3.125e9, 12.5e9
    assert [(row["fabric"], row["bandwidth"]) for row in rows] == [
        ("ideal_switch", gbps25),
        ("ideal_switch", gbps100),
        ("ring", gbps25),
        ("ring", gbps100),
    ]
    assert rows[0]["overrides"] == {"fabric": "ideal_switch", "bandwidth_gbps": "25"}
    assert rows[0]["config"]["bandwidth_gbps"] == 25
    # 40 bits in a byte cost four times as much where links are four times as slow; computing does not change
    assert rows[0]["compute_time"] == rows[1]["compute_time"]
    assert rows[0]["network_time"] > rows[1]["network_time"]
    assert "report.html" in capsys.readouterr().out


def test_jobs_of_a_sweep_have_different_titles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A motif is called by its name, and what else of a workload is swept follows."""
    arguments = (
        "workload=motif",
        "workload.name=bcast,reduce",
        "workload.bytes=4,4096",
        "servers=4",
        "fabric=leaf_spine",
    )
    assert main(["compare", *arguments, f"out={tmp_path}"]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    for name in ("bcast", "reduce"):
        for size in (4, 4096):
            job = f"{name} on 4 servers, workload.bytes={size}"
            for text in (printed, page):
                assert f"{job}, strategy ranks" in text
                assert f"{job}: leaf_spine takes" in text
    assert {row["workload"] for row in json.loads((tmp_path / "result.json").read_text())["rows"]} == {
        "bcast",
        "reduce",
    }


def test_fidelities_and_merged_events_are_swept_and_a_bound_says_that_it_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["fidelity=fluid,bound", "fluid.merge=0,0.001", "fabric=fat_tree,ring", f"out={out}", *SMALL]
    assert main(["compare", *arguments]) == 0
    rows = json.loads((out / "result.json").read_text())["rows"]
    time = {(row["fabric"], row["fidelity"], "merge=0.001" in row["world"]): row["iteration_time"] for row in rows}
    assert len(time) == len(rows) == 8
    for fabric in ("fat_tree", "ring"):
        bounds = {time[fabric, "bound", merged] for merged in (False, True)}
        assert len(bounds) == 1, "events are fluid's"
        assert max(bounds) <= time[fabric, "fluid", False]
        # An event takes what ends at most a thousandth later, so no chain of events ends that much earlier or later.
        assert time[fabric, "fluid", True] == pytest.approx(time[fabric, "fluid", False], rel=0.01)
    printed = capsys.readouterr().out
    assert "fluid simulation" in printed
    assert "lower bound of fluid" in printed
    assert "by the lower bound of fluid: " in printed


def test_a_job_on_one_server_is_its_compute_and_has_a_report(tmp_path: Path) -> None:
    one = ("servers=1", "workload.gpus_per_server=1")  # several GPUs would reduce their gradients inside the server
    arguments = [*one, "fabric=ideal_switch", f"out={tmp_path / 'out'}", *SMALL[1:]]
    assert main(["compare", *arguments]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES - {"traffic.png"}  # which would be empty
    (row,) = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    assert row["iteration_time"] == row["compute_time"]
    assert (row["network_time"], row["bandwidth_tax"], row["path_length_mean"]) == (0, 1, 0)  # nobody to talk to


@pytest.mark.slow
def test_worlds_of_one_batch_do_not_see_each_other(tmp_path: Path) -> None:
    times = {}
    for number, fabric in enumerate(("ring", "ring,torus", "torus,ring")):
        out = tmp_path / str(number)
        assert main(["compare", f"fabric={fabric}", f"out={out}", *SMALL]) == 0
        rows = json.loads((out / "result.json").read_text())["rows"]
        times[fabric] = {row["fabric"]: row["iteration_time"] for row in rows}
    assert times["ring"]["ring"] == times["ring,torus"]["ring"] == times["torus,ring"]["ring"]


def test_without_out_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "fabric=ring", *SMALL]) == 0
    assert "out=DIR" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_default_fabric_that_cannot_be_built_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # a random regular graph of degree 4 needs more than 4 servers
    assert main(["compare", *SMALL, f"out={tmp_path / 'out'}"]) == 0
    reason = "fabric=expander: expander.degree: must be less than the 4 servers, got 4"
    assert f"left out: {reason}" in capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["left_out"] == [reason]
    assert "expander" not in {row["fabric"] for row in result["rows"]}
    assert main(["compare", *SMALL, "fabric=expander,ring"]) == 2
    assert capsys.readouterr().err == f"topoflow compare: {reason.partition(': ')[2]} (at fabric=expander)\n"


def test_a_captured_job_needs_no_more_than_its_trace(tmp_path: Path) -> None:
    trace = Path(__file__).resolve().parents[2] / "examples" / "ddp_4_ranks.jsonl.gz"
    assert main(["compare", "workload=captured", f"workload.trace={trace}", f"out={tmp_path / 'out'}"]) == 0
    rows = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    assert {(row["strategy"], row["servers"]) for row in rows} == {("as_captured", 4)}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["workload=1"], "workload: must be one of all_to_all, bert, candle, "),
        (["bandwith_gbps=100"], "bandwith_gbps: no such key; did you mean bandwidth_gbps?"),
        (["+colour=red"], "colour: no such key; must be one of"),
        (["fabric=nope"], "fabric: must be one of"),
        (["bandwidth_gbps=0"], "bandwidth_gbps: must be positive, got 0"),
        (["bandwidth_gbps=-1"], "bandwidth_gbps: must be positive, got -1"),
        (["bandwidth_gbps=abc"], "bandwidth_gbps: must be a finite number, got 'abc'"),
        (["bandwidth_gbps=nan"], "bandwidth_gbps: must be a finite number, got nan"),
        (["bandwidth_gbps=25,inf"], "bandwidth_gbps: must be a finite number, got inf"),
        (["bandwidth_gbps=100Gb"], "bandwidth_gbps: must be a finite number, got '100Gb'"),
        (["latency_us=inf"], "latency_us: must be a finite number, got inf"),
        (["latency_us=-1"], "latency_us: must not be negative, got -1"),
        (["degree=0"], "degree: must be a whole number of at least 1, got 0"),
        (["degree=2.5"], "degree: must be a whole number of at least 1, got 2.5"),
        (["servers=0"], "servers: must be a whole number of at least 1, got 0"),
        (["servers=abc"], "servers: must be a whole number of at least 1, got 'abc'"),
        (["seed=-1"], "seed: must be a whole number within 0..9223372036854775807, got -1"),
        (["~degree"], "degree: must be given"),
        (["routing=random"], "ecmp, minimal, spray, ugal, valiant, valiant_group, got 'random'"),
        (["fidelity=none"], "fidelity: must be one of bound, fitting, fluid, packet, slotted, got 'none'"),
        (["fluid.merge=1"], "fluid.merge: must be a number in [0, 1) or auto, got 1"),
        (["fluid.merge=-0.1"], "fluid.merge: must be a number in [0, 1) or auto, got -0.1"),
        (["fluid.merge=some"], "fluid.merge: must be a number in [0, 1) or auto, got 'some'"),
        (["fluid=0.1"], "fluid: must be a config with a _target_, got 0.1"),
        (["all_reduce=magic"], "all_reduce: must be one of ring, "),
        (["fabric=fat_tree", "fabric.radix=7"], "fat_tree.radix: must be even, got 7"),
        (["fabric=links"], "fabric.file: must be given"),
        (["fabric=links", "fabric.file=no_such.json"], "no_such.json"),
        (["workload.tables=many"], "workload.tables: must be a whole number, got 'many'"),
        (["+workload.colour=red"], "workload.colour: no such key"),
        (["workload.dtype=int3"], "dtype"),
        (["strategy.placement={E0: 99}"], "hybrid.placement.E0: must be servers within 0..15, got 99"),
        (["workload=captured"], "workload.trace: must be given"),
        (["workload=captured", "workload.trace=no_such_trace.json"], "no_such_trace.json"),
        (["fabric=ring", "workload.tables="], "workload.tables: must be a whole number, got ''"),
        (["fabric=torus", "fabric.dims=4"], "fabric.dims: must be a list, as [1, 2] or null, got 4"),
        (["strategy.placement=3"], "strategy.placement: must be a mapping, as {name: value} or null, got 3"),
        (["workload.gpu=3"], "workload.gpu: must be a mapping, as {name: value}, got 3"),
        (["fabric=ring", "fabric._target_=no.such"], "fabric._target_: must name a class, got 'no.such'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_key_or_value_is_one_line_and_exit_code_2(
    overrides: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *overrides, "out=out"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("topoflow compare: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("compare fabric=fat_tree,torus degree=1,2 servers=4", " (at fabric=torus,degree=1)"),
        ("compare workload=transformer strategy=parallel strategy.tensor=1,5", " (at strategy.tensor=5)"),
        ("compare fabric=torus degree=1 servers=4", ""),
        ("search fabric=fat_tree,torus degree=1,2 servers=4", " (at fabric=torus,degree=1)"),
        ("search strategy.placement={},{E0:99}", " (at strategy.placement={E0:99})"),
    ],
)
def test_of_several_points_the_impossible_one_is_named(
    command: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    message, at, point = line.partition(" (at ")
    assert ": must " in message
    assert at + point == place


def test_out_is_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["compare", "out=file"]) == 2
    assert "out: must be a folder, got the file" in capsys.readouterr().err
    assert main(["compare", "out=a,b"]) == 2
    assert "out: must be one folder for the whole comparison, got a, b" in capsys.readouterr().err
    assert main(["compare", "out="]) == 2
    assert capsys.readouterr().err == "topoflow compare: out: must be the name of a folder, got ''\n"
    assert main(["compare", "out=[a]"]) == 2
    assert capsys.readouterr().err == "topoflow compare: out: must be the name of a folder, got ['a']\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "topoflow: the following arguments are required: VERB; see topoflow --help\n"),
        (
            ["compare", "--servers"],
            "topoflow: --servers: no such flag; a key has no dashes, as in servers=VALUE; see topoflow --help\n",
        ),
        (
            ["compare", "servers=8", "-m", "fabric=torus", "--no"],
            "topoflow: --no: no such flag; a key has no dashes, as in no=VALUE; see topoflow --help\n",
        ),
        (
            ["capture", "import", "trace.json"],
            "topoflow capture import: the following arguments are required: --out; see topoflow capture import "
            "--help\n",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_line_too(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert (end.value.code, capsys.readouterr().err) == (2, message)


def test_keys_stand_before_and_after_options() -> None:
    arguments = parse("", ["compare", "servers=8", "--multirun", "fabric=torus"])
    assert (arguments.multirun, arguments.overrides) == (True, ["servers=8", "fabric=torus"])


@pytest.mark.parametrize("verb", ["compare", "inspect"])
def test_help_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert f"\n  topoflow {verb} " in capsys.readouterr().out


def test_networks_that_reconfigure_are_told_with_all_the_circuits_that_they_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fabrics = "fabric=ocs_reconfig,sip_ml,topoopt"
    assert main(["compare", fabrics, "degree=2", "rings=flows", f"out={out}", "servers=8", *SMALL[1:]]) == 0
    rows = {row["fabric"]: row for row in json.loads((out / "result.json").read_text())["rows"]}
    assert rows["sip_ml"]["bandwidth_tax"] == pytest.approx(1), "hosts do not forward"
    assert rows["ocs_reconfig"]["bandwidth_tax"] > 1
    assert rows["sip_ml"]["cost_usd"] > rows["ocs_reconfig"]["cost_usd"] > rows["topoopt"]["cost_usd"]
    assert "sip_ml" in capsys.readouterr().out


def test_a_bound_of_a_network_that_reconfigures_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fabric=sip_ml", "fidelity=bound", *SMALL]) == 2
    assert "fabric: must keep its circuits with fidelity=bound, got sip_ml" in capsys.readouterr().err


@pytest.mark.slow
def test_what_fails_makes_an_iteration_slower_by_how_much_a_row_says(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["fabric=topoopt", "servers=8", "fail.fibers=[],[0]", "fail.servers=[],[3]", f"out={out}", *SMALL[1:]]
    assert main(["compare", *arguments]) == 0
    intact, server, fiber, both = json.loads((out / "result.json").read_text())["rows"]
    assert [row["servers"] for row in (intact, server, fiber, both)] == [8, 7, 8, 7]
    assert fiber["iteration_time"] > intact["iteration_time"]
    assert fiber["cost_usd"] == intact["cost_usd"], "what has failed was bought"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("fail.links=[999]", "fail.links: must be within 0.."),
        ("fail.fibers=[-1]", "fail.fibers: must be within 0.."),
        ("fail.servers=[9]", "fail.servers: must be within 0..3, got 9"),
        ("fail.servers=[0,1,2,3]", "fail.servers: must leave at least one of 4 servers, got [0, 1, 2, 3]"),
        ("fail.servers=[0,x]", "fail.servers: must be a list of whole numbers, got [0, 'x']"),
        ("fail.rings=repair", "fail.rings: must be one of faster, recover, drop, got 'repair'"),
        ("fail=all", "fail: must be a mapping with the keys links, fibers, servers, each, rings, got all"),
    ],
)
def test_what_cannot_fail_is_one_line(argument: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fabric=topoopt", argument, *SMALL]) == 2
    assert message in capsys.readouterr().err


def test_without_pyarrow_all_but_the_parquet_tables_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    out = tmp_path / "out"
    assert main(["compare", "fabric=ring,ideal_switch", "servers=4", "workload.tables=2", f"out={out}"]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(
        name for name in FILES if not name.endswith(".parquet")
    )
    assert "pip install 'topoflow[parquet]'" in capsys.readouterr().out


def test_gpus_that_the_price_list_lacks_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = ["gpus=8", "node=mi300x", "fabric=rail_optimized", "workload=llama3_8b", "global_batch=8"]
    assert main(["compare", *nodes]) == 0
    assert "cost and power are not known: the price list has no gpu_mi300x, host_mi300x" in capsys.readouterr().out
