"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from topoflow.cli.grid import Point, build, grid, unique_names
from topoflow.cli.output import Output
from topoflow.cli.stages import Stages
from topoflow.engine import bound, fluid, reconfigure
from topoflow.engine.base import Timeline, World
from topoflow.engine.blocks import RINGS
from topoflow.engine.checks import check_merge
from topoflow.engine.collectives import ALGORITHMS
from topoflow.engine.paths import ROUTINGS
from topoflow.engine.placement import place
from topoflow.fabric.base import Demand, Fabric
from topoflow.fabric.failed import RINGS as LOST_RINGS
from topoflow.fabric.failed import without
from topoflow.report.base import Outcome, Report, Settings
from topoflow.report.files import check_folder
from topoflow.report.terminal import show
from topoflow.report.write import STEPS, write
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.units import us

FIDELITIES = ("fluid", "bound")
DEFAULT_SERVERS = 16  # of a job that was not captured; TopoOpt's shared cluster gives each job as many (5.6)
GROUPS = ("workload", "strategy", "fabric", "gpu", "prices")
KEYS = (
    "servers",
    "bandwidth_gbps",
    "degree",
    "latency_us",
    "all_reduce",
    "routing",
    "rings",
    "fidelity",
    "fluid",
    "seed",
    "fail",
    "out",
)
FAIL = {"links": [], "fibers": [], "servers": [], "rings": "recover"}

EPILOG = """\
A comma sweeps a key; all of Hydra's override syntax works (choice(), range(), glob(), quotes). Examples:

  topoflow compare
  topoflow compare fabric=ideal_switch,fat_tree,topoopt bandwidth_gbps=25,100 out=runs/dlrm
  topoflow compare workload=bert strategy=data_parallel servers=8,16 'fabric=glob(*,exclude=links)'
  topoflow compare workload=captured workload.trace=examples/ddp_4_ranks.jsonl.gz
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "compare",
        help="which network runs a job how fast, and at what price",
        description="Simulate one training step on every combination of the keys given; without keys, a DLRM on 16 "
        "servers over several fabrics. out=DIR also writes result.json, Parquet tables, pictures and report.html.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a key of configs/compare.yaml")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Compose, build, simulate, print; then write, if there is an ``out``."""
    with Stages() as stages:
        points = grid(arguments.overrides, check, stages.stage("composing"))
        out = output(points)
        builder = Builder()
        built = builder.build(points, stages.stage("placing"))
        tick = stages.stage("simulating")
        outcomes = tuple(
            Outcome(settings(one.point, one.world.name), one.traffic, one.fabric, one.world, timeline, *one.price)
            for one, timeline in simulate(built, tick)
        )
        command = shlex.join(["topoflow", "compare", *arguments.overrides])
        report = Report(outcomes, command, tuple(builder.left_out))
        if out is not None:
            tick_draw = stages.stage("drawing")
            write(report, out, lambda done: tick_draw(done, STEPS))
    console = Output()
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no width to fit into
    show(report, console)
    if out is None:
        console.print("Add out=DIR for report.html with pictures, result.json and Parquet tables.")
    else:
        console.print(
            f"Open {out / 'report.html'}; numbers for programs are in result.json beside it.", highlight=False
        )


def simulate(built: Sequence[Built], progress: Callable[[int, int], None]) -> list[tuple[Built, Timeline]]:
    """Each with its timeline, and with what became of its circuits. ``progress(done, total)``.

    What has the same fidelity and settings runs as one batch, networks that reconfigure one by one.
    """
    batches: dict[tuple[str, float], list[int]] = {}
    ran: dict[int, tuple[Built, Timeline]] = {}
    for index, one in enumerate(built):
        fidelity = one.point.config["fidelity"]
        merge = one.point.config["fluid"]["merge"] if fidelity == "fluid" else 0.0
        if one.fabric.reconfiguration is None:
            batches.setdefault((fidelity, merge), []).append(index)
        else:
            ran[index] = _reconfigure(one, merge)
            progress(len(ran), len(built))
    for (fidelity, merge), batch in batches.items():
        tell = partial(_tell, progress, len(ran), len(built))
        worlds = [built[index].world for index in batch]
        if fidelity == "bound":
            found = bound.simulate(worlds, progress=tell)
        else:
            found = fluid.simulate(worlds, progress=tell, merge=merge)
        ran |= {index: (built[index], timeline) for index, timeline in zip(batch, found, strict=True)}
    return [ran[index] for index in range(len(built))]


def _reconfigure(one: Built, merge: float) -> tuple[Built, Timeline]:
    config = one.point.config
    if config["fidelity"] != "fluid":
        raise ValueError(
            f"fidelity: must be fluid on {one.fabric.name}, whose circuits change, got {config['fidelity']}"
        )
    ran = reconfigure.simulate(one.world, one.fabric, seed=config["seed"], routing=config["routing"], merge=merge)
    return replace(one, world=ran.world, fabric=ran.fabric), ran.timeline


def _tell(progress: Callable[[int, int], None], earlier: int, total: int, done: int) -> None:
    """Progress of one batch as progress of all."""
    progress(earlier + done, total)


def check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a key or a value that ``configs/compare.yaml`` does not have, before it is used."""
    unknown = sorted(set(config) - set(GROUPS) - set(KEYS))
    if unknown:
        raise ValueError(f"{unknown[0]}: no such key; must be one of {', '.join((*GROUPS, *KEYS))}")
    missing = [key for key in (*GROUPS, *KEYS) if key not in config]
    if missing:
        raise ValueError(f"{missing[0]}: must be given")
    check_job(config)
    _check_merge(config["fluid"])
    _check_fail(config["fail"])
    for key, allowed in {"rings": RINGS, "fidelity": FIDELITIES}.items():
        check_among(key, config[key], allowed)


def check_job(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a value of a key that every verb with a job on a network has."""
    _whole("servers", config["servers"], least=1, optional=True)
    _whole("degree", config["degree"], least=1)
    _whole("seed", config["seed"], least=0)
    for key in ("bandwidth_gbps", "latency_us"):
        value = config[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        law = "not be negative" if key == "latency_us" else "be positive"
        if not number or not value < float("inf") or not (value >= 0 if key == "latency_us" else value > 0):
            raise ValueError(f"{key}: must {law}, got {value!r}")
    check_among("all_reduce", config["all_reduce"], ALGORITHMS["all_reduce"])
    check_among("routing", config["routing"], ROUTINGS)


def check_among(key: str, value: object, allowed: Sequence[str]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of those ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{key}: must be one of {', '.join(allowed)}, got {value!r}")


def _check_merge(settings: object) -> None:
    if not isinstance(settings, Mapping) or set(settings) != {"merge"}:
        raise ValueError(f"fluid: must be a mapping with the key merge, got {settings}")
    check_merge("fluid.merge", settings["merge"])


def _check_fail(fail: object) -> None:
    if not isinstance(fail, Mapping) or set(fail) != set(FAIL):
        raise ValueError(f"fail: must be a mapping with the keys {', '.join(FAIL)}, got {fail}")
    for key in ("links", "fibers", "servers"):
        numbers = fail[key]
        listed = isinstance(numbers, Sequence) and not isinstance(numbers, str)
        if not listed or any(not isinstance(each, int) or isinstance(each, bool) for each in numbers):
            raise ValueError(f"fail.{key}: must be a list of whole numbers, got {numbers!r}")
    check_among("fail.rings", fail["rings"], LOST_RINGS)


def _check_lost(fail: Mapping[str, Any], fabric: Fabric) -> None:
    """Raise ``ValueError`` where what fails is not there, or nothing is left."""
    for key, count in (("servers", fabric.servers), ("links", fabric.links), ("fibers", fabric.links)):
        for each in fail[key]:
            if not 0 <= each < count:
                raise ValueError(f"fail.{key}: must be within 0..{count - 1}, got {each}")
    if len(set(fail["servers"])) == fabric.servers:
        raise ValueError(f"fail.servers: must leave at least one of {fabric.servers} servers, got {fail['servers']}")


def _whole(key: str, value: object, *, least: int, optional: bool = False) -> None:
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{key}: must be a whole number of at least {least}, got {value!r}")


def output(points: Sequence[Point]) -> Path | None:
    """The one folder to write to. Raises ``ValueError`` when there are several or it cannot be one."""
    outs = {str(point.config["out"]): point.config["out"] for point in points}
    if len(outs) > 1:
        raise ValueError(f"out: must be one folder for the whole comparison, got {', '.join(sorted(outs))}")
    ((name, out),) = outs.items()
    if out is None:
        return None
    if not name or isinstance(out, list | dict):
        raise ValueError(f"out: must be the name of a folder, got {out!r}")
    check_folder(Path(name))
    return Path(name)


def settings(point: Point, world: str) -> Settings:
    """What was asked for, as a report tells it."""
    return Settings(
        world=world,
        workload=point.choices["workload"],
        strategy=point.choices["strategy"],
        fabric=point.choices["fabric"],
        prices=point.choices["prices"],
        latency=us(point.config["latency_us"]),
        all_reduce=point.config["all_reduce"],
        routing=point.config["routing"],
        rings=point.config["rings"],
        fidelity=point.config["fidelity"],
        seed=point.config["seed"],
        swept=point.swept,
        config=point.config,
    )


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
        _check_lost(fail, fabric)
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
