"""A comparison: the points of a grid become cases, these are simulated as one batch, and that is a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

import numpy as np

from topoflow.case.base import Result
from topoflow.case.failures import Failures, Slowdowns
from topoflow.engine.base import Run, Unfinished, World
from topoflow.engine.lowering.placement import Placer
from topoflow.engine.observer import Silent
from topoflow.engine.simulation import simulate_each
from topoflow.fabric.attached import network_links
from topoflow.fabric.base import Fabric
from topoflow.memory import no_garbage_collection
from topoflow.report.base import Report
from topoflow.study.builder import Builder, PointCases
from topoflow.study.configure.keys import each_of
from topoflow.study.configure.point import Point, at_point
from topoflow.study.failures import fail_fibers, fail_servers
from topoflow.traffic.base import Traffic
from topoflow.units import counted


def compare(points: Sequence[Point], run: Run, command: str = "") -> Report:
    """Compare all points, in their order. ``command`` is the command line that asks for it.

    Raises ``ValueError`` in one line, that names the point, for what cannot be built or simulated. A world that comes
    to no end is left out, unless none comes to one.
    """
    outcomes, left_out = _compare(joined(points), run)
    results = tuple(outcome for outcome in outcomes if isinstance(outcome, Result))
    unfinished = tuple(str(outcome) for outcome in outcomes if isinstance(outcome, ValueError))
    if not results:
        raise Unfinished("; ".join(unfinished))
    return Report(results, command, left_out + unfinished, unfinished)


def compare_each(points: Sequence[Point], commands: Sequence[str], run: Run) -> list[Report | ValueError]:
    """Return the report of each point alone, simulated as one batch, or the error of a point in its place.

    ``commands``: the line of each. Where a point is wrong there is no batch: they are compared one after the other.
    """
    try:
        outcomes, _ = _compare(points, run)
    except ValueError as error:
        if len(points) == 1:
            return [error]
        alone = (compare_each([point], [command], run) for point, command in zip(points, commands, strict=True))
        return list(chain.from_iterable(alone))
    return [
        Report((outcome,), command) if isinstance(outcome, Result) else outcome
        for outcome, command in zip(outcomes, commands, strict=True)
    ]


@no_garbage_collection()
def _compare(points: Sequence[Point], run: Run) -> tuple[list[Result | ValueError], tuple[str, ...]]:
    """Return the results of the points, or why there is none, and why points of the default sweep are left out."""
    builder = Builder()
    run.observer.stage("placing")
    run.observer.size(counted(len(points), "point"))
    built_points = builder.build(points, run.observer)
    run.observer.stage("simulating")
    run.observer.size(_size([case.world for built in built_points for case in built.cases]))
    outcomes = [
        _with_failures(built, result, builder, run) if isinstance(result, Result) else result
        for built, result in zip(built_points, _simulated(built_points, run), strict=True)
    ]
    return outcomes, tuple(builder.left_out)


def _size(worlds: Sequence[World]) -> str:
    """Return how large the simulation of these worlds is."""
    tasks = max(world.graph.tasks for world in worlds)
    links = max(len(world.capacity) for world in worlds)
    return f"{counted(len(worlds), 'world')} of up to {counted(tasks, 'task')} on {counted(links, 'link')}"


def _simulated(built_points: Sequence[PointCases], run: Run) -> Sequence[Result | ValueError]:
    """Return the results. Where a world comes to no end, the points are simulated one by one."""
    try:
        return simulate(built_points, run)
    except Unfinished:
        return [*simulate_alone(built_points, run)]


def simulate_alone(built_points: Iterable[PointCases], run: Run) -> Iterator[Result | ValueError]:
    """Yield the result of every point, each simulated by itself, or its error."""
    silent = replace(run, observer=Silent())
    for built in built_points:
        try:
            with at_point(built.point):
                (result,) = simulate([built], silent)
        except ValueError as error:
            yield error
        else:
            yield result


def joined(points: Sequence[Point]) -> list[Point]:
    """Points that differ in ``fail.each`` alone are one: they are the same world before anything fails."""
    if "fail.each" not in points[0].swept:
        return list(points)
    groups: dict[str, list[Point]] = {}
    for point in points:
        others = sorted(item for item in point.swept.items() if item[0] != "fail.each")
        groups.setdefault(json.dumps(others), []).append(point)
    return [_joined(group) for group in groups.values()]


def _joined(group: Sequence[Point]) -> Point:
    kinds = dict.fromkeys(chain.from_iterable(each_of(point.config["fail"]) for point in group))
    first = group[0]
    swept = {key: value for key, value in first.swept.items() if key != "fail.each"}
    return replace(first, swept=swept, config={**first.config, "fail": {**first.config["fail"], "each": list(kinds)}})


def simulate(built_points: Sequence[PointCases], run: Run) -> list[Result]:
    """Return the result of every point. Points of the same fidelity run as one batch.

    Where several networks may be left after a failure, the result is that of the fastest.
    """
    cases = [case for built in built_points for case in built.cases]
    timelines = simulate_each([(case.world, built.fidelity) for built in built_points for case in built.cases], run)
    results = map(Result, cases, timelines)
    return [min(islice(results, len(built.cases)), key=lambda result: result.iteration_time) for built in built_points]


def _with_failures(built: PointCases, result: Result, builder: Builder, run: Run) -> Result:
    """Add to ``result`` how much slower the job is if each fiber or server fails, where its point asks for it."""
    kinds = each_of(built.point.config["fail"])
    if not kinds:
        return result
    run.observer.stage(f"{result.fabric.name} failing")
    run.observer.size(f"{counted(result.fabric.links, 'link')}, {counted(result.fabric.servers, 'server')}")
    return replace(result, failures=tuple(_failures(kind, built, result, builder, run) for kind in kinds))


def _failures(kind: str, built: PointCases, result: Result, builder: Builder, run: Run) -> Failures:
    """Let every part of a ``kind`` (fiber or server) fail by itself."""
    fail, fabric = built.point.config["fail"], result.fabric
    place, fidelity = partial(_place, result), built.fidelity
    if kind == "fiber":
        links = network_links(fabric)
        slowdowns = fail_fibers(result.traffic, fabric, place, fidelity, links=links, rings=fail["rings"], run=run)
        return _of_fibers(fabric, links, slowdowns)
    smaller = builder.job(built.point, fewer=1).traffic
    slowdowns = fail_servers(result.traffic, smaller, fabric, place, fidelity, rings=fail["rings"], run=run)
    names = fabric.nodes[: fabric.servers]
    return Failures("server", tuple(names), np.ones(len(names), np.int64), slowdowns)


def _of_fibers(fabric: Fabric, links: range, slowdowns: Slowdowns) -> Failures:
    """Count a link as as many fibers as interfaces of a server have its bandwidth together, at least one."""
    names = tuple(map(fabric.link_name, links))
    count = np.maximum(1, np.rint(fabric.bandwidth[links] / fabric.interface_bandwidth)).astype(np.int64)
    return Failures("fiber", names, count, slowdowns, links.start)


def _place(result: Result, traffic: Traffic, fabric: Fabric) -> World:
    return Placer(fabric, result.case.lowering).place(traffic, result.settings.world)
