"""Points of a comparison as objects: jobs, networks and worlds, each built once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from topoflow.cli.grid import Point, at, build, unique_names
from topoflow.cli.keys import LISTED, check_lost
from topoflow.cli.os_errors import named, of_group
from topoflow.engine.base import World
from topoflow.engine.lowering.placement import place
from topoflow.engine.observer import Observer
from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy, StrategyRule
from topoflow.strategy.memory import memory_per_gpu
from topoflow.study.failures import ways_on
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.workload.base import Workload

DEFAULT_SERVERS = 16  # of a job that was not captured; TopoOpt's shared cluster gives each job as many (5.6)
HOW = ("all_reduce", "routing", "rings", "seed")  # keys that say how traffic becomes a world


@dataclass(frozen=True)
class Job:
    """A job on the servers that run it. ``memory`` is what its fullest GPU needs (B), None: nobody knows."""

    workload: Workload
    strategy: Strategy
    traffic: Traffic

    @cached_property
    def memory(self) -> float | None:
        return memory_per_gpu(self.workload, self.strategy)


@dataclass(frozen=True)
class Built:
    """One point as objects."""

    point: Point
    job: Job
    fabric: Fabric
    world: World
    price: tuple[float | None, float | None]  # USD, W
    ways: tuple[tuple[Fabric, World], ...] = ()  # how else it may go on after a failure; the fastest counts


@dataclass
class Builder:
    """Builds every point; what several points have in common is made once."""

    made: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # why fabrics that nobody asked for are missing

    def build(self, points: Sequence[Point], observer: Observer) -> list[Built]:
        """All worlds of the grid; ``observer`` sees each.

        A fabric of the default sweep that cannot be built for this job is left out and noted; if none can,
        or the fabric was asked for, that is a ``ValueError``.
        """
        built = []
        for done, (point, name) in enumerate(zip(points, unique_names(points), strict=True)):
            observer.advance(done, len(points))
            with at(point):
                job = self.job(point)
                try:
                    fabric = self._fabric(point, job)
                except ValueError as error:
                    if "fabric" not in point.by_default:
                        raise
                    self.left_out.append(f"{name}: {error}")
                    continue
                built.append(self._built(point, name, *self._after_failure(point, job, fabric)))
        observer.advance(len(points), len(points))
        if not built:
            raise ValueError(self.left_out[0])
        return built

    def job(self, point: Point, fewer: int = 0) -> Job:
        """The job of a point, on so many servers ``fewer``."""
        made: Job = self._once(
            point, ("workload", "strategy", "servers"), lambda point: _job(point, fewer), f"{fewer} fewer"
        )
        return made

    def place(self, point: Point, traffic: Traffic, fabric: Fabric, name: str) -> World:
        """``traffic`` as a world on ``fabric``, in the way that the point asks for."""
        return place(traffic, fabric, name=name, **{key: point.config[key] for key in HOW})

    def _fabric(self, point: Point, job: Job) -> Fabric:
        with named(of_group(point, "fabric")):
            fabric: Fabric = self._once(
                point,
                ("workload", "strategy", "servers", "fabric"),
                lambda point: build(point, "fabric").build(job.strategy.servers, job.traffic.demand()),
            )
        return fabric

    def _after_failure(self, point: Point, job: Job, fabric: Fabric) -> tuple[Job, list[Fabric]]:
        """The job on the servers that are left, and what a fabric that was built for the whole job may go on as."""
        fail = point.config["fail"]
        if fail["each"] is not None:
            self._check_each(point, job, fabric)
        if not any(fail[key] for key in LISTED):
            return job, [fabric]
        check_lost(fail, fabric)
        lost = {key: fail[key] for key in (*LISTED, "rings")}
        return self.job(point, len(set(fail["servers"]))), ways_on(fabric, **lost)

    def _check_each(self, point: Point, job: Job, fabric: Fabric) -> None:
        """Raise ``ValueError`` where some fiber or server cannot fail, before anything is simulated."""
        if fabric.reconfiguration is not None:
            raise ValueError(f"fail.each: must be of a network that keeps its circuits, got {fabric.name}")
        if point.config["fail"]["each"] == "fiber" and fabric.links == 0:
            raise ValueError(f"fail.each: must be of a network with a fiber to lose, got {fabric.name} without links")
        if point.config["fail"]["each"] == "server":
            if job.strategy.servers == 1:
                raise ValueError("fail.each: must leave a server to go on with, got server of a job on 1 server")
            self.job(point, fewer=1)

    def _built(self, point: Point, name: str, job: Job, fabrics: Sequence[Fabric]) -> Built:
        keys = ("workload", "strategy", "servers", "fabric", "fail", *HOW)
        worlds: list[World] = self._once(
            point, keys, lambda point: [self.place(point, job.traffic, fabric, name) for fabric in fabrics]
        )
        prices = self._once(point, ("prices",), lambda point: build(point, "prices"))
        bill = fabrics[0].bill
        price = (prices.cost(bill), prices.power(bill)) if bill else (None, None)
        (fabric, world), *ways = zip(fabrics, [replace(world, name=name) for world in worlds], strict=True)
        return Built(point, job, fabric, world, price, tuple(ways))

    def _once(self, point: Point, keys: tuple[str, ...], make: Callable[[Point], Any], which: str = "") -> Any:
        key = json.dumps([which, keys, [point.config[key] for key in keys]], sort_keys=True, default=str)
        if key not in self.made:
            self.made[key] = make(point)
        return self.made[key]


def workload_of(point: Point) -> Workload:
    """The job of a point. Raises ``ValueError`` in one line that names the key."""
    build(point, "gpu")  # so that what is wrong with it is named as gpu.KEY, not as a part of the workload
    with named(of_group(point, "workload")):
        workload: Workload = build(point, "workload").build()
        return workload


def servers_of(point: Point, workload: Workload) -> int | None:
    """None: as many as a recorded job used."""
    servers: int | None = point.config["servers"]
    return DEFAULT_SERVERS if servers is None and workload.trace is None else servers


def _job(point: Point, fewer: int) -> Job:
    workload, rule = workload_of(point), build(point, "strategy")
    strategy = rule.place(workload, servers_of(point, workload))
    if fewer:
        strategy = _smaller(rule, workload, strategy.servers - fewer)
    return Job(workload, strategy, lower(workload, strategy))


def _smaller(rule: StrategyRule, workload: Workload, servers: int) -> Strategy:
    """The job on the ``servers`` that a failure leaves."""
    if workload.trace is not None:
        raise ValueError(f"fail: must leave a recorded job the servers it ran on, got {servers} that are left")
    try:
        return rule.place(workload, servers)
    except ValueError as error:
        raise ValueError(f"fail: must leave servers that the strategy can use, got {servers} ({error})") from error
