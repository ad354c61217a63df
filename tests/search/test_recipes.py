"""Laws of a search over recipes: the bound, the memory, and the agreement with ``compare``."""

from __future__ import annotations

import csv
import secrets
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow.collectives import nccl_flows
from topoflow.engine.base import Run
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import load
from topoflow.search.pipeline_passes import BucketReduction, LastPasses, PassPart
from topoflow.search.recipe_bound import PARTS, GroupShape, RecipeBound
from topoflow.search.recipes import CHOSEN, Recipes, recipes
from topoflow.strategy.grid import ParallelGrid
from topoflow.study.builder import batched, workload_of
from topoflow.study.compare import compare
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.point import Point
from topoflow.study.recipe_files import pareto
from topoflow.study.recipes import FoundRecipes, search_recipes
from topoflow.workload.base import LayerGraph

TRAINING = Path(__file__).resolve().parents[3] / "shared" / "data" / "training_measurements" / "training.csv"
COMMON = ("strategy=parallel", "fabric=rail_optimized")
LLAMA = ("model=llama3_8b", "node=hgx_h100", "gpus=16", "global_batch=32", "efficiency=measured")
LLAMAS = {"Llama 3.1 8B": "llama3_8b", "Llama 3.1 70B": "llama3_70b", "Llama 3.1 405B": "llama3_405b"}
RECOMPUTE = {"none": "none", "selective": "selective_op", "selective per op": "selective_op", "full": "full"}
SMALL_JOBS = [
    LLAMA,
    ("model=moe", "workload.layers=4", "node=hgx_h100", "gpus=16", "global_batch=16", "strategy.async_expert=true"),
    ("model=transformer", "workload.layers=6", "node=mi300x", "gpus=8", "global_batch=8", "strategy.async_tensor=true"),
    ("model=transformer", "workload.layers=6", "node=dgx_a100", "gpus=16", "global_batch=8",
     "strategy.sequence_parallel=false"),
    ("model=moe", "workload.layers=4", "workload.experts=16", "workload.top_k=4", "workload.node_limit=1",
     "node=hgx_h100", "gpus=16", "global_batch=16"),
]  # fmt: skip


def points(*arguments: str) -> list[Point]:
    return [*Grid.of([*COMMON, *arguments], check).compose()]


def job(point: Point) -> tuple[LayerGraph, RecipeBound]:
    """Return the job with one GPU per server, and the bounds of its recipes."""
    cluster = Cluster(load(point.config["node"]), point.config["gpus"])
    single = replace(workload_of(point), gpus_per_server=1, gpus_per_node=cluster.per_node)
    workload = batched(point, single, cluster.gpus)
    assert isinstance(workload, LayerGraph)
    nccl = build(point, "nccl") if point.config["all_reduce"] == "nccl" else None
    return workload, RecipeBound(workload, cluster, nccl, build(point, "strategy"))


def arguments_of(chosen: dict[str, Any]) -> list[str]:
    return [f"{'' if key == 'micro_batch' else 'strategy.'}{key}={value}" for key, value in chosen.items()]


@cache
def searched(*arguments: str) -> FoundRecipes:
    (result,) = search_recipes(points(*arguments), (), Run())
    return result


@pytest.mark.slow
@pytest.mark.parametrize("arguments", SMALL_JOBS, ids=["llama", "moe", "mi300x", "dgx_a100", "node_limit"])
def test_no_recipe_is_simulated_below_either_bound_and_all_need_equal_memory(
    arguments: tuple[str, ...],
) -> None:
    seed = secrets.randbits(32)
    (point,) = points(*arguments)
    workload, bound = job(point)
    space = recipes(workload, point.config["gpus"], {})
    few = space.microbatches * space.pipeline * space.virtual <= 64
    draw = np.random.default_rng(seed).permutation
    kinds = (space.virtual == 1, (space.virtual > 1) & (space.zero < 2))  # the latter have a bound of their own
    rows = np.concatenate([draw(np.flatnonzero(few & kind))[:16] for kind in kinds])
    bounds, pipelined = bound.of(space.at(rows)), bound.pipelined(space.at(rows))
    for number, row in enumerate(rows.tolist()):
        (result,) = compare(points(*arguments, *arguments_of(space.chosen(row))), Run()).outcomes
        message = f"{space.chosen(row)}, seed {seed}"
        assert bounds.seconds[number] <= result.iteration_time, message
        assert pipelined[number] <= result.iteration_time, message
        assert bounds.memory[number] == pytest.approx(result.memory, rel=1e-12), message


@pytest.mark.parametrize("node", ["dgx_a100", "hgx_h100"])
def test_a_collective_of_no_size_takes_less_than_its_bound(node: str) -> None:
    """NCCL may choose otherwise for a size than for the powers of two that the bounds are kept of.

    Times are those of whole bytes of each rank, so that they are rounded by a byte.
    """
    (point,) = points("model=llama3_8b", f"node={node}", "gpus=64", "global_batch=64")
    _, bound = job(point)
    collectives = bound.collectives
    assert collectives.nccl is not None
    seed = secrets.randbits(32)
    sizes = np.round(np.exp2(np.random.default_rng(seed).uniform(12, 32, 60)))
    for op in ("all_gather", "reduce_scatter", "all_reduce"):
        for nodes, on_node in ((1, 8), (2, 1), (2, 4), (4, 1), (8, 8)):
            group = [GroupShape(nodes, on_node)]
            for queued in (False, True):
                bounds = collectives.seconds(op, group, np.zeros(len(sizes), int), sizes, queued)
                for size, least in zip(sizes.tolist(), bounds.tolist(), strict=True):
                    ((total, sending),) = nccl_flows.least_alone(
                        collectives.cluster.node, collectives.nccl, op, [size], nodes, on_node
                    )
                    assert least <= (sending if queued else total) * (1 + 1 / size), (op, group, size, seed)


def test_a_gpu_alone_on_its_node_waits_for_its_ports_only() -> None:
    """Nothing is copied between GPUs of a node: a bound that counted it was above what is simulated."""
    arguments = ("model=llama3_8b", "workload.layers=4", "node=dgx_a100", "gpus=16", "global_batch=32")
    (point,) = points(*arguments)
    workload, bound = job(point)
    space = recipes(workload, 16, {})
    row = np.flatnonzero((space.tensor == 8) & (space.context == 2) & (space.recompute == 0))[0]
    (result,) = compare(points(*arguments, *arguments_of(space.chosen(int(row)))), Run()).outcomes
    bounds = bound.of(space.at(np.array([row])))
    assert bounds.parts["context"][0] > 0
    assert bounds.seconds[0] <= result.iteration_time


def test_a_recipe_has_a_bound_where_it_fits_and_its_memory_everywhere() -> None:
    (point,) = points(*LLAMA)
    workload, bound = job(point)
    space = recipes(workload, 16, {})
    every, fitting = bound.of(space), bound.of(space, 40e9)
    assert np.array_equal(every.memory, fitting.memory)
    assert np.array_equal(np.where(every.memory <= 40e9, every.seconds, np.inf), fitting.seconds)


def test_parts_of_a_bound_add_up_to_at_most_the_bound() -> None:
    (point,) = points(*LLAMA)
    workload, bound = job(point)
    bounds = bound.of(recipes(workload, 16, {}))
    assert np.all(sum(bounds.parts.values()) <= 1.01 * bounds.seconds)


def test_compute_waits_for_the_rest_of_a_reduction_before_the_next_begins() -> None:
    """Compute until 1; a reduction until 4 next to compute until 3; its rest until 5; the next until 5.5 and 6."""
    first, second = (
        BucketReduction("dense", "dense", concurrent, waits) for concurrent, waits in ((3.0, 1.0), (0.5, 0.5))
    )
    last = LastPasses(1, [[PassPart(1.0, [first]), PassPart(2.0, [second])]], [0], [3.0])
    assert last.end(0, 0.0) == 5.0
    assert last.reduced(0, 5.0) == 6.0


def test_the_winner_of_a_search_takes_as_long_in_a_comparison() -> None:
    best = searched(*LLAMA).best[0]
    (result,) = compare(points(*LLAMA, *best.overrides), Run()).outcomes
    assert result.iteration_time == best.result.iteration_time


@pytest.mark.slow
def test_a_schedule_that_splits_backward_passes_takes_as_long_in_a_comparison() -> None:
    """The best pipelines of 1F1B are simulated under it; each rank of ZB-V has two stages."""
    arguments = ("strategy.schedule=zb_v", "strategy.pipeline=4", "strategy.recompute=full")
    (point,) = points(*LLAMA, *arguments)
    (outcome,) = search_recipes([point], ("pipeline", "recompute"), Run())
    assert outcome.best
    for recipe in outcome.best:
        assert recipe.chosen["schedule"] == "zb_v"
        assert recipe.chosen["virtual"] == 2
        assert recipe.bound <= recipe.result.iteration_time
        assert recipe.memory_left >= 0
    (result,) = compare(points(*LLAMA, *outcome.best[0].overrides), Run()).outcomes
    assert result.iteration_time == outcome.best[0].result.iteration_time
    times = [recipe.result.iteration_time for recipe in outcome.best]
    assert times == sorted(times)


@pytest.mark.slow
def test_a_search_that_leaves_recipes_out_finds_the_fastest_of_all() -> None:
    fixed = {"tensor": 4, "zero": 1, "recompute": "none"}
    (point,) = points(*LLAMA, *arguments_of(fixed))
    (outcome,) = search_recipes([point], tuple(fixed), Run())
    workload, bound = job(point)
    space = recipes(workload, 16, fixed)
    fits = np.flatnonzero(bound.of(space).memory <= workload.gpu.usable_memory)
    assert outcome.simulated < outcome.fitting == len(fits)
    times = [
        compare(points(*LLAMA, *arguments_of(space.chosen(row))), Run()).outcomes[0].iteration_time
        for row in fits.tolist()
    ]
    assert outcome.best[0].result.iteration_time == min(times)


def test_a_search_finds_the_same_with_any_number_of_processes() -> None:
    fixed = {"tensor": 8, "context": 1, "pipeline": 4, "replicate": 1, "zero": 1, "recompute": "none", "micro_batch": 1}
    (point,) = points("model=llama3_8b", "node=hgx_h100", "gpus=512", "global_batch=64", *arguments_of(fixed))
    alone, together = (search_recipes([point], tuple(fixed), Run(threads=threads))[0] for threads in (1, 3))
    assert together.note == alone.note
    for one, other in zip(together.best, alone.best, strict=True):
        assert one.name == other.name
        assert one.result.iteration_time == other.result.iteration_time
        assert np.array_equal(one.result.timeline.finish, other.result.timeline.finish)
        assert one.result.case.job.traffic.names() == other.result.case.job.traffic.names()


def test_bounds_are_the_same_in_any_number_of_processes() -> None:
    (point,) = points(*LLAMA)
    workload, bound = job(point)
    space, most = recipes(workload, 16, {"pipeline": 2}), workload.gpu.usable_memory
    alone = bound.of(space, most)
    assert np.isinf(alone.seconds).any()
    for processes in (2, 3):
        together = bound.of(space, most, processes)
        assert np.array_equal(together.seconds, alone.seconds)
        assert np.array_equal(together.memory, alone.memory)
        assert all(np.array_equal(together.parts[name], alone.parts[name]) for name in PARTS)


def test_every_recipe_keeps_the_global_batch_and_uses_every_gpu() -> None:
    (point,) = points(*LLAMA)
    space = recipes(job(point)[0], 16, {})
    replicas = space.data * space.expert * space.replicate
    assert np.all(replicas * space.micro_batch * space.microbatches == 32)
    assert np.all(replicas * space.tensor * space.context * space.pipeline == 16)


def test_a_given_key_is_not_searched() -> None:
    (point,) = points(*LLAMA, "strategy.tensor=4", "strategy.recompute=full")
    (outcome,) = search_recipes([point], ("tensor", "recompute"), Run())
    assert {(recipe.chosen["tensor"], recipe.chosen["recompute"]) for recipe in outcome.best} == {(4, "full")}


def test_nothing_beats_a_pareto_recipe_in_time_and_memory() -> None:
    outcome = searched(*LLAMA)
    front = pareto(outcome.best)
    assert outcome.best[0] in front
    for recipe in front:
        assert not any(
            other.result.iteration_time < recipe.result.iteration_time and other.memory_left > recipe.memory_left
            for other in outcome.best
        )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("model=dlrm",), "strategy"),
        (("model=llama3_8b", "strategy.tensor=3"), "strategy.tensor"),
        (("model=llama3_405b", "gpus=8"), "gpu.memory"),
        (("model=llama3_8b", "gpus=12"), "gpus"),
        (("model=llama3_8b", "strategy=fsdp"), "strategy"),
        (("model=llama3_8b", "strategy.schedule=gpipe"), "strategy.schedule"),
        (("model=llama3_8b", "strategy.schedule=zb_v", "strategy.pipeline=1"), "strategy.schedule"),
    ],
)
def test_what_cannot_be_searched_is_one_line(arguments: tuple[str, ...], field: str) -> None:
    words = ["node=hgx_h100", "gpus=16", "global_batch=32", *arguments]
    fixed = [argument.partition("=")[0].removeprefix("strategy.") for argument in arguments]
    with pytest.raises(ValueError, match=rf"^{field}\b[^\n]*$"):
        search_recipes(points(*words), fixed, Run())


def test_a_fabric_that_wires_whole_servers_is_refused_as_in_a_comparison() -> None:
    refused_points = points(*LLAMA, "fabric=torus", "degree=4")
    message = r"^fabric: must join the ports [^\n]*, which wires whole servers$"
    with pytest.raises(ValueError, match=message) as compared:
        compare(refused_points, Run())
    with pytest.raises(ValueError, match=message) as refused:
        search_recipes(refused_points, (), Run())
    assert str(refused.value) == str(compared.value)


def published() -> list[dict[str, str]]:
    """Return the published recipes of whole Llama 3 models that say all choices."""
    if not TRAINING.exists():
        return []
    with TRAINING.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] in LLAMAS]
    needed = ("tp", "pp", "cp", "micro_batch", "global_batch", "seq")
    return [row for row in rows if all(row[key].isdigit() for key in needed) and row["recompute"] in RECOMPUTE]


def chosen_by(row: dict[str, str]) -> dict[str, Any]:
    """Return the choices of a published row; FSDP is ZeRO 3."""
    axes = {"tensor": "tp", "context": "cp", "pipeline": "pp", "micro_batch": "micro_batch"}
    zero = 3 if "fsdp" in row["zero"] else int(row["zero"])
    plain = {name: int(row[key]) for name, key in axes.items()}
    divided = int(row["n_gpus"]) // plain["tensor"] // plain["pipeline"]
    return {
        **plain,
        "expert": 1,
        "virtual": int(row["vpp"]),
        "replicate": 1,
        "zero": zero if divided > 1 else 0,
        "recompute": RECOMPUTE[row["recompute"]],
    }


def contains(space: Recipes, chosen: dict[str, Any]) -> bool:
    from topoflow.strategy.memory import RECOMPUTE as KINDS

    numbers = {**chosen, "recompute": KINDS.index(chosen["recompute"])}
    return bool(np.all([getattr(space, key) == numbers[key] for key in CHOSEN], axis=0).any())


@pytest.mark.skipif(not published(), reason="needs the published rows")
def test_every_published_recipe_of_llama_3_is_in_the_space() -> None:
    for row in published():
        arguments = [f"model={LLAMAS[row['model']]}", f"workload.sequence={row['seq']}", f"gpus={row['n_gpus']}"]
        (point,) = points(*arguments, "node=hgx_h100", f"global_batch={row['global_batch']}")
        chosen = chosen_by(row)
        space = recipes(job(point)[0], int(row["n_gpus"]), {})
        assert contains(space, chosen), chosen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "recipe"),
    [  # torchtitan, benchmarks/llama3_h100_202412_torchtitan.md and asyncTP_llama3_h100_2025-06_torchtitan.md
        (("model=llama3_8b", "gpus=8", "global_batch=16"), ("zero=3", "recompute=selective_op", "micro_batch=2")),
        (
            ("model=llama3_8b", "gpus=64", "global_batch=96"),
            ("tensor=8", "zero=3", "recompute=selective_op", "micro_batch=12"),
        ),
    ],
)
def test_a_search_is_never_slower_than_the_published_recipe(
    arguments: tuple[str, ...], recipe: tuple[str, ...]
) -> None:
    job = (*arguments, "node=hgx_h100", "efficiency=measured", "workload.sequence=8192")
    strategy_arguments = [setting if setting.startswith("micro_batch") else f"strategy.{setting}" for setting in recipe]
    (result,) = compare(points(*job, *strategy_arguments), Run()).outcomes
    assert isinstance(result.strategy, ParallelGrid)
    assert searched(*job).best[0].result.iteration_time <= result.iteration_time
