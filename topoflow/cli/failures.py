"""``fail.each``: every fiber or server fails by itself, and a comparison reports how much slower the job is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from topoflow.case.base import Result
from topoflow.case.failures import Failures, Slowdowns
from topoflow.cli.stages import Stages
from topoflow.engine.base import World
from topoflow.fabric.base import Fabric
from topoflow.study.builder import Asked, Builder
from topoflow.study.configure.grid import Point
from topoflow.study.failures import fail_fibers, fail_servers
from topoflow.traffic.base import Traffic

Progress = Callable[[int, int], None]


def fail_each(asked: Sequence[Asked], results: Sequence[Result], builder: Builder, stages: Stages) -> list[Result]:
    """The results, those of points that ask for it with what failures do."""
    return [
        result
        if each.point.config["fail"]["each"] is None
        else replace(result, failures=_fail(each.point, result, builder, stages.stage(f"{result.fabric.name} failing")))
        for each, result in zip(asked, results, strict=True)
    ]


def _fail(point: Point, result: Result, builder: Builder, progress: Progress) -> Failures:
    config, fabric = point.config, result.fabric
    settings = {"rings": config["fail"]["rings"], "merge": config["fluid"]["merge"], "progress": progress}
    place = partial(_place, result)
    if config["fail"]["each"] == "fiber":
        found = fail_fibers(result.traffic, fabric, place, **settings)
        return _of_fibers(fabric, found)
    found = fail_servers(result.traffic, builder.job(point, fewer=1).traffic, fabric, place, **settings)
    names = fabric.nodes[: fabric.servers]
    return Failures("server", tuple(names), np.ones(len(names), np.int64), found)


def _of_fibers(fabric: Fabric, found: Slowdowns) -> Failures:
    """A link is as many fibers as interfaces of a server have its bandwidth together, at least one."""
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    names = tuple(f"{fabric.nodes[source]} to {fabric.nodes[target]}" for source, target in ends)
    count = np.maximum(1, np.rint(fabric.bandwidth / fabric.interface_bandwidth)).astype(np.int64)
    return Failures("fiber", names, count, found)


def _place(result: Result, traffic: Traffic, fabric: Fabric) -> World:
    return result.case.lowering.place(traffic, fabric, result.settings.world)
