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
from topoflow.study.configure.build import fidelity_of
from topoflow.study.configure.keys import each_of
from topoflow.study.configure.point import Point, at_point
from topoflow.study.failures import fail_fibers, fail_servers
from topoflow.traffic.base import Traffic
from topoflow.units import counted


def compare(points: Sequence[Point], run: Run, command: str = "") -> Report:
    """The results of all points, in their order. ``command`` is what asked for them.

    Raises ``ValueError`` in one line, that names the point, for what cannot be built or simulated. A world that comes
    to no end is left out, unless none comes to one.
    """
    found, left_out = _compare(joined(points), run)
    results = tuple(each for each in found if isinstance(each, Result))
    unfinished = tuple(str(each) for each in found if isinstance(each, ValueError))
    if not results:
        raise Unfinished("; ".join(unfinished))
    return Report(results, command, left_out + unfinished, unfinished)


def compare_each(points: Sequence[Point], commands: Sequence[str], run: Run) -> list[Report | ValueError]:
    """Return the report of each point alone, simulated as one batch, or the error of a point in its place.

    ``commands``: what asked for each. Where a point is wrong there is no batch: they are compared one after the other.
    """
    try:
        found, _ = _compare(points, run)
    except ValueError as error:
        if len(points) == 1:
            return [error]
        alone = (compare_each([point], [command], run) for point, command in zip(points, commands, strict=True))
        return list(chain.from_iterable(alone))
    return [
        Report((each,), command) if isinstance(each, Result) else each
        for each, command in zip(found, commands, strict=True)
    ]


@no_garbage_collection()
def _compare(points: Sequence[Point], run: Run) -> tuple[list[Result | ValueError], tuple[str, ...]]:
    """The results of the points, or why there is none, and what of the default sweep was left out."""
    builder = Builder()
    run.observer.stage("placing")
    run.observer.size(counted(len(points), "point"))
    asked = builder.build(points, run.observer)
    run.observer.stage("simulating")
    run.observer.size(_size([case.world for each in asked for case in each.cases]))
    found = [
        _with_failures(each.point, result, builder, run) if isinstance(result, Result) else result
        for each, result in zip(asked, _simulated(asked, run), strict=True)
    ]
    return found, tuple(builder.left_out)


def _size(worlds: Sequence[World]) -> str:
    """Return how large the simulation of these worlds is."""
    tasks = max(world.graph.tasks for world in worlds)
    links = max(len(world.capacity) for world in worlds)
    return f"{counted(len(worlds), 'world')} of up to {counted(tasks, 'task')} on {counted(links, 'link')}"


def _simulated(asked: Sequence[PointCases], run: Run) -> Sequence[Result | ValueError]:
    """The results; where a world comes to no end, which ones do is found one by one."""
    try:
        return simulate(asked, run)
    except Unfinished:
        return [*simulate_alone(asked, run)]


def simulate_alone(asked: Iterable[PointCases], run: Run) -> Iterator[Result | ValueError]:
    """The result of every point, each simulated by itself, or what is wrong with it."""
    silent = replace(run, observer=Silent())
    for each in asked:
        try:
            with at_point(each.point):
                (result,) = simulate([each], silent)
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
    each = dict.fromkeys(chain.from_iterable(each_of(point.config["fail"]) for point in group))
    first = group[0]
    swept = {key: value for key, value in first.swept.items() if key != "fail.each"}
    return replace(first, swept=swept, config={**first.config, "fail": {**first.config["fail"], "each": list(each)}})


def simulate(asked: Sequence[PointCases], run: Run) -> list[Result]:
    """The result of every point; what has the same fidelity runs as one batch.

    Where several networks may be left after a failure, the result is that of the fastest.
    """
    cases = [(each.point, case) for each in asked for case in each.cases]
    timelines = simulate_each([(case.world, fidelity_of(point)) for point, case in cases], run)
    results = (Result(case, timeline) for (_, case), timeline in zip(cases, timelines, strict=True))
    return [min(islice(results, len(each.cases)), key=lambda result: result.iteration_time) for each in asked]


def _with_failures(point: Point, result: Result, builder: Builder, run: Run) -> Result:
    """``result``; where its point asks for it, with how much slower the job is if each fiber or server fails."""
    each = each_of(point.config["fail"])
    if not each:
        return result
    run.observer.stage(f"{result.fabric.name} failing")
    run.observer.size(f"{counted(result.fabric.links, 'link')}, {counted(result.fabric.servers, 'server')}")
    return replace(result, failures=tuple(_failures(what, point, result, builder, run) for what in each))


def _failures(what: str, point: Point, result: Result, builder: Builder, run: Run) -> Failures:
    """Every fiber or server, whichever is ``what``, fails by itself."""
    fail, fabric = point.config["fail"], result.fabric
    place, fidelity = partial(_place, result), fidelity_of(point)
    if what == "fiber":
        links = network_links(fabric)
        found = fail_fibers(result.traffic, fabric, place, fidelity, links=links, rings=fail["rings"], run=run)
        return _of_fibers(fabric, links, found)
    smaller = builder.job(point, fewer=1).traffic
    found = fail_servers(result.traffic, smaller, fabric, place, fidelity, rings=fail["rings"], run=run)
    names = fabric.nodes[: fabric.servers]
    return Failures("server", tuple(names), np.ones(len(names), np.int64), found)


def _of_fibers(fabric: Fabric, links: range, found: Slowdowns) -> Failures:
    """A link is as many fibers as interfaces of a server have its bandwidth together, at least one."""
    names = tuple(map(fabric.link_name, links))
    count = np.maximum(1, np.rint(fabric.bandwidth[links] / fabric.interface_bandwidth)).astype(np.int64)
    return Failures("fiber", names, count, found, links.start)


def _place(result: Result, traffic: Traffic, fabric: Fabric) -> World:
    return Placer(fabric, result.case.lowering).place(traffic, result.settings.world)
