"""How many recipes of a job are bounded per second, and what the whole search over them takes.

    python benchmarks/search/recipes.py [calculon=PATH] [KEY=VALUE ...]

The job is ``topoflow search model=llama3_70b gpus=512 node=hgx_h100 global_batch=1024 efficiency=measured``, with the
keys that are given. Prints ``path.metric value`` lines; what is bounded includes the memory of each recipe, and the
time of those that fit. ``calculon`` is a checkout of Calculon, whose time for one recipe of GPT-3 175B is the peer's.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import repeated, say
from peers.calculon_peer import Calculon

import topoflow
from topoflow.engine.base import Run
from topoflow.engine.observer import Silent
from topoflow.strategy.parallel import Parallel
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check
from topoflow.study.recipes import search_recipes
from topoflow.workload.transformer import Transformer

JOB = ("model=llama3_70b", "gpus=512", "node=hgx_h100", "global_batch=1024", "efficiency=measured")
GPT3 = Transformer(topoflow.gpus.h100(), layers=96, hidden=12288, heads=96, key_value_heads=96, feed_forward=49152)
RECIPE = Parallel(tensor=8, pipeline=8, virtual=3, micro_batch=1, recompute="full")
SEARCH = ("strategy=parallel", "fabric=rail_optimized")


@dataclass(frozen=True)
class Stages(Silent):
    """Notes when each stage of a search begins (s)."""

    began: dict[str, float] = field(default_factory=dict)

    def stage(self, name: str) -> None:
        self.began[name] = time.perf_counter()


def main(arguments: list[str]) -> None:
    peers = [argument.partition("=")[2] for argument in arguments if argument.startswith("calculon=")]
    keys = [argument for argument in arguments if not argument.startswith("calculon=")]
    (point,) = Grid.of([*SEARCH, *JOB, *keys], check).compose()
    for threads in (1, 2):
        stages, cpu = Stages(), time.process_time()
        (searched,) = search_recipes([point], (), Run(observer=stages, threads=threads))
        end, cpu = time.perf_counter(), time.process_time() - cpu
        path = f"recipes.threads_{threads}"
        bounding = stages.began["simulating"] - stages.began["bounding"]
        say(f"{path}.recipes", searched.recipes)
        say(f"{path}.fitting", searched.fitting)
        say(f"{path}.bounded_per_second", searched.recipes / bounding)
        say(f"{path}.simulated", searched.simulated)
        say(f"{path}.search_seconds", end - stages.began["bounding"])
        say(f"{path}.search_cpu_seconds", cpu)
    for peer in peers:
        say("recipes.calculon.bounded_per_second", 1 / repeated(partial(peer_seconds, Calculon(Path(peer)))))


def peer_seconds(calculon: Calculon) -> float:
    """Return the wall time in which Calculon predicts one recipe."""
    begin = time.perf_counter()
    calculon.iteration_time("h100", GPT3, RECIPE, 512, 1024)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(sys.argv[1:])
