"""Points of a comparison as objects: jobs, networks and worlds, each built once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from topoflow.cli.grid import Point, build, unique_names
from topoflow.cli.keys import FAIL, check_lost
from topoflow.engine.base import World
from topoflow.engine.placement import place
from topoflow.fabric.base import Demand, Fabric
from topoflow.fabric.failed import without
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower

DEFAULT_SERVERS = 16  # of a job that was not captured; TopoOpt's shared cluster gives each job as many (5.6)


@dataclass(frozen=True)
class Built:
    """One point as objects."""

    point: Point
    traffic: Traffic
    fabric: Fabric
    world: World
    price: tuple[float | None, float | None]  # USD, W


@dataclass
class Builder:
    """Builds every point; what several points have in common is made once."""

    made: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # why fabrics that nobody asked for are missing

    def build(self, points: Sequence[Point], progress: Callable[[int, int], None]) -> list[Built]:
        """All worlds of the grid; ``progress(done, total)``.

        A fabric of the default sweep that cannot be built for this job is left out and noted; if none can,
        or the fabric was asked for, that is a ``ValueError``.
        """
        built = []
        for done, (point, name) in enumerate(zip(points, unique_names(points), strict=True)):
            progress(done, len(points))
            strategy, traffic = self._once(point, ("workload", "strategy", "servers"), self._traffic)
            try:
                fabric = self._fabric(point, strategy, traffic)
            except ValueError as error:
                if "fabric" not in point.by_default:
                    raise
                self.left_out.append(f"{name}: {error}")
                continue
            built.append(self._world(point, name, *self._after_failure(point, strategy, traffic, fabric)))
        progress(len(points), len(points))
        if not built:
            raise ValueError(self.left_out[0])
        return built

    def _fabric(self, point: Point, strategy: Strategy, traffic: Traffic) -> Fabric:
        fabric: Fabric = self._once(
            point,
            ("workload", "strategy", "servers", "fabric"),
            lambda point: build(point, "fabric").build(strategy.servers, Demand(*traffic.demand())),
        )
        return fabric

    def _after_failure(
        self, point: Point, strategy: Strategy, traffic: Traffic, fabric: Fabric
    ) -> tuple[Traffic, Fabric]:
        """What is left of a fabric that was built for the whole job, and the job on the servers that are left."""
        fail = point.config["fail"]
        if fail == FAIL | {"rings": fail["rings"]}:
            return traffic, fabric
        check_lost(fail, fabric)
        if fail["servers"]:
            left = strategy.servers - len(set(fail["servers"]))
            keys = ("workload", "strategy", "servers", "fail")
            _, traffic = self._once(point, keys, lambda point: self._traffic(point, left))
        return traffic, without(fabric, **fail)

    def _world(self, point: Point, name: str, traffic: Traffic, fabric: Fabric) -> Built:
        config = point.config
        how = {key: config[key] for key in ("all_reduce", "routing", "rings", "seed")}
        keys = ("workload", "strategy", "servers", "fabric", "fail", *how)
        world: World = self._once(point, keys, lambda _: place(traffic, fabric, name=name, **how))
        prices = self._once(point, ("prices",), lambda point: build(point, "prices"))
        price = (prices.cost(fabric.bill), prices.power(fabric.bill)) if fabric.bill else (None, None)
        return Built(point, traffic, fabric, replace(world, name=name), price)

    def _traffic(self, point: Point, servers: int | None = None) -> tuple[Strategy, Traffic]:
        build(point, "gpu")  # so that what is wrong with it is named as gpu.KEY, not as a part of the workload
        workload = build(point, "workload").build()
        servers = point.config["servers"] if servers is None else servers
        if servers is None and workload.trace is None:
            servers = DEFAULT_SERVERS
        strategy = build(point, "strategy").place(workload, servers)
        return strategy, lower(workload, strategy)

    def _once(self, point: Point, keys: tuple[str, ...], make: Callable[[Point], Any]) -> Any:
        key = json.dumps([keys, [point.config[key] for key in keys]], sort_keys=True, default=str)
        if key not in self.made:
            self.made[key] = make(point)
        return self.made[key]
