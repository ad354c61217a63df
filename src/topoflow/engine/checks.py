"""The laws of graphs and worlds, checked when one is built: every error names the place, the law and the value.

The laws of single numbers are those of ``topoflow.units``, which files have, too. Tasks that wait for each other in a
circle and flows without bandwidth are found by the kernels, which give such worlds a status.

Shapes: T tasks, D dependencies, P paths, H hops, L links, A alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fields import LARGEST_INTEGER, shorten
from topoflow.units import check_capacity, check_limit, check_not_negative, check_share

if TYPE_CHECKING:
    from topoflow.engine.alternatives import Alternatives
    from topoflow.engine.base import Fidelity, LoweredGraph, World

Array = NDArray[Any]
Check = Callable[[str, float], None]  # raises ``ValueError`` for a field and a value; what it allows is an interval

# The kernels number the tasks, dependencies, paths and hops of a batch, and the links of a world, in 32 bits.
MAX_INT32 = 2**31 - 1
DTYPES = {"whole": (np.dtype(np.int32), np.dtype(np.int64)), "real": (np.dtype(np.float64),)}


def counts(graph: LoweredGraph) -> dict[str, int]:
    """Return the number of tasks, dependencies, paths and hops, which kernels count in 32 bits."""
    paths = len(graph.path_offsets) - 1
    return {"tasks": graph.tasks, "dependencies": len(graph.after), "paths": paths, "hops": len(graph.path_links)}


def check_counts(where: str, counts: Mapping[str, int]) -> None:
    """Raise ``ValueError`` for what is too large, before anybody looks at its elements."""
    for quantity, count in counts.items():
        if count > MAX_INT32:
            raise ValueError(f"{where}: must have less than 2^31 {quantity}, got {count}")


def check_graph(graph: LoweredGraph) -> None:
    """Raise ``ValueError`` where ``graph`` breaks a law that the kernels rely on."""
    for name in ("delay", "bytes", "release"):
        _check_array(f"graph.{name}", getattr(graph, name), "real")
    for name in ("path", "owner", "after_offsets", "after", "path_offsets", "path_links"):
        _check_array(f"graph.{name}", getattr(graph, name), "whole")
    for name, least in (("links", 0), ("owners", 0), ("rounds", 1)):
        _check_count(f"graph.{name}", getattr(graph, name), least)
    check_counts("graph", {**counts(graph), "links": graph.links})
    tasks, paths = graph.tasks, max(len(graph.path_offsets) - 1, 0)
    for name in ("delay", "bytes", "release", "path", "owner"):
        _check_length(f"graph.{name}", getattr(graph, name), "T", tasks)
    for name in ("delay", "bytes", "release"):
        check_each(f"graph.{name}", getattr(graph, name), check_not_negative)
    _check_offsets("graph.after_offsets", graph.after_offsets, "T", tasks, len(graph.after))
    _check_offsets("graph.path_offsets", graph.path_offsets, "P", paths, len(graph.path_links))
    _check_range("graph.after", graph.after, 0, tasks - 1)
    _check_range("graph.path", graph.path, -1, paths - 1)
    _check_range("graph.path_links", graph.path_links, 0, graph.links - 1)
    _check_range("graph.owner", graph.owner, 0, graph.owners - 1)
    _check_all("graph.path", graph.path, (graph.bytes == 0) | (graph.path >= 0), "a task with bytes must have a path")
    _check_paths(graph)
    _check_resources(graph)
    _check_carried(graph)
    if graph.alternatives is not None:
        _check_alternatives(graph, graph.alternatives)
    if graph.ends is not None:
        _check_ends(graph, graph.ends)


def check_world(world: World) -> None:
    """Raise ``ValueError`` where the numbers of its links break a law, or its network has other links."""
    fabric = world.fabric
    if fabric is not None and fabric.links != world.graph.links:
        raise ValueError(f"{world.name}.fabric: must have {world.graph.links} links, as its graph, got {fabric.links}")
    if fabric is not None and world.graph.last_server >= fabric.servers:
        last = f"server {world.graph.last_server}, which sends or receives"
        raise ValueError(f"{world.name}.fabric: must have {last}, got {fabric.servers} servers")
    arrays = ("capacity", "bandwidth", check_capacity), ("latency", "latency", check_not_negative)
    for name, of_fabric, check in arrays:
        where, array = f"{world.name}.{name}", getattr(world, name)
        _check_array(where, array, "real")
        _check_length(where, array, "L", world.graph.links)
        if fabric is None or array is not getattr(fabric, of_fabric):  # a fabric has checked its own
            check_each(where, array, check)
    if world.changes_circuits and world.graph.ends is not None:  # there is no circuit from a server to itself
        source, target, _ = world.graph.ends
        crosses = np.append(np.diff(world.graph.path_offsets) > 0, False)[world.graph.path]  # path -1: none
        fine = (source < 0) | (source != target) | ~crosses
        _check_all("graph.ends[1]", target, fine, "a task that crosses circuits must have two different ends")
    if not isinstance(world.until, int | float) or not world.until >= 0:
        raise ValueError(f"{world.name}.until: must be a number that is not negative, got {_shown(world.until)}")
    _check_count(f"{world.name}.seed", world.seed, 0, 2**64 - 1)


def check_accepted(fidelity: Fidelity, worlds: Sequence[World]) -> None:
    """Raise ``ValueError`` for the first of ``worlds`` that ``fidelity`` refuses."""
    for world in worlds:
        if (refusal := fidelity.refuses(world)) is not None:
            raise ValueError(refusal)


def check_each(where: str, array: Array, check: Check) -> None:
    """Raise ``ValueError`` for the first number of ``array`` [N] that ``check`` refuses."""
    if not array.size:
        return
    try:
        for extreme in (array.min(), array.max()):  # nan if there is one
            check(where, float(extreme))
    except ValueError:
        for index, value in enumerate(array.tolist()):
            check(f"{where}[{index}]", value)
        raise


def refuses_rounds(world: World, fidelity: str) -> str | None:
    """Return why a fidelity that needs every task cannot express ``world``; None: it can."""
    if world.graph.rounds == 1:
        return None
    requirement = f"must be few enough to write all tasks of a job with fidelity={fidelity}"
    return f"workload.iterations: {requirement}, got {world.graph.rounds} of {world.graph.tasks} tasks in {world.name}"


def refuses_addresses(world: World, fidelity: str) -> str | None:
    """Return why a fidelity that needs every task and whole paths cannot express ``world``; None: it can."""
    if world.graph.rounds > 1:
        return refuses_rounds(world, fidelity)
    if world.graph.next_hops is None:
        return None
    return f"routing: must be of whole paths (ecmp, spray, ..) with fidelity={fidelity}, got {world.routing}"


def _check_resources(graph: LoweredGraph) -> None:
    if graph.resource is None:
        return
    _check_array("graph.resource", graph.resource, "whole")
    _check_length("graph.resource", graph.resource, "T", graph.tasks)
    _check_range("graph.resource", graph.resource, -1, graph.tasks - 1)
    waits_only = (graph.delay > 0) & (graph.path < 0)
    requirement = "a task that occupies a resource must have a delay and no path"
    _check_all("graph.resource", graph.resource, (graph.resource < 0) | waits_only, requirement)
    if graph.rounds > 1:
        raise ValueError(f"graph.resource: must be None where tasks run for several rounds, got {graph.rounds} rounds")


def _check_paths(graph: LoweredGraph) -> None:
    hops = np.diff(graph.path_offsets)
    if graph.path_weight is not None:
        _check_array("graph.path_weight", graph.path_weight, "real")
        _check_length("graph.path_weight", graph.path_weight, "H", len(graph.path_links))
        check_each("graph.path_weight", graph.path_weight, check_share)
    if graph.path_limit is not None:
        limit = graph.path_limit
        _check_array("graph.path_limit", limit, "real")
        _check_length("graph.path_limit", limit, "P", len(hops))
        check_each("graph.path_limit", limit, check_limit)
        requirement = "a path without links must have none"
        _check_all("graph.path_limit", limit, (hops > 0) | np.isposinf(limit), requirement)
    fits = len(hops) * graph.links <= MAX_INT32  # numbers of half the size are sorted in less than half the time
    firsts = np.arange(len(hops), dtype=np.int32 if fits else np.int64) * graph.links
    crossing = np.repeat(firsts, hops) + graph.path_links
    crossing.sort()
    again = np.flatnonzero(crossing[1:] == crossing[:-1])
    if again.size:
        path, link = divmod(int(crossing[again[0]]), graph.links)
        raise ValueError(f"graph.path_links: path {path} must cross a link at most once, got link {link} again")


def _check_carried(graph: LoweredGraph) -> None:
    if graph.carried is None:
        return
    if graph.rounds == 1:
        raise ValueError("graph.rounds: must be at least 2 where tasks wait for the round before, got 1")
    _check_array("graph.carried", graph.carried, "whole", dimensions=2)
    if len(graph.carried) != 2:
        raise ValueError(f"graph.carried: expected [2, C], got {list(graph.carried.shape)}")
    _check_range("graph.carried", graph.carried.ravel(), 0, graph.tasks - 1)


def _check_ends(graph: LoweredGraph, ends: Array) -> None:
    _check_array("graph.ends", ends, "whole", dimensions=2)
    if ends.shape != (3, graph.tasks):
        raise ValueError(f"graph.ends: expected [3, T] = [3, {graph.tasks}], got {list(ends.shape)}")
    _check_range("graph.ends", ends.ravel(), -1, MAX_INT32)
    source, target = ends[0], ends[1]
    _check_all("graph.ends[1]", target, (source < 0) == (target < 0), "a task must have both ends or none")


def _check_alternatives(graph: LoweredGraph, several: Alternatives) -> None:
    for name, kind in (("offsets", "whole"), ("hop_offsets", "whole"), ("links", "whole"), ("share", "real")):
        _check_array(f"graph.alternatives.{name}", getattr(several, name), kind)
    paths, count = len(graph.path_offsets) - 1, len(several.share)
    _check_offsets("graph.alternatives.offsets", several.offsets, "P", paths, count)
    _check_offsets("graph.alternatives.hop_offsets", several.hop_offsets, "A", count, len(several.links))
    _check_range("graph.alternatives.links", several.links, 0, graph.links - 1)
    check_each("graph.alternatives.share", several.share, check_share)
    number, hops = np.diff(several.offsets), np.diff(several.hop_offsets)
    _check_all("graph.alternatives.offsets", several.offsets[1:], number > 0, "a path must have an alternative")
    crosses = np.repeat(np.diff(graph.path_offsets) > 0, number)
    requirement = "an alternative must have links where its path has some"
    _check_all("graph.alternatives.hop_offsets", several.hop_offsets[1:], (hops > 0) == crosses, requirement)


def _check_array(where: str, array: Any, kind: str, dimensions: int = 1) -> None:
    if not isinstance(array, np.ndarray) or array.dtype not in DTYPES[kind] or array.ndim != dimensions:
        got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        types = " or ".join(map(str, DTYPES[kind]))
        raise ValueError(f"{where}: must be a {dimensions}-dimensional array of {types}, got {got}")


def _check_count(where: str, count: Any, least: int, most: int = LARGEST_INTEGER) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not least <= count <= most:
        raise ValueError(f"{where}: must be a whole number within {least}..{most}, got {_shown(count)}")


def _shown(value: object) -> str:
    """Return a value of any type in one line."""
    return " ".join(shorten(value).split())


def _check_length(where: str, array: Array, symbol: str, expected: int) -> None:
    if array.shape != (expected,):
        raise ValueError(f"{where}: expected [{symbol}] = [{expected}], got {list(array.shape)}")


def _check_range(where: str, array: Array, low: int, high: int) -> None:
    if array.size and not (array.min() >= low and array.max() <= high):
        _check_all(where, array, (array >= low) & (array <= high), f"must be in {low}..{high}")


def _check_all(where: str, array: Array, fine: NDArray[np.bool_], requirement: str) -> None:
    if not fine.all():
        wrong = int(np.argmin(fine))
        raise ValueError(f"{where}[{wrong}]: {requirement}, got {array[wrong]}")


def _check_offsets(where: str, offsets: Array, symbol: str, rows: int, end: int) -> None:
    _check_length(where, offsets, f"{symbol}+1", rows + 1)
    if offsets[0] != 0 or offsets[-1] != end or np.any(np.diff(offsets) < 0):
        raise ValueError(f"{where}: must rise from 0 to {end}, got {offsets[0]} to {offsets[-1]}")
