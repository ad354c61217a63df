"""Laws of ``node=`` and ``gpus=``: what follows from a node, how GPUs are folded, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import topoflow
from topoflow.study.configure.nodes import default_sweep, with_node

LLM = {"workload": "llama3_8b", "gpus": 64, "node": "hgx_h100", "fluid.merge": 0}
PIPELINE = {"node": "hgx_h100", "strategy": "parallel", "strategy.pipeline": 2, "fold": "pipeline"}


def test_a_node_brings_its_gpu_its_interfaces_and_nccl() -> None:
    assert with_node(["servers=4"], (), ()) == ["servers=4"]
    added = with_node(["node=hgx_h100"], (), ("h100",))
    assert added == [
        "node=hgx_h100",
        "gpu=h100",
        "bandwidth_gbps=400",
        "degree=1",
        "all_reduce=nccl",
        "prices=gpu_cluster",
    ]


def test_what_is_given_stays() -> None:
    texts = ["node=dgx_a100", "gpu=h100", "bandwidth_gbps=100", "all_reduce=ring"]
    assert with_node(texts, (), ("h100",)) == [*texts, "degree=1", "prices=gpu_cluster"]
    assert "gpu=a100" not in with_node(["node=dgx_a100"], ("gpu",), ("a100",))


def test_amd_gpus_reduce_in_rings() -> None:
    assert "all_reduce=ring" in with_node(["node=mi300x"], (), ("mi300x",))


@pytest.mark.parametrize(
    ("keys", "efficiency"),
    [
        ({"workload": "llama3_8b"}, "measured"),
        ({"workload": "moe"}, "measured"),
        ({"workload": "llama3_8b", "efficiency": "roofline"}, "roofline"),
        ({"workload": "llama3_8b", "gpu": "mi300x"}, "roofline"),
        ({"workload": "resnet50"}, "roofline"),
        ({"workload": "llama3_8b", "gpu": topoflow.gpus.h100()}, "roofline"),
    ],
)
def test_kernels_of_transformers_on_nodes_take_the_measured_time(keys: dict[str, object], efficiency: str) -> None:
    (result,) = topoflow.compare(fabric="ideal_switch", node="hgx_h100", gpus=8, **keys)
    assert result.settings.config["efficiency"] == efficiency


def test_a_node_whose_gpu_is_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="gpu: must be given for node mi355x, as its GPU, MI355X, is none of h100"):
        with_node(["node=mi355x"], (), ("h100",))


def test_networks_for_nodes_are_swept_by_default() -> None:
    defaults = {"fabric": "torus,topoopt", "seed": "0"}
    assert default_sweep(defaults, ["servers=4"]) == defaults
    swept = default_sweep(defaults, ["node=hgx_h100", "gpus=8"])
    assert swept["fabric"].startswith("rail_optimized,")
    assert swept["seed"] == "0"


@pytest.mark.parametrize(
    "strategy",
    [
        {"strategy.tensor": 8},
        {"strategy.tensor": 2, "strategy.pipeline": 2, "strategy.zero": 1},
        {"strategy.tensor": 2, "strategy.zero": 3},
        {"strategy.zero": 3, "strategy.replicate": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("fabric", ["rail_optimized", "rail_only"])
def test_a_folded_job_takes_as_long_as_an_unfolded_one(strategy: dict[str, int], fabric: str) -> None:
    times = [
        topoflow.compare(**LLM, strategy="parallel", **strategy, fabric=fabric, fold=fold)[0].iteration_time
        for fold in (False, True)
    ]
    assert times[1] == pytest.approx(times[0], rel=1e-9)


@pytest.mark.parametrize(
    ("strategy", "off"),
    [
        ({"strategy.tensor": 8, "strategy.zero": 1, "strategy.replicate": 2, "strategy.virtual": 4}, 1e-9),
        # Collectives overlap, of reductions or of several passes: a rank's flows share all links of a layer, those of
        # nodes single ones
        ({"strategy.tensor": 4, "strategy.context": 4, "strategy.zero": 1}, 1e-4),
        ({"strategy.tensor": 2, "strategy.zero": 0}, 1e-3),
        ({"strategy.tensor": 4, "strategy.context": 4, "strategy.virtual": 2, "strategy.zero": 1}, 1e-3),
        ({"strategy.context": 16, "strategy.zero": 1}, 3e-3),
    ],
    ids=str,
)
@pytest.mark.parametrize("fabric", ["clos", "ideal_switch"])
def test_pipeline_ranks_as_endpoints_take_as_long_as_their_nodes_where_no_links_are_hashed(
    strategy: dict[str, int], off: float, fabric: str
) -> None:
    job = {**LLM, "gpus": 64, "strategy": "parallel", "strategy.pipeline": 2, **strategy, "fabric": fabric}
    nodes, ranks = (topoflow.compare(**job, fold=fold)[0] for fold in (True, "pipeline"))
    assert ranks.row.servers == 2
    assert ranks.row.gpus == nodes.row.gpus == 64
    assert ranks.iteration_time == pytest.approx(nodes.iteration_time, rel=off)
    assert ranks.row.cost_usd == nodes.row.cost_usd
    assert ranks.row.memory_per_gpu == nodes.row.memory_per_gpu


def test_collectives_of_pipeline_ranks_wait_for_the_most_loaded_of_the_links_that_are_hashed() -> None:
    job = {**LLM, "gpus": 512, "strategy": "parallel", "strategy.tensor": 8, "fabric": "clos"}
    nodes, ranks = (topoflow.compare(**job, fold=fold)[0].iteration_time for fold in (True, "pipeline"))
    assert nodes > 1.03 * topoflow.compare(**{**job, "fabric": "ideal_switch"})[0].iteration_time
    assert ranks == pytest.approx(nodes, rel=1e-3)


def test_a_folded_job_of_one_node_takes_as_long_where_collectives_could_overlap() -> None:
    for keys in ({"strategy": "fsdp"}, {"strategy": "parallel", "strategy.tensor": 2}):
        one = {**LLM, "gpus": 8, "fabric": "ideal_switch", **keys}
        times = [topoflow.compare(**one, fold=fold)[0].iteration_time for fold in (False, True)]
        assert times[1] == pytest.approx(times[0], rel=1e-9)


def test_a_large_job_is_folded_where_the_gpus_of_a_node_do_the_same() -> None:
    (folded,) = topoflow.compare(**{**LLM, "gpus": 512}, strategy="fsdp", fabric="ideal_switch")
    assert (folded.row.servers, folded.row.gpus) == (64, 512)
    assert "on 512 GPUs" in str(topoflow.compare(**{**LLM, "gpus": 512}, strategy="fsdp", fabric="ideal_switch"))
    (small,) = topoflow.compare(**{**LLM, "gpus": 16}, strategy="fsdp", fabric="ideal_switch")
    assert (small.row.servers, small.row.gpus) == (16, 16)


def test_gpus_are_servers_of_several_without_nodes() -> None:
    by_gpus, by_servers = (
        topoflow.compare(workload="vgg16", fabric="ideal_switch", **size)[0] for size in ({"gpus": 32}, {"servers": 8})
    )
    assert by_gpus.iteration_time == by_servers.iteration_time
    with pytest.raises(ValueError, match="gpus: must fill whole servers of 4, got 10"):
        topoflow.compare(workload="vgg16", gpus=10)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"node": "hgx"}, "node: must be one of dgx_a100, .* got 'hgx'"),
        ({"node": "hgx_h100", "gpus": 12}, "gpus: must fill whole nodes of 8, got 12"),
        ({"node": "hgx_h100", "servers": 4}, "servers: must be left out with node, got 4"),
        ({"gpus": 8, "servers": 2}, "servers: must be left out with gpus, got 2"),
        ({"node": "hgx_h100", "gpus": 16, "gpus_per_node": 9}, "gpus_per_node: must be within 1..8 .* got 9"),
        ({"gpus_per_node": 2}, "gpus_per_node: must be left out without node, got 2"),
        ({"node": "hgx_h100", "gpus": 16, "fabric": "topoopt"}, "fabric: must join the ports of hgx_h100 by switches"),
        ({"all_reduce": "nccl"}, "nccl must be on GPUs of nodes"),
        ({"node": "hgx_h100", "gpus": 16, "nccl.algo": "foo"}, "NCCL_ALGO: must be of tree, ring, .* got 'foo'"),
        ({"node": "dgx_a100", "gpus": 16, "nccl.algo": "nvls"}, "nvls: needs NVSwitches and GPUs from Hopper on"),
        ({"node": "l40s", "gpus": 16, "nccl.proto": "LL128"}, "LL128: is not enabled over PCI of node l40s"),
        ({"node": "hgx_h100", "gpus": 16, "fold": True}, "fold: must be false, as GPUs of a node do different work"),
        ({"fold": True}, "fold: must be true, false or pipeline with node, else null, got True"),
        (
            {"node": "hgx_h100", "gpus": 16, "fold": "rank"},
            "fold: must be true, false or pipeline with node, .* 'rank'",
        ),
        ({**PIPELINE, "gpus": 64, "fidelity": "packet"}, "fold: must be true or false unless all_reduce=nccl and fid"),
        ({**PIPELINE, "gpus": 64, "all_reduce": "ring"}, "fold: must be true or false unless all_reduce=nccl and fid"),
        (
            {**PIPELINE, "gpus": 16},
            "fold: must be true or false where pipeline ranks have no whole nodes of 8 GPUs, or",
        ),
        (
            {**PIPELINE, "gpus": 32, "workload": "moe", "strategy.expert": 2},
            "fold: must be false, as GPUs of a node do",
        ),
        ({"node": "hgx_h100", "gpus": 16, "fold": True, "fail.each": "fiber"}, "fold: must be false with fail"),
    ],
)
def test_what_cannot_be_is_one_line(keys: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error) as raised:
        topoflow.compare(**{"fabric": "ideal_switch", **keys})
    assert "\n" not in str(raised.value)


def test_recorded_ranks_are_gpus_of_nodes() -> None:
    trace = Path(__file__).resolve().parents[3] / "examples" / "ddp_4_ranks.jsonl.gz"
    keys = {"workload": "captured", "workload.trace": str(trace), "node": "gh200", "fabric": "rail_optimized"}
    whole, halves = (topoflow.compare(**keys, gpus_per_node=per_node)[0] for per_node in (None, 2))
    assert whole.row.gpus == halves.row.gpus == 4
    assert halves.iteration_time > whole.iteration_time  # half of it leaves the node
