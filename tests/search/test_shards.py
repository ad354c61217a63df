"""A search for how much of a model's state is divided, and among how many servers."""

from __future__ import annotations

import pytest

from topoflow.engine.fluid import Fluid
from topoflow.fabric.fat_tree import FatTree
from topoflow.search.alternate import search
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.space import space
from topoflow.strategy.fsdp import Fsdp
from topoflow.strategy.plain import strategy_from_json
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.transformer import Transformer

SIZES = {"layers": 4, "hidden": 256, "heads": 8, "key_value_heads": 8, "feed_forward": 1024, "batch_per_gpu": 2}


def job(memory: float) -> LayerGraph:
    gpu = Gpu("gpu", {"bfloat16": 312e12}, 1555e9, 300e9, memory)
    return Transformer(gpu, vocabulary=4096, **SIZES).build()


def problem(memory: float, rule: Fsdp) -> Problem:
    design = FatTree(bandwidth=12.5e9, degree=2, latency=1e-6, radix=None, oversubscription=1)
    return Problem(job(memory), rule.place(job(memory), 4), design)


def test_a_search_finds_the_fastest_of_all_that_fit() -> None:
    instance = problem(40e9, Fsdp())
    options = instance.start.alternatives(instance.workload)
    assert len(options) == 1 + 3 * 3  # nothing divided; three stages among 1, 2 or 4 servers
    result = search(instance, SearchSettings(decide=100))
    placer = instance.placer(result.fabric)
    worlds = [placer.place(lower(instance.workload, option), option.name) for option in options]
    fastest = min(timeline.makespan for timeline in Fluid().simulate(worlds))
    assert result.timeline.makespan == pytest.approx(fastest, rel=1e-12)
    assert result.timeline.makespan < result.start.iteration_time


def test_a_start_that_does_not_fit_is_replaced_by_one_that_does() -> None:
    workload = job(40e9)
    needs = [Fsdp(stage=stage).place(workload, 4).memory_per_gpu(workload) or 0.0 for stage in (0, 1, 2, 3)]
    assert needs == sorted(needs, reverse=True)
    tight = problem(needs[3] / 0.8, Fsdp(stage=1))
    assert space(tight, SearchSettings()).start() == Fsdp(stage=3).place(workload, 4)
    with pytest.raises(
        ValueError, match=r"^gpu\.memory: transformer on 4 servers must fit in the 800 B \(80% of 1 kB\) of gpu, got at"
    ):
        space(problem(1e3, Fsdp()), SearchSettings())


def test_shards_come_back_from_json() -> None:
    strategy = Fsdp(group=2, prefetch=2).place(job(40e9), 4)
    assert strategy_from_json(strategy.to_json(), "plan") == strategy
