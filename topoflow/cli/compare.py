"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from topoflow.cli.builder import Builder, Built
from topoflow.cli.failures import fail_each
from topoflow.cli.grid import Point, grid
from topoflow.cli.keys import check
from topoflow.cli.output import Output
from topoflow.cli.stages import Stages
from topoflow.engine import bound, fluid
from topoflow.engine.base import Timeline
from topoflow.engine.dynamic import reconfigure
from topoflow.report.base import Outcome, Report, Settings
from topoflow.report.failures import Failures
from topoflow.report.files import check_folder
from topoflow.report.terminal import show
from topoflow.units import us


def run(arguments: argparse.Namespace) -> None:
    """Compose, build, simulate, print; then write, if there is an ``out``."""
    with Stages() as stages:
        points = grid(arguments.overrides, check, stages.stage("composing"))
        out = output(points, "compare")
        builder = Builder()
        built = builder.build(points, stages.stage("placing"))
        ran = simulate(built, stages.stage("simulating"))
        failures = fail_each([one for one, _ in ran], builder, stages)
        outcomes = tuple(outcome(one, timeline, failures.get(one.world.name)) for one, timeline in ran)
        command = shlex.join(["topoflow", "compare", *arguments.overrides])
        report = Report(outcomes, command, tuple(builder.left_out))
        if out is not None:
            from topoflow.report.write import STEPS, write  # pictures and tables: a second to import

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

    What may go on in several ways after a failure is told as on the fastest of them.
    """
    ways = [replace(one, fabric=fabric, world=world) for one in built for fabric, world in one.ways]
    others = iter(range(len(built), len(built) + len(ways)))
    ran = _run_all([*built, *ways], progress)
    return [
        min([ran[number], *(ran[next(others)] for _ in one.ways)], key=lambda each: each[1].makespan)
        for number, one in enumerate(built)
    ]


def _run_all(built: Sequence[Built], progress: Callable[[int, int], None]) -> list[tuple[Built, Timeline]]:
    """What has the same fidelity and settings runs as one batch, networks that reconfigure one by one."""
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


def output(points: Sequence[Point], verb: str) -> Path | None:
    """The one folder for ``verb`` to write to. Raises ``ValueError`` when there are several or it cannot be one."""
    outs = {str(point.config["out"]): point.config["out"] for point in points}
    if len(outs) > 1:
        raise ValueError(f"out: must be one folder for the whole comparison, got {', '.join(sorted(outs))}")
    ((name, out),) = outs.items()
    if out is None:
        return None
    if not name or isinstance(out, list | dict):
        raise ValueError(f"out: must be the name of a folder, got {out!r}")
    check_folder(Path(name), verb)
    return Path(name)


def outcome(one: Built, timeline: Timeline, failures: Failures | None) -> Outcome:
    """What was asked for, what that was built into, and what happened."""
    return Outcome(
        settings(one.point, one.world.name),
        one.job.traffic,
        one.fabric,
        one.world,
        timeline,
        *one.price,
        memory=one.job.memory,
        gpu_memory=one.job.workload.gpu.memory,
        failures=failures,
    )


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
