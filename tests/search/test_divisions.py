"""A search for how much of a model's state is divided, and among how many servers."""

from __future__ import annotations

import pytest

from topoflow.engine import fluid
from topoflow.fabric.fat_tree import FatTree
from topoflow.search.alternate import search
from topoflow.search.divisions import divisions
from topoflow.search.problem import Problem, Settings
from topoflow.search.strategies import strategy_from_json, strategy_to_json
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.fsdp import Fsdp
from topoflow.strategy.memory import memory_per_gpu
from topoflow.strategy.space import shard_choices
from topoflow.traffic.lower import lower
from topoflow.workload.gpu import Gpu
from topoflow.workload.transformer import Transformer

SIZES = {"layers": 4, "hidden": 256, "heads": 8, "key_value_heads": 8, "feed_forward": 1024, "batch_per_gpu": 2}


def problem(memory: float, rule: Fsdp) -> Problem:
    gpu = Gpu("gpu", {"bfloat16": 312e12}, 1555e9, 300e9, memory)
    workload = Transformer(gpu, vocabulary=4096, **SIZES).build()
    design = FatTree(bandwidth=12.5e9, degree=2, latency=1e-6, radix=None, oversubscription=1)
    return Problem(workload, rule.place(workload, 4), design)


def test_all_that_fits_is_tried_and_the_plan_is_no_slower_than_any() -> None:
    asked = problem(40e9, Fsdp())
    settings = Settings(decide=100)
    options = divisions(asked, settings).options
    assert len(options) == 1 + 3 * 3  # data parallel; three stages among 1, 2 or 4 servers
    found = search(asked, settings)
    placer = asked.placer(found.fabric)
    worlds = [placer.place(lower(asked.workload, option), option.name) for option in options]
    fastest = min(timeline.makespan for timeline in fluid.simulate(worlds))
    assert found.timeline.makespan == pytest.approx(fastest, rel=1e-12)
    assert found.timeline.makespan < found.start.time


def test_a_start_that_does_not_fit_is_replaced_by_one_that_does() -> None:
    workload = problem(40e9, Fsdp()).workload
    needs = [memory_per_gpu(workload, Fsdp(stage=stage).place(workload, 4)) or 0.0 for stage in (1, 2, 3)]
    assert needs == sorted(needs, reverse=True)
    assert needs[0] < (memory_per_gpu(workload, DataParallel().place(workload, 4)) or 0.0)
    tight = problem(needs[2], Fsdp(stage=1))
    start = divisions(tight, Settings()).start()
    assert start.shards is not None
    assert (start.shards.stage, start.shards.servers) == (3, 4)
    assert len(divisions(tight, Settings()).options) == 1
    with pytest.raises(ValueError, match=r"^gpu\.memory: transformer on 4 servers must fit in the 1 kB of gpu, got at"):
        shard_choices(problem(1e3, Fsdp()).workload, Fsdp().place(problem(1e3, Fsdp()).workload, 4))


def test_a_division_comes_back_from_json_and_others_have_none() -> None:
    asked = problem(40e9, Fsdp(shard_servers=2, prefetch=2))
    plain = strategy_to_json(asked.start)
    assert strategy_from_json(plain, "plan") == asked.start
    assert "shards" not in strategy_to_json(DataParallel().place(asked.workload, 4))
