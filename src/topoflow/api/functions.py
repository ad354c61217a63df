"""The functions of ``topoflow``: each does what the command of its name does."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoflow.api.arguments import arguments
from topoflow.api.configuration import keys_of
from topoflow.api.keys import CompareKeys, SearchKeys, shows_keys
from topoflow.api.results import Results
from topoflow.engine.base import Fidelity, Run, Unfinished, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.observer import Observer, Silent
from topoflow.engine.simulation import simulate as simulate_worlds
from topoflow.memory import no_garbage_collection
from topoflow.report.dataset.base import is_dataset
from topoflow.study.compare import compare as compare_points
from topoflow.study.configure.build import run_of
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.output import output
from topoflow.study.configure.point import Point
from topoflow.study.tracked import of_comparison, of_searches, tracked

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from topoflow.api.searches import SearchResults
    from topoflow.api.worlds import Simulated
    from topoflow.capture.base import Trace
    from topoflow.search.base import Plan
    from topoflow.worldfile.world_file import WorldFile


@shows_keys(CompareKeys)
@no_garbage_collection()
def compare(*settings: str | Mapping[str, Any], observer: Observer = Silent(), **keys: Unpack[CompareKeys]) -> Results:
    """Simulate one training step on every combination of the keys: how fast each network runs it, and at what price.

    Without keys, the job is a DLRM on 16 servers over several fabrics. A list sweeps its key, a mapping sets keys of a
    group. ``topoflow config compare`` prints what each key means, and its default.

    - ``workload``, ``strategy``, ``fabric``, ``gpu``, ``prices``, ``fidelity``: names of presets, or objects: presets
      with changes (``topoflow.fabrics.torus(dims=[4, 4])``) or what is made otherwise. A fabric made in Python has
      links of its own.
    - ``executor``: a name, or any ``concurrent.futures.Executor``.
    - ``settings``: arguments of the command line, ``"workload.tables=8"``, for keys with a dot; or a configuration of
      these keys, such as a part of one that Hydra has composed.

    ``observer`` is informed of the stages and how far they are. Raises ``ValueError`` in one line that names the key,
    what it must be, and the value.

    >>> import topoflow
    >>> results = topoflow.compare("workload.tables=8", servers=4, fabric=["fat_tree", "ring"], bandwidth_gbps=100)
    >>> [result.settings.fabric for result in results]
    ['fat_tree', 'ring']
    >>> results.fastest.iteration_time == min(result.iteration_time for result in results)
    True

    Objects and names can be mixed. A fabric is built for the job that it runs:

    >>> slim = topoflow.fabrics.fat_tree(oversubscription=2)
    >>> results = topoflow.compare("workload.tables=8", servers=4, fabric=[slim, "topoopt"])
    >>> [result.fabric.name for result in results]
    ['fat_tree', 'topoopt']
    """
    points, command = _points("compare", settings, keys, check, "compare", observer)
    if is_dataset(points[0].config["out"]):
        raise ValueError("out: must be a folder; a dataset is written by the command `topoflow compare`")
    with output(points, "compare") as out, tracked(points, "compare", command, out, observer) as log:
        report = compare_points(points, run_of(points, log, out), command)
        if report.unfinished:
            raise Unfinished("; ".join(report.unfinished))
        results = Results(report)
        if out is not None:
            results.save(out)
        report.rows  # noqa: B018  raises what is wrong with one, as with its prices
        if log.logs:
            log.record_results(of_comparison(report, out))
    return results


@shows_keys(SearchKeys)
def search(
    *settings: str | Mapping[str, Any], observer: Observer = Silent(), **keys: Unpack[SearchKeys]
) -> SearchResults:
    """Find how to split a job, and how to wire its network, so that it runs fastest.

    Keys are names or objects as for ``compare``; ``search={"proposals": 200}`` says how long. A list makes several
    searches. With ``out``, a search that was stopped continues where it was.

    Raises ``ValueError`` in one line, as ``compare`` does.

    >>> import topoflow
    >>> found = topoflow.search("workload.tables=4", "workload.rows=1000", servers=4, search={"proposals": 64})
    >>> found.best.iteration_time <= found.start.iteration_time
    True
    >>> found.plan.fabric
    'topoopt'
    """
    from topoflow.api.searches import SearchResults  # a comparison needs no search
    from topoflow.study.searches import CONFIG, check, search_all

    points, command = _points("search", settings, keys, check, CONFIG, observer)
    with output(points, "search") as out, tracked(points, "search", command, out, observer) as log:
        searched = search_all(points, run_of(points, log, out), command, out)
        results = SearchResults(searched)
        if out is not None:
            results.save(out)
        log.record_results(of_searches(searched, out))
    return results


def simulate(
    world: str | PathLike[str] | World | WorldFile,
    *,
    fidelity: Fidelity | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> Simulated:
    """Find when every task of one world runs: of a file, as ``topoflow simulate`` reads it, or one made in Python.

    ``fidelity`` None: ``Fluid()``. ``device``: ``cpu``, ``cuda`` or ``auto``; ``threads`` None: all of the CPU. Raises
    ``ValueError`` in one line for what is wrong in the file, ``OSError`` where it cannot be read.

    >>> import topoflow
    >>> done = topoflow.simulate("examples/two_flows.json")
    >>> done.iteration_time
    15.0
    >>> done
    two_flows.json
    makespan      15 s
    tasks         3
    links         3
    busiest link  2: switch to c
    its load      1.2 kB, 80.0% of what it could carry
    """
    from topoflow.api.worlds import Simulated, named  # a comparison needs no file of a world
    from topoflow.engine.fluid import Fluid
    from topoflow.worldfile.world_file import WorldFile, read

    file = named(world) if isinstance(world, World) else world if isinstance(world, WorldFile) else read(Path(world))
    run = Run(DeviceMemory.named(device), threads)
    (timeline,) = simulate_worlds([file.world], Fluid() if fidelity is None else fidelity, run)
    return Simulated(file, timeline)


def load(path: str | PathLike[str], *more: str | PathLike[str]) -> WorldFile | Plan | Trace:
    """Read a file, whose content says what it is: a world, the plan of a search (or its folder), or a job's trace.

    The traces of a job's ranks are given together, or as their folder. Raises ``ValueError`` in one line for what is
    wrong in a file, ``OSError`` where it cannot be read.

    >>> import topoflow
    >>> topoflow.load("examples/two_flows.json").ids
    ('forward', 'long', 'short')
    >>> len(topoflow.load("examples/ddp_4_ranks.jsonl.gz").ranks)
    4
    """
    from topoflow.capture.load import load as load_trace  # a comparison reads no trace
    from topoflow.worldfile.world_file import read

    first = Path(path)
    plan = first / "plan.json" if first.is_dir() else first
    if plan.name.endswith(".json") and plan.is_file() and not more:
        text = plan.read_text(encoding="utf-8", errors="replace")
        if '"topoflow plan' in text[:200]:
            from topoflow.search.base import Plan

            return Plan.from_json(text, str(plan))
        if '"links"' in text and '"tasks"' in text and "traceEvents" not in text[:10_000]:
            return read(plan)
    return load_trace([first, *map(Path, more)])


def _points(
    verb: str,
    settings: Sequence[str | Mapping[str, Any]],
    keys: Mapping[str, object],
    check: Any,
    config: str,
    observer: Observer,
) -> tuple[list[Point], str]:
    """Return the points of a call, and the call as a command if it can be one, else as Python."""
    texts = [setting for setting in settings if isinstance(setting, str)]
    for setting in settings:
        keys = keys if isinstance(setting, str) else {**keys_of(setting), **keys}
    texts, objects = arguments(texts, keys)
    observer.stage("composing")
    points = grid(texts, check, config, observer, objects)
    return points, shlex.join(["topoflow", verb, *texts]) if not objects else f"topoflow.{verb}({', '.join(texts)})"
