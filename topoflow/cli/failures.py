"""``fail.each``: every fiber or server fails by itself, and a comparison tells how much slower the job is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from topoflow.cli.builder import Builder, Built
from topoflow.cli.grid import fidelity_of
from topoflow.engine.base import Run, World
from topoflow.fabric.base import Fabric
from topoflow.report.failures import Failures, Slowdowns
from topoflow.study.failures import fail_fibers, fail_servers
from topoflow.traffic.base import Traffic


def fail_each(built: Sequence[Built], builder: Builder, run: Run) -> dict[str, Failures]:
    """What failures do to every world that asks for them, by its name."""
    asked = [one for one in built if one.point.config["fail"]["each"] is not None]
    return {one.world.name: _fail(one, builder, run) for one in asked}


def _fail(one: Built, builder: Builder, run: Run) -> Failures:
    fail, fabric, traffic = one.point.config["fail"], one.fabric, one.job.traffic
    run.observer.stage(f"{fabric.name} failing")
    place, how = partial(_place, one, builder), {"rings": fail["rings"], "run": run}
    fidelity = fidelity_of(one.point)
    if fail["each"] == "fiber":
        return _of_fibers(fabric, fail_fibers(traffic, fabric, place, fidelity, **how))
    found = fail_servers(traffic, builder.job(one.point, fewer=1).traffic, fabric, place, fidelity, **how)
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
