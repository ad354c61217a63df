"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from itertools import islice

from topoflow.cli.builder import Builder, Built
from topoflow.cli.failures import fail_each
from topoflow.cli.grid import Point, fidelity_of, grid, run_of
from topoflow.cli.keys import check
from topoflow.cli.output import Output, output
from topoflow.cli.stages import Terminal
from topoflow.engine.base import Run, Timeline
from topoflow.engine.simulation import simulate_each
from topoflow.report.base import Outcome, Report, Settings
from topoflow.report.failures import Failures
from topoflow.report.terminal import show
from topoflow.units import us


def run(arguments: argparse.Namespace) -> None:
    """Compose, build, simulate, print; then write, if there is an ``out``."""
    with Terminal() as terminal:
        terminal.stage("composing")
        points = grid(arguments.overrides, check, observer=terminal)
        out, run = output(points, "compare"), run_of(points, terminal)
        builder = Builder()
        terminal.stage("placing")
        built = builder.build(points, terminal)
        terminal.stage("simulating")
        ran = simulate(built, run)
        failures = fail_each([one for one, _ in ran], builder, run)
        outcomes = tuple(outcome(one, timeline, failures.get(one.world.name)) for one, timeline in ran)
        command = shlex.join(["topoflow", "compare", *arguments.overrides])
        report = Report(outcomes, command, tuple(builder.left_out))
        if out is not None:
            from topoflow.report.write import STEPS, write  # pictures and tables: a second to import

            terminal.stage("drawing")
            write(report, out, lambda done: terminal.advance(done, STEPS))
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


def simulate(built: Sequence[Built], run: Run) -> list[tuple[Built, Timeline]]:
    """Each with its timeline; what has the same fidelity runs as one batch.

    What may continue in several ways after a failure is reported as on the fastest of them.
    """
    worlds = [(one, world) for one in built for world in (one.world, *(world for _, world in one.ways))]
    timelines = iter(simulate_each([(world, fidelity_of(one.point)) for one, world in worlds], run))
    return [(one, min(islice(timelines, 1 + len(one.ways)), key=lambda timeline: timeline.makespan)) for one in built]


def outcome(one: Built, timeline: Timeline, failures: Failures | None) -> Outcome:
    """What was asked for, what that was built into, and what happened."""
    world = timeline.world
    assert world.fabric is not None  # it was placed on one
    return Outcome(
        settings(one.point, world.name),
        one.job.traffic,
        world.fabric,
        world,
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
