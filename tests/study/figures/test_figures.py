"""Every figure, small: it runs, it goes on where it was stopped, and its numbers keep their laws."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main
from topoflow.study.configure.options import options
from topoflow.study.figures.base import SIMILAR_COST, ratios, where
from topoflow.study.figures.load import load, split
from topoflow.study.figures.points import Points
from topoflow.workload.messages.motif import MOTIFS

pytestmark = pytest.mark.usefixtures("without_pixels")

FLOWS = ("servers=192", "workload.count=400", "workload.load=0.5")

APPLICATION = ("seed=0", "experiment.available=[16]", "experiment.mappings=[opm]", "experiment.volume=2e5")

DRAGONFLY = (
    *("servers=24", "fabric.nodes=2", "fabric.routers=4", "fabric.groups=3", "fabric.global_links=1,3"),
    *("workload.name=halo3d,allpingpong", "workload.iterations=2"),
)

SMALL = {  # a figure in a second or two
    **{f"dragonfly_fig{number}": DRAGONFLY for number in range(3, 10)},
    "dragonfly_table1": DRAGONFLY,
    "dragonfly_savings": DRAGONFLY,
    "fosquare_fig4": (),
    **{f"fosquare_fig{number}": (*APPLICATION, "experiment.warmup=1e-6") for number in range(6, 10)},
    "motion_bill": (),
    "motion_fig4": ("servers=96,192",),
    "motion_fig5": ("servers=96", "experiment.sizes=[256,8192]"),
    "motion_fig6": ("servers=96", "experiment.sizes=[256,8192]"),
    "motion_fig7": ("servers=96", "experiment.sizes=[256,8192]"),
    "sirius_fig2a": (),
    "sirius_fig6a": ("servers=128",),
    "sirius_fig6b": ("servers=128",),
    "sirius_fig9": FLOWS,
    "sirius_fig10": FLOWS,
    "sirius_fig11": FLOWS,
    "sirius_fig12": FLOWS,
    "sirius_fig13": (*FLOWS, "workload.mean=4096,100e3"),
    "topoopt_fig1": ("workload.batch_per_gpu=4",),
    "topoopt_fig10": ("servers=16", "degree=4"),
    "topoopt_fig11": (
        "servers=6",
        "workload=bert",
        "workload.layers=1",
        "strategy=hybrid",
        "seed=0",
        "bandwidth_gbps=25",
    ),
    "topoopt_fig12": ("servers=8", "workload.tables=8", "workload.batch_per_gpu=64", "degree=2", "seed=0,1"),
    "topoopt_fig13": ("servers=8", "workload.tables=8", "workload.batch_per_gpu=32,2048"),
    "topoopt_fig14": ("servers=16", "workload.tables=16"),
    "topoopt_fig15": ("servers=16", "workload.tables=16"),
    "topoopt_fig16": (
        "servers=16",
        "degree=4",
        "seed=0",
        "experiment.servers_per_job=4",
        "experiment.jobs=[2,4]",
        "experiment.kinds.candle.feature_layers=1",
        "experiment.kinds.candle.feature_size=512",
        "experiment.rounds=5",
    ),
    "topoopt_fig17": ("servers=8", "workload=bert", "workload.layers=1", "strategy=hybrid", "fabric.pause=1e-5,1e-2"),
    "topoopt_fig27": (
        "servers=10",
        "workload=bert",
        "workload.layers=1",
        "strategy=hybrid",
        "seed=0",
        "bandwidth_gbps=25",
    ),
    "topoopt_fig28": ("servers=4", "workload=dlrm", "workload.tables=4", "degree=2", "seed=0"),
}


def test_every_figure_is_tried_here() -> None:
    assert sorted(SMALL) == options("experiment")


@pytest.mark.slow
@pytest.mark.parametrize("name", options("experiment"))
def test_a_figure_is_made_and_goes_on_where_it_was_stopped(name: str, tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["experiment", name, *SMALL[name], f"out={whole}"]) == 0
    result = json.loads((whole / "result.json").read_text())
    assert result["rows"]
    assert result["summary"]
    assert not {"{servers}", "128 servers", "432 servers"} & set(re.findall(r"\S+ servers|{servers}", result["title"]))
    assert {row["series"] for row in result["rows"]} == set(load(name).series)
    assert list(whole.glob("*.png"))
    page = re.sub(r"<script>.*?</script>", "", (whole / "report.html").read_text(), flags=re.DOTALL)
    assert "http" not in page.replace("http-equiv", ""), "a page loads nothing"
    with (whole / "rows.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(result["rows"])

    stored = (whole / "checkpoint.jsonl").read_bytes()
    resumed.mkdir()
    (resumed / "checkpoint.jsonl").write_bytes(stored[: 2 * len(stored) // 3])  # stopped in the middle of a line
    assert main(["experiment", name, *SMALL[name], f"out={resumed}"]) == 0
    assert (resumed / "checkpoint.jsonl").read_bytes() == stored
    assert (resumed / "rows.csv").read_bytes() == (whole / "rows.csv").read_bytes()


def test_a_stored_point_is_not_computed_again(tmp_path: Path) -> None:
    arguments = ["experiment", "topoopt_fig13", *SMALL["topoopt_fig13"], f"out={tmp_path}"]
    assert main(arguments) == 0
    path = tmp_path / "checkpoint.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    points = Points(path)
    for line in lines:
        points.add(line["id"], line["point"], [{**row, "bandwidth_tax": 7.5} for row in line["rows"]])
    assert main(arguments) == 0
    taxes = [row["bandwidth_tax"] for row in json.loads((tmp_path / "result.json").read_text())["rows"]]
    assert all(tax == 7.5 for tax in taxes)  # what was on disk, though it is wrong


def test_figure_1_sends_what_its_text_says(figure: Any) -> None:
    data_parallel, hybrid = figure("topoopt_fig1")["summary"]
    # MLPs: 7 layers of 2048; one from 4 * 512 + 2048 to 4096, 14 of 4096, one to 1; weights and biases of 8 B
    tables = 8 * 4 * 512 * 1_250_000
    dense = 8 * (7 * (2048**2 + 2048) + (4 * 512 + 2048 + 1) * 4096 + 14 * (4096**2 + 4096) + 4097)
    assert data_parallel["largest"] == pytest.approx(2 * 15 / 16 * (tables + dense))
    assert hybrid["largest_all_reduce"] == pytest.approx(2 * 15 / 16 * dense)
    assert hybrid["largest_mp"] == 2 * 8192 * 512 * 8  # between two owners: activations one way, gradients the other
    assert data_parallel["largest_mp"] == 0


def test_the_tax_is_all_that_circuits_carry_over_all_that_is_asked_for(figure: Any) -> None:
    sizes = ("servers=16", "workload.tables=16", "workload.batch_per_gpu=128,2048")
    taxes = {(row["series"], row["workload.batch_per_gpu"]): row for row in figure("topoopt_fig13", *sizes)["rows"]}
    links = figure("topoopt_fig15", *sizes)["rows"]
    same_network = {f"{degree} (bidirectional rings)": degree for degree in ("d = 4", "d = 8")}  # in both figures
    assert {row["series"] for row in links} == set(same_network.values())
    for (series, batch), row in taxes.items():
        # rings relay nothing here; the buffer of an all-reduce counts once for each server, not 2 * 15/16 of it
        sent = row["bandwidth_tax_mp"] * row["mp_bytes"] + row["buffer_bytes"]
        assert row["buffer_bytes"] == pytest.approx(row["all_reduce_bytes"] / (2 * 15 / 16))
        assert row["bandwidth_tax_buffers"] == pytest.approx(sent / (row["mp_bytes"] + row["buffer_bytes"]), rel=1e-9)
        if series not in same_network:
            continue
        same = where(links, series=same_network[series], **{"workload.batch_per_gpu": batch})
        for kind, tax in (("bytes", "bandwidth_tax"), ("mp_bytes", "bandwidth_tax_mp")):
            asked = row["mp_bytes"] + (row["all_reduce_bytes"] if kind == "bytes" else 0)
            carried = sum(one[kind] * one["circuits"] for one in same)
            assert carried == pytest.approx(row[tax] * asked, rel=1e-9)


def test_all_pairs_have_a_length_and_a_larger_degree_brings_them_closer(figure: Any) -> None:
    result = figure("topoopt_fig14", "servers=16", "workload.tables=16")
    assert len(load("topoopt_fig14").series) == 4
    for series in load("topoopt_fig14").series:
        rows = where(result["rows"], series=series)
        assert sum(row["pairs"] for row in rows) == 16 * 15
        assert min(row["links"] for row in rows) == 1
    mean = {row["series"]: row["mean"] for row in result["summary"]}
    for rings in ("bidirectional rings", "directed rings"):
        assert mean[f"d = 8 ({rings})"] < mean[f"d = 4 ({rings})"]


def test_by_its_prices_a_fat_tree_costs_what_topoopt_costs_and_an_ideal_switch_more(figure: Any) -> None:
    rows = figure("topoopt_fig10", *SMALL["topoopt_fig10"], "experiment.similar_cost=prices")["summary"]
    ratio = {row["series"]: row["ratio_mean"] for row in rows}
    assert ratio["Fat-tree"] == pytest.approx(1)
    assert ratio["Ideal Switch"] > ratio["Oversub. Fat-tree"] > 1 > ratio["Expander"]


def test_the_rule_of_the_similar_cost_is_part_of_a_point(tmp_path: Path) -> None:
    small = ("servers=8", "workload=bert", "workload.layers=1", "strategy=hybrid", "seed=0", "bandwidth_gbps=100")
    arguments = ["experiment", "topoopt_fig11", *small, f"out={tmp_path}"]
    found = {}
    for rule in ("authors", "prices"):
        assert main([*arguments, f"experiment.similar_cost={rule}"]) == 0
        rows = json.loads((tmp_path / "result.json").read_text())["rows"]
        found[rule] = {row["series"]: row["interface_bandwidth"] for row in rows}
    assert found["authors"]["Fat-tree"] == found["authors"]["TopoOpt"] / 4
    assert found["authors"]["Fat-tree"] != found["prices"]["Fat-tree"] < found["prices"]["TopoOpt"]
    stored = [json.loads(line)["point"]["series"] for line in (tmp_path / "checkpoint.jsonl").read_text().splitlines()]
    assert stored.count("Fat-tree") == 2
    assert stored.count("TopoOpt") == 1  # it has no price to keep to


@pytest.mark.slow
def test_nothing_is_faster_than_its_computation_and_the_rival_pays_no_more(figure: Any) -> None:
    for row in figure("topoopt_fig11", *SMALL["topoopt_fig11"])["rows"]:
        assert row["iteration_time"] >= row["compute_time"] > 0
        assert row["bandwidth_tax"] >= 1
    small = [key for key in SMALL["topoopt_fig12"] if key != "degree=2"]  # of whose price there is no fat-tree so small
    rows = figure("topoopt_fig12", *small, "degree=4", "experiment.similar_cost=prices")["rows"]
    cost = {series: {row["cost_usd"] for row in rows if row["series"] == series} for series in ("TopoOpt", "Fat-tree")}
    assert max(cost["Fat-tree"]) <= min(cost["TopoOpt"]) * (1 + 1e-9)


def test_the_fastest_strategy_counts_and_seeds_are_averaged() -> None:
    fig11 = load("topoopt_fig11")
    assert SIMILAR_COST in fig11.series["Fat-tree"]
    times = {  # (series, seed, strategy) -> s
        ("TopoOpt", 0, "hybrid"): 1.0,
        ("TopoOpt", 0, "data_parallel"): 2.0,
        ("TopoOpt", 1, "hybrid"): 4.0,
        ("TopoOpt", 1, "data_parallel"): 3.0,
        ("Expander", 0, "hybrid"): 10.0,
        ("Expander", 1, "hybrid"): 6.0,
    }
    rows = [
        {
            "series": series,
            "seed": seed,
            "strategy": strategy,
            "workload": "dlrm",
            "bandwidth_gbps": 25,
            "iteration_time": time,
        }
        for (series, seed, strategy), time in times.items()
    ]
    topoopt, expander = fig11.summary(rows)
    assert (topoopt["series"], topoopt["time_first"], topoopt["ratio_mean"]) == ("TopoOpt", (1 + 3) / 2, 1)
    assert (expander["series"], expander["time_first"]) == ("Expander", (10 + 6) / 2)
    assert expander["ratio_mean"] == ((10 + 6) / 2) / ((1 + 3) / 2)


def test_a_line_is_compared_where_both_have_a_value() -> None:
    assert ratios({40: 6.0, 10: 8.0, 25: 9.0}, {25: 3.0, 10: 2.0, 100: 1.0}) == {
        "ratio_mean": (8 / 2 + 9 / 3) / 2,
        "ratio_first": 8 / 2,
        "ratio_last": 9 / 3,
    }
    assert ratios({10: 1.0}, {25: 1.0}) == {}


@pytest.mark.parametrize("name", options("experiment"))
def test_every_series_of_a_figure_can_be_chosen_by_its_name(name: str, tmp_path: Path) -> None:
    experiment = load(name)
    for series in experiment.series:
        assert split([f"out={tmp_path}", f"series={series}"], experiment) == (tmp_path, [series], [])
    assert split([f"out={tmp_path}", f"series={series},{series}"], experiment)[1] == [series]
    both = list(experiment.series)[-2:]
    assert split([f"out={tmp_path}", f"series={','.join(both)}"], experiment)[1] == both


def test_a_series_with_a_comma_in_its_name_is_refused() -> None:
    experiment = load("topoopt_fig14")
    with pytest.raises(ValueError, match=r"experiment\.series: must have names without a comma, .*, got 'a, b'"):
        replace(experiment, series={"a, b": {"degree": 2}})


def test_a_series_without_the_key_of_x_takes_as_long_at_every_x(figure: Any) -> None:
    result = figure("topoopt_fig17", *SMALL["topoopt_fig17"])
    (still,) = (row for row in result["rows"] if row["series"] == "TopoOpt")
    assert "fabric.pause" not in still
    lines = load("topoopt_fig17").lines(result["rows"])["bert"]
    assert lines["TopoOpt"] == dict.fromkeys((1e-5, 1e-2), still["iteration_time"])
    assert set(lines["OCS-reconfig-FW"]) == {1e-5, 1e-2}


def test_jobs_on_shards_do_not_see_each_other_and_on_an_ideal_switch_hardly(figure: Any) -> None:
    rows = figure("topoopt_fig16", *SMALL["topoopt_fig16"])["rows"]
    times = {(row["series"], row["jobs"], row["kind"]): row["mean"] for row in rows}
    for kind in ("dlrm", "bert"):
        assert times["TopoOpt", 2, kind] == times["TopoOpt", 4, kind]  # as if it were alone
        assert times["Ideal Switch", 2, kind] == pytest.approx(times["Ideal Switch", 4, kind], rel=1e-6)
    for row in rows:
        assert row["load"] == row["jobs"] * 4 / 16
        assert row["p99"] >= row["mean"] or row["kind"] != "all"


def test_strategies_that_come_to_the_same_are_one_point(tmp_path: Path) -> None:
    small = ("servers=4", "workload=vgg16", "bandwidth_gbps=100", "seed=0", "series=TopoOpt")
    assert main(["experiment", "topoopt_fig11", *small, "degree=2", f"out={tmp_path}"]) == 0
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert [row["strategy"] for row in rows] == ["hybrid", "data_parallel"]  # VGG16 has nothing to split
    assert len((tmp_path / "checkpoint.jsonl").read_text().splitlines()) == 1


def test_a_search_is_never_slower_than_where_it_began(figure: Any) -> None:
    small = ("servers=4", "workload.tables=4", "workload.batch_per_gpu=64", "degree=2", "seed=0", "series=TopoOpt")
    small = (*small, "fluid.merge=0")
    (given,) = figure("topoopt_fig12", *small)["rows"]
    (searched,) = figure("topoopt_fig12", *small, "search.proposals=64", "search.rounds=1", "gpu.memory=1e12")["rows"]
    assert searched["iteration_time"] <= given["iteration_time"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topoopt_fig11"], "out: must be given"),
        (
            ["motion_fig8", "out=X"],
            "experiment: must be a figure, as motion_fig7, motion_fig6, motion_fig5, motion_fig4, ",
        ),
        (
            ["figure", "out=X"],
            "experiment: must be a figure, of dragonfly_*, fosquare_*, motion_*, sirius_*, topoopt_* (",
        ),
        (["topoopt_fig11", "series=Torus", "out=X"], "series: must be of TopoOpt, Ideal Switch, "),
        (["topoopt_fig11", "fabric=ring", "out=X"], "fabric: differs between the series of the figure"),
        (
            ["topoopt_fig11", "fidelity=none", "out=X"],
            "fidelity: must be one of bound, fitting, fluid, packet, slotted, got",
        ),
        (["topoopt_fig11", "fail.servers=[0]", "out=X"], "fail.servers: must be left out, as figures are of whole"),
        (
            ["topoopt_fig11", "experiment.similar_cost=ours", "out=X"],
            "experiment.similar_cost: must be one of authors, prices, got 'ours'",
        ),
        (["topoopt_fig11", "servrs=8", "out=X"], "servrs: no such key; did you mean servers?"),
        (["topoopt_fig11", "servrs=8"], "servrs: no such key; did you mean servers?"),
        (
            ["topoopt_fig11", "foo=1", "out=X"],
            "out, bound, fitting, fluid, packet, slotted, executor, mlflow, tensorboard, wandb, series, search, "
            "experiment\n",
        ),
        (["topoopt_fig11", "servers=0", "out=X"], "servers: must be a whole number of at least 1, got 0"),
        (["topoopt_fig11", "search.proposals=-1", "out=X"], "search.proposals: must be a whole number of at least 0"),
        (
            ["topoopt_fig11", "search.proposal=1", "out=X"],
            "search.proposal: no such key; did you mean search.proposals?",
        ),
        (
            ["topoopt_fig14", "experiment.title='On {machines}'", "out=X"],
            "experiment.title: must have keys of the points in braces, got {machines}",
        ),
        (
            ["topoopt_fig17", "series=TopoOpt", "out=X"],
            "series: must include one with values of fabric.pause, the x axis, got TopoOpt",
        ),
        (["topoopt_fig12", "degree=0", "servers=8", "seed=0", "out=X"], "degree: must be a whole number of at least 1"),
        (
            ["topoopt_fig1", "servers=8", "series=Hybrid", "out=X"],
            "hybrid.placement.E2: must be servers within 0..7, got 8",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "X").exists()


def test_the_parts_of_motion_are_those_that_it_states_and_its_optics_draw_what_their_table_says(figure: Any) -> None:
    """Maniotis et al., section 3: 272 and 160 switches, 409.6 and 1,638.4 Tb/s; Table 1: 2 pJ for each bit."""
    experiment: Any = load("motion_bill")
    result = figure("motion_bill")
    rows = {row["series"]: row for row in result["rows"]}
    baseline, motion = rows["baseline"], rows["MOTION"]
    assert set(experiment.paper) >= {"switches", "end_points", "bisection", "modules"}
    for quantity, (first, second) in experiment.paper.items():
        assert (baseline[quantity], motion[quantity]) == pytest.approx((first, second), rel=1e-12), quantity
    assert 1 - motion["switches"] / baseline["switches"] == pytest.approx(0.41, abs=0.005)
    assert motion["optics_per_switch_w"] == pytest.approx(51.2e12 * 2e-12)
    ends = 2 * (12288 + 4096)  # of all cables; those of switches and of servers
    assert motion["optics_w"] == pytest.approx(ends * 400e9 * 2e-12)
    assert baseline["optics_w"] == pytest.approx(2 * 4096 * 100e9 * 20e-12)
    assert (baseline["copper"], baseline["optical"], motion["copper"]) == (12288, 4096, 0)
    other = figure("motion_bill", "series=MOTION", "servers=960")["rows"]
    assert other[0]["groups"] == 10
    assert other[0]["optics_w"] == pytest.approx((2 * 1920 + 2 * 20 * 32) * 400e9 * 2e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optics": {}}, "experiment.optics.baseline: must have servers and switches, got "),
        ({"optics": {"leaf": {}}}, "experiment.optics: must be of the series baseline, MOTION, .* got 'leaf'"),
        ({"paper": {"watts": [1.0]}}, "experiment.paper: must be of switches, .*, got watts"),
        ({"channels": 0}, "experiment.channels: must be positive, got 0"),
    ],
)
def test_what_makes_no_bill_is_said_in_a_line(change: dict[str, Any], message: str) -> None:
    experiment: Any = load("motion_bill")
    with pytest.raises(ValueError, match=f"^{message}"):
        replace(experiment, **change)


def test_an_exchange_crosses_the_spine_as_motion_counts_it(figure: Any) -> None:
    """M3 = N^2 - N S of N^2 messages (MOTION 4.B, Figure 4)."""
    for row in figure("motion_fig4", "servers=96,288")["rows"]:
        size = 48 if row["series"] == "baseline" else 96
        assert row["crossing"] == pytest.approx(1 - size / row["servers"], rel=1e-12)
        assert row["messages"] == row["servers"] * (row["servers"] - 1)


def test_an_exchange_within_one_group_goes_at_the_rate_of_its_links(figure: Any) -> None:
    """96 servers of MOTION: 95 messages of 32 KiB at 100 Gb/s, and no others meet them; then 4 times as fast."""
    rows = figure("motion_fig6", "servers=96", "experiment.sizes=[32768]")["rows"]
    baseline, slow, fast = (row["completion"] for row in rows)
    alone = 95 * 32768 / 12.5e9
    latencies = 3 * 100e-9 + 2 * 50e-9  # two NICs, a switch, two links
    assert slow == pytest.approx(alone + latencies, rel=1e-3)
    assert fast == pytest.approx(alone / 4 + latencies, rel=1e-3)
    assert baseline > 1.5 * slow  # 48 * 48 messages over 16 cables of each leaf take 1.5 times as long, at least


def test_an_application_is_as_much_faster_as_its_communication_is_of_it(figure: Any) -> None:
    small = ("servers=96", "experiment.sizes=[256,4096]")
    summary = figure("motion_fig7", *small)["summary"]
    alone = {(row["series"], row["bytes"]): row["application"] for row in figure("motion_fig6", *small)["summary"]}
    assert {row["ratio"] for row in summary} == {0.3, 0.5}
    for row in summary:
        assert row["application"] == pytest.approx(1 - row["ratio"] * (1 - alone[row["series"], row["bytes"]]))


def test_a_speedup_is_the_slower_time_over_the_faster(figure: Any) -> None:
    result = figure("motion_fig5", "servers=96", "experiment.sizes=[256,4096]")
    both = where(result["summary"], speedup="MOTION-400 over baseline")[0]
    times = {(row["series"], row["bytes"]): row["completion"] for row in result["rows"]}
    expected = [times["baseline", size] / times["MOTION-400", size] for size in (256, 4096)]
    assert (both["least"], both["greatest"]) == (min(expected), max(expected))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["motion_fig6", "series=MOTION-100"], "series: must have baseline, which the others are compared with"),
        (["motion_fig7", "experiment.ratios=[0]"], "experiment.ratios: must be within 0 < ratio <= 1, got 0"),
        (["motion_fig7", "experiment.base=x"], "experiment.base: must be of the series baseline, MOTION-100"),
        (["motion_fig5", "experiment.sizes=[]"], "experiment.sizes: must have an entry, got none"),
        (["motion_fig5", "servers=96,100"], "workload.group: must divide the 100 servers, got 48"),
    ],
)
def test_what_makes_no_figure_of_an_exchange_is_said_in_a_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = () if any("servers" in argument for argument in arguments) else ("servers=96",)
    assert main(["experiment", *arguments, *small, f"out={tmp_path}"]) == 2
    assert message in capsys.readouterr().err


def test_ports_of_a_dragonfly_are_counted_once_and_their_shares_are_of_the_whole_run(figure: Any) -> None:
    rows = figure("dragonfly_fig4", *DRAGONFLY)["rows"]
    sizes = {"local": 24, "group": 3 * 4 * 3, "global": {1: 6, 3: 18}}  # of 3 groups of 4 routers with 2 servers each
    for cables in (1, 3):
        for kind, size in sizes.items():
            own = where(rows, kind=kind, **{"fabric.global_links": cables, "workload.name": "halo3d"})
            for series in {row["series"] for row in own}:
                ports = where(own, series=series)
                assert sum(row["ports"] for row in ports) == (size if isinstance(size, int) else size[cables])
                assert all(0 <= row["active_cell"] + row["stalled_cell"] <= 51 for row in ports)
                assert ports[0]["active"] + ports[0]["stalled"] + ports[0]["idle"] == pytest.approx(1)


def test_the_median_port_and_long_intervals_are_counted_over_all_kinds_of_ports(figure: Any) -> None:
    result = figure("dragonfly_table1", *DRAGONFLY)
    assert len(result["summary"]) == 2 * 2 * 2  # motifs, cables, bandwidths
    for line in result["summary"]:
        where_from = {"workload.name": line["motif"], "fabric.global_links": line["cables"], "series": line["series"]}
        kinds: dict[Any, Any] = {row["kind"]: row for row in where(result["rows"], **where_from)}
        switches = [kinds[kind] for kind in ("local", "group", "global")]
        assert line["idle_intervals"] == sum(row["idle_intervals"] for row in switches)
        assert line["over_1us"] * line["idle_intervals"] == pytest.approx(sum(row["idle_1us"] for row in switches))
        assert line["over_1ms"] * line["idle_intervals"] == pytest.approx(sum(row["idle_1ms"] for row in switches))
        assert 0 <= line["over_1ms"] <= line["over_1us"] <= 1
        medians = [row["idle_median"] for row in switches]
        assert min(medians) <= line["idle_median"] <= max(medians)


PUBLISHED = {"local_ports": 110_592, "group_ports": 96 * 48 * 47, "nics": 110_592}  # at 24 x 48 x 96


def of_published(cables: int, idle: float, motif: str) -> list[dict[str, Any]]:
    """Rows of a network of the published size whose ports are idle for this share of the run."""
    own = {"series": "S", "fabric.global_links": cables, "workload.name": motif, "runtime": 1.0, **PUBLISHED}
    own |= {"global_ports": cables * 95 * 96, "idle": idle, "idle_intervals": 200, "idle_1us": 50}
    return [{**own, "kind": kind} for kind in ("local", "group", "global", "all", "nic")]


def test_savings_are_those_of_the_paper_at_its_size() -> None:
    """IV-C.3 and 4: 164, 246, 300 kW; 0.36 MW or 1.8 % of the machine, 0.60 MW or 3 %."""
    experiment: Any = load("dragonfly_savings")
    rows = [row for cables in (1, 3, 6, 12) for idle in (0.9, 0.75) for row in of_published(cables, idle, f"{idle}")]
    found = {row["saving"]: row for row in experiment.summary(rows)}
    expected = {"tapered to 6": 164e3, "tapered to 3": 246e3, "tapered to 1": 300e3}
    expected |= {"narrow": 0.36e6, "narrow, models": 0.60e6}
    for name, watts in expected.items():
        assert found[name]["power"] == pytest.approx(watts, rel=0.01)
    assert found["narrow"]["of_budget"] == pytest.approx(0.018, rel=0.01)
    assert found["narrow, models"]["of_budget"] == pytest.approx(0.03, rel=0.01)
    every = 4 * 0.5 * (327_168 + 110_592) + 3 * 109_440  # W of all ports
    assert found["proportional"]["power"] == pytest.approx(0.75 * every)  # of the motif that leaves the least idle
    assert found["proportional"]["motif"] == "0.75"
    assert found["dynamic"]["power"] == pytest.approx(0.75 * every - found["narrow, models"]["power"])
    assert found["dynamic"]["over_1us"] == 0.25


def test_shares_of_what_is_saved_do_not_depend_on_the_size_of_the_network() -> None:
    experiment: Any = load("dragonfly_savings")
    rows = [row for cables in (1, 12) for row in of_published(cables, 0.9, "halo3d")]
    counts = (*PUBLISHED, "global_ports")
    small = [{**row, **{key: row[key] // 96 for key in counts}} for row in rows]
    for whole, part in zip(experiment.summary(rows), experiment.summary(small), strict=True):
        for share in ("of_links", "of_budget"):
            assert part[share] == pytest.approx(whole[share])


def test_a_figure_of_all_motifs_is_of_the_papers_88_simulations() -> None:
    """III-C: 11 motifs x 1, 3, 6, 12 cables x 12.5 and 25 GB/s, which are the series."""
    experiment = load("dragonfly_fig3")
    names, cables = (experiment.grid[key].split(",") for key in ("workload.name", "fabric.global_links"))
    assert names == list(MOTIFS)
    assert (cables, len(experiment.series)) == (["1", "3", "6", "12"], 2)
    assert len(names) * 4 * 2 == 88


def test_the_published_size_is_one_setting() -> None:
    assert load("dragonfly_fig3").grid["servers"] == 504
    full = load("dragonfly_fig3", ["experiment.scale=full"]).grid
    sizes = [full[key] for key in ("fabric.nodes", "fabric.routers", "fabric.groups")]
    assert (full["servers"], sizes) == (110_592, [24, 48, 96])
    with pytest.raises(ValueError, match=r"experiment.scale: must be one of small, full, got 'large'"):
        load("dragonfly_fig3", ["experiment.scale=large"])


def test_power_of_links_is_that_of_the_paper_at_its_size() -> None:
    """IV-C: 0.65 MW with 4X links, 0.76 MW of NICs, 0.33 MW of optical links with 12 cables between groups."""
    experiment: Any = load("dragonfly_fig9")
    counts = PUBLISHED
    assert counts["local_ports"] + counts["group_ports"] == 327_168
    for cables, megawatts in ((12, 0.33), (6, 0.164), (3, 0.082)):
        optical = {**counts, "global_ports": cables * 95 * 96}
        of_links = experiment.power(optical) - experiment.power({**counts, "global_ports": 0})
        assert of_links == pytest.approx(megawatts * 1e6, rel=0.01)
    assert experiment.power({**counts, "nics": 0, "global_ports": 0}) == pytest.approx(0.65e6, rel=0.01)
    assert experiment.power({**counts, "global_ports": 12 * 95 * 96}) == pytest.approx(1.73e6, rel=0.01)
    nics = experiment.power({**counts, "global_ports": 0}) - experiment.power({**counts, "nics": 0, "global_ports": 0})
    assert nics == pytest.approx(0.76e6, rel=0.01)


def test_power_of_paths_is_that_of_the_paper(figure: Any) -> None:
    """Sirius 2: 50 W/(Tb/s) for two nodes, 487 for four layers of 64-port switches, which more than 65 K nodes need."""
    rows = figure("sirius_fig2a")["rows"]
    assert [row["paper"] for row in rows][::4] == pytest.approx([50, 487], rel=2e-3)
    assert [row["nodes"] for row in rows] == [2, 64, 2048, 65_536, 2_097_152]
    assert all(row["all_links"] - row["paper"] == pytest.approx(50 * (row["layers"] > 0)) for row in rows)


def test_a_picture_says_how_many_points_it_does_not_show() -> None:
    rows = [
        {"series": "Sirius", "workload.load": at, "completion_p99": time, "goodput": 0.1}
        for at, time in ((0.1, 1e-5), (0.5, None), (1.0, None))
    ]
    times, goodput = load("sirius_fig9").draw(rows)
    assert "2 of 3 points have none, as more than 1 % of the short flows had not ended." in times.caption
    assert "none" not in goodput.caption
    (bars,) = load("sirius_fig11").draw([{**row, "workload.load": 1.0} for row in rows])
    assert "2 of 3" in bars.caption


def test_a_laser_that_draws_no_more_is_a_fixed_one(figure: Any) -> None:
    """By 5, in W/(Tb/s): 2 * 19.53 of rack switches and 4 * 25 of transceivers, of 7 * (19.53 + 50)."""
    one, *_, ten = figure("sirius_fig6a", "servers=128", "experiment.overheads=[1,10]")["summary"]
    assert one["path_ratio"] == pytest.approx((2 * 19.53125 + 4 * 25) / (7 * 69.53125))
    assert ten["path"] - one["path"] == pytest.approx(4 * 9 / 0.4)
    assert ten["bill_ratio"] > one["bill_ratio"]
