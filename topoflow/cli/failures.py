"""``fail.each``: every fiber or server fails by itself, and a comparison tells how much slower the job is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from topoflow.cli.builder import Builder, Built
from topoflow.cli.stages import Stages
from topoflow.engine.base import World
from topoflow.fabric.base import Fabric
from topoflow.report.failures import Failures, Slowdowns
from topoflow.study.failures import fail_fibers, fail_servers
from topoflow.traffic.base import Traffic

Progress = Callable[[int, int], None]


def fail_each(built: Sequence[Built], builder: Builder, stages: Stages) -> dict[str, Failures]:
    """What failures do to every world that asks for them, by its name."""
    asked = [one for one in built if one.point.config["fail"]["each"] is not None]
    return {one.world.name: _fail(one, builder, stages.stage(f"{one.fabric.name} failing")) for one in asked}


def _fail(one: Built, builder: Builder, progress: Progress) -> Failures:
    config, fabric = one.point.config, one.fabric
    settings = {"rings": config["fail"]["rings"], "merge": config["fluid"]["merge"], "progress": progress}
    place = partial(_place, one, builder)
    if config["fail"]["each"] == "fiber":
        found = fail_fibers(one.job.traffic, fabric, place, **settings)
        return _of_fibers(fabric, found)
    found = fail_servers(one.job.traffic, builder.job(one.point, fewer=1).traffic, fabric, place, **settings)
    names = fabric.nodes[: fabric.servers]
    return Failures("server", tuple(names), np.ones(len(names), np.int64), found)


def _of_fibers(fabric: Fabric, found: Slowdowns) -> Failures:
    """A link is as many fibers as interfaces of a server have its bandwidth together, at least one."""
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    names = tuple(f"{fabric.nodes[source]} to {fabric.nodes[target]}" for source, target in ends)
    count = np.maximum(1, np.rint(fabric.bandwidth / fabric.interface_bandwidth)).astype(np.int64)
    return Failures("fiber", names, count, found)


def _place(one: Built, builder: Builder, traffic: Traffic, fabric: Fabric) -> World:
    return builder.place(one.point, traffic, fabric, one.world.name)
