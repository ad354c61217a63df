"""Figures of TopoOpt, small: their numbers keep their laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.papers.small import SMALL
from topoflow.cli import main
from topoflow.study.figures.base import SIMILAR_COST, where
from topoflow.study.figures.load import load

pytestmark = pytest.mark.usefixtures("without_pixels")


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
        matching = where(links, series=same_network[series], **{"workload.batch_per_gpu": batch})
        for kind, tax in (("bytes", "bandwidth_tax"), ("mp_bytes", "bandwidth_tax_mp")):
            demanded = row["mp_bytes"] + (row["all_reduce_bytes"] if kind == "bytes" else 0)
            carried = sum(link[kind] * link["circuits"] for link in matching)
            assert carried == pytest.approx(row[tax] * demanded, rel=1e-9)


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
    bandwidths = {}
    for rule in ("authors", "prices"):
        assert main([*arguments, f"experiment.similar_cost={rule}"]) == 0
        rows = json.loads((tmp_path / "result.json").read_text())["rows"]
        bandwidths[rule] = {row["series"]: row["interface_bandwidth"] for row in rows}
    assert bandwidths["authors"]["Fat-tree"] == bandwidths["authors"]["TopoOpt"] / 4
    assert bandwidths["authors"]["Fat-tree"] != bandwidths["prices"]["Fat-tree"] < bandwidths["prices"]["TopoOpt"]
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
    (initial,) = figure("topoopt_fig12", *small)["rows"]
    (searched,) = figure("topoopt_fig12", *small, "search.proposals=64", "search.rounds=1", "gpu.memory=1e12")["rows"]
    assert searched["iteration_time"] <= initial["iteration_time"] * (1 + 1e-9)
