"""``topoflow emulate``: a plan as a network of this machine, with a real job inside, next to what is predicted."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.table import Table

from topoflow.api.functions import compare
from topoflow.api.worlds import Simulated, named
from topoflow.apply.orders import read_plan
from topoflow.cli.stages import Terminal
from topoflow.emulate.base import Emulated, EmulatedJob, emulate, emulate_script, world_of
from topoflow.emulate.sandbox import why_not
from topoflow.emulate.scenario import Scenario
from topoflow.engine.base import Timeline
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric
from topoflow.report.output import Output
from topoflow.units import counted, human

MEGA = 1e6
MIN_MBPS, MAX_MBPS = 1e-3, 1e6


def run(arguments: argparse.Namespace) -> None:
    """Predict, emulate, write, print."""
    if (refusal := why_not()) is not None:
        raise ValueError(refusal)
    scenario, plan = scenario_of(arguments), Path(arguments.plan).resolve()
    fabric = scenario.fabric()
    predicted: Timeline | None
    if arguments.job is None:
        job = job_of(arguments, fabric.servers)
        (predicted,) = simulate([world_of(fabric, job)], Fluid())
        with _folder(arguments.out) as folder, _terminal("built-in job", arguments.mbps, fabric, predicted) as terminal:
            emulated = emulate(fabric, job, scenario.orders, folder, observer=terminal)
    else:
        script = _script(arguments.job)
        predicted = None if arguments.trace is None else _of_trace(arguments.trace, fabric)
        with _folder(arguments.out) as folder, _terminal(script[0], arguments.mbps, fabric, predicted) as terminal:
            emulated = emulate_script(fabric, script, None if scenario.own_order else plan, folder, terminal)
    if arguments.out is not None:
        Simulated(named(emulated.timeline.world), emulated.timeline).save(arguments.out)
    Output().print(_table(fabric, emulated, predicted))


def _script(words: str) -> list[str]:
    """The script, whole, and its arguments."""
    path, *others = shlex.split(words) or [""]
    if not Path(path).is_file():
        raise ValueError(f"job: must be a script, got {path!r}, which is no file")
    return [str(Path(path).resolve()), *others]


def _of_trace(trace: Path, fabric: Fabric) -> Timeline:
    """Simulate the recorded job on ``fabric``."""
    (result,) = compare("workload=captured", workload={"trace": str(trace)}, servers=fabric.servers, fabric=fabric)
    return result.timeline


@contextmanager
def _terminal(job: str, mbps: float, fabric: Fabric, predicted: Timeline | None) -> Iterator[Terminal]:
    """Show the optimizer steps of an emulation."""
    with Terminal() as terminal:
        terminal.stage("emulating")
        step = "" if predicted is None else f", a step is predicted to take {human(predicted.makespan, 's')}"
        terminal.size(f"{job} on {counted(fabric.servers, 'server')} with links of {mbps:g} Mb/s{step}")
        yield terminal


def scenario_of(arguments: argparse.Namespace) -> Scenario:
    """Return the scenario that the arguments describe. Raises ``ValueError`` in one line."""
    if not MIN_MBPS <= arguments.mbps <= MAX_MBPS:
        requirement = f"must be within {MIN_MBPS:g}..{MAX_MBPS:g}, the rates that tc sets"
        raise ValueError(f"mbps: {requirement}, got {arguments.mbps:g}")
    failed = None
    if arguments.fail is not None:
        words = arguments.fail.split(",")
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise ValueError(f"fail: must be two servers, as in 0,1, got {arguments.fail!r}")
        failed = int(words[0]), int(words[1])
    plan = read_plan(arguments.plan)
    return Scenario(plan, arguments.mbps * MEGA / 8, failed, arguments.switch, arguments.own_order)


def job_of(arguments: argparse.Namespace, servers: int) -> EmulatedJob:
    """The job that is run where no script is given. Raises ``ValueError`` in one line."""
    transfers = []
    for text in arguments.transfer:
        shift, _, megabytes = text.partition(":")
        if not (shift.isdecimal() and 0 < int(shift) < servers and _is_positive(megabytes)):
            raise ValueError(f"transfer: must be a shift of 1 to {servers - 1} and megabytes, as 2:1.5, got {text!r}")
        size = round(float(megabytes) * MEGA)
        transfers += [(server, (server + int(shift)) % servers, size) for server in range(servers)]
    if not _is_positive(str(arguments.megabytes)):
        raise ValueError(f"megabytes: must be positive, got {arguments.megabytes}")
    return EmulatedJob(round(arguments.megabytes * MEGA / 4) * 4, tuple(transfers), arguments.iterations)


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < 1e6
    except ValueError:
        return False


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """``out``, with the notes of ranks and their log, or a folder that is removed."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="topoflow-emulate-") as folder:
            yield Path(folder)
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"out: must be a new or empty folder, got {out}")
    out.mkdir(parents=True, exist_ok=True)
    yield out.resolve()


def _table(fabric: Fabric, emulated: Emulated, predicted: Timeline | None) -> Table:
    """Return a table of measured and predicted times."""
    table = Table("", "predicted", "measured", "difference", title=f"{fabric.name}, {fabric.servers} servers")
    timeline = emulated.timeline
    spread = "" if len(emulated.iteration_times) < 2 else f" ({_range(emulated.iteration_times, 's')})"
    if predicted is None:
        table.add_row("iteration", "-", human(timeline.makespan, "s") + spread, "-")
        table.add_row("bytes of a link", "-", _range(timeline.link_bytes.tolist(), "B"), "-")
        return table
    rows = [("iteration", predicted.makespan, timeline.makespan)]
    if len(timeline.task_finish) > 1:
        rows.append(("its all-reduce", _last(predicted), _last(timeline)))
    for quantity, before, after in rows:
        table.add_row(quantity, human(before, "s"), human(after, "s"), f"{after / before - 1:+.1%}")
    used = predicted.link_bytes > 0
    ratio = timeline.link_bytes[used] / predicted.link_bytes[used] - 1
    table.add_row(
        "bytes of a link",
        _range(predicted.link_bytes.tolist(), "B"),
        _range(timeline.link_bytes.tolist(), "B"),
        f"{ratio.min():+.1%} to {ratio.max():+.1%}",
    )
    return table


def _last(timeline: Timeline) -> float:
    return float(timeline.task_finish[-1] - timeline.task_start[-1])


def _range(values: list[float] | tuple[float, ...], unit: str) -> str:
    return f"{human(min(values), unit)} to {human(max(values), unit)}"
