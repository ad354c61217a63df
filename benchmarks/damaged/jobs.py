"""Readers of jobs: models, recipes, layouts, schedules, jobs of a cluster, requests, placements and worlds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from damaged.reader import ROOT, Files, Reader, content

HEADER = "name,arrival_s,lifetime_s,machines,cores,memory_gib,network_gbps,gpus"


def _use_model(paths: list[Path]) -> None:
    from topoflow.study.configure.model_file import model_keys

    model_keys(paths[0])


def _use_recipe(paths: list[Path]) -> None:
    from topoflow.study.configure.recipe import recipe_keys

    recipe_keys(paths[0], {"servers": "32"})


def _use_layout(paths: list[Path]) -> None:
    from topoflow.study.configure.job_layout import job_layout

    layout = job_layout(str(paths[0])).of(64)
    if layout.world_size <= 2**16:
        layout.spanned(range(min(layout.world_size, 64)))


def _use_schedule(paths: list[Path]) -> None:
    from topoflow.strategy.schedules.csv_file import read_schedule

    read_schedule(str(paths[0])).order  # noqa: B018


def _use_jobs(paths: list[Path]) -> None:
    from topoflow.scheduling.jobs_file import read_jobs

    jobs, *placements = sorted(paths, key=lambda path: path.suffix, reverse=True)
    read_jobs(jobs, 32, 8, *map(str, placements))


def _use_requests(paths: list[Path]) -> None:
    from topoflow.scheduling.request_file import RequestFile

    columns = {name.partition("_")[0]: name for name in HEADER.split(",")}
    RequestFile(str(paths[0]), columns, {"memory": 2**30, "network": 1e9 / 8}).build(0)


def _use_placement(paths: list[Path]) -> None:
    from topoflow.scheduling.placement_file import read_placement

    read_placement(str(paths[0]), "job 1")


def _use_world(paths: list[Path]) -> None:
    from topoflow.engine.bound import Bound
    from topoflow.engine.fluid import Fluid
    from topoflow.worldfile.world_file import read

    file = read(paths[0])
    for fidelity in (Bound(), Fluid()):
        (timeline,) = fidelity.simulate([file.world])
        file.flows(timeline)
        file.loads(timeline)


def _model(scratch: Path) -> Iterator[Files]:
    from tests.study.test_model_file import DEEPSEEK, LLAMA3, QWEN3

    for model in (LLAMA3, DEEPSEEK, QWEN3):
        yield {"config.json": json.dumps(model).encode()}


def _megatron(scratch: Path) -> Iterator[Files]:
    from tests.study.test_recipe import DEEPSEEK, GPT, LLAMA

    for text in (GPT, LLAMA, DEEPSEEK):
        yield {"train.sh": text.replace(" --", " \\\n--").encode()}


def _torchtitan(scratch: Path) -> Iterator[Files]:
    from tests.study.test_recipe import TITAN

    yield {"train.toml": TITAN.encode()}


def _schedule(scratch: Path) -> Iterator[Files]:
    from tests.strategy.test_schedules import GOOD, table_of

    yield {"s.csv": GOOD.encode()}
    for name, stages in (("dualpipe_v", 8), ("zb_v", 8), ("one_f_one_b", 4)):
        rows = table_of(name, 4, stages, 8).rows
        yield {"s.csv": "\n".join(",".join(map(str, row)) for row in rows).encode()}


def _jobs(scratch: Path) -> Iterator[Files]:
    from tests.study.test_shared_jobs import job

    jobs = {"a": job("0-15"), "b": job("16-20,21-30", **{"workload.layers": "4"})}
    yield {"jobs.yaml": json.dumps(jobs).encode()}
    lines = [
        f"{name}:\n" + "".join(f"  {key}: {value}\n" for key, value in keys.items()) for name, keys in jobs.items()
    ]
    yield {"jobs.yaml": "".join(lines).encode()}
    requested: dict[str, Any] = {"a": {**job("0-15"), "request": "job 1"}}
    del requested["a"]["placement"]
    yield {"jobs.yaml": json.dumps(requested).encode(), **next(_placement(scratch))}


def _requests(scratch: Path) -> Iterator[Files]:
    yield content(ROOT / "examples" / "requests.csv")
    yield {"requests.csv": f"{HEADER}\njob 1,0,3600,48,32,64,20,0\njob 2,1.5,,1,8,,,4\n".encode()}


def _placement(scratch: Path) -> Iterator[Files]:
    rows = [{"request": f"job {number}", "servers": [number, 3], "cluster_servers": 4} for number in (1, 2)]
    yield {"placements.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows).encode()}


def _world(scratch: Path) -> Iterator[Files]:
    from tests.engine.test_world_file_errors import WORLD

    yield {"world.json": json.dumps(WORLD).encode()}
    yield content(ROOT / "examples" / "two_flows.json")


JOBS = {
    "model": Reader(_use_model, _model),
    "megatron_recipe": Reader(_use_recipe, _megatron),
    "torchtitan_recipe": Reader(_use_recipe, _torchtitan),
    "megatron_layout": Reader(_use_layout, _megatron),
    "torchtitan_layout": Reader(_use_layout, _torchtitan),
    "schedule": Reader(_use_schedule, _schedule),
    "jobs": Reader(_use_jobs, _jobs),
    "requests": Reader(_use_requests, _requests),
    "placements": Reader(_use_placement, _placement),
    "world": Reader(_use_world, _world),
}
