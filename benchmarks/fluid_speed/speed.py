"""Cases A to F, one world on one core: our kernel and SimGrid's engine in alternation, and every completion time
compared."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from measure import LONG, Kernel, difference, in_turn, repeated, say
from peers.simgrid_peer import EXACT, SimGrid
from worlds.cases import Case

HOP_BYTES, TASK_BYTES = 48, 64  # the memory that a world may take: per flow-hop, and per task in addition
MOST_TASKS = 100_000  # SimGrid, too, runs larger worlds, but not within an hour


@dataclass(frozen=True)
class Result:
    """One world, measured."""

    ours: float  # s of CPU
    bytes: int
    hops: int
    tasks: int
    completions: int  # distinct ends
    sensitivity: float  # relative change of ends when all capacities grow by one unit in the last place
    simgrid: float = float("nan")  # s of CPU
    simgrid_difference: float = float("nan")  # of ends, SimGrid as it comes
    exact_difference: float = float("nan")  # of ends, SimGrid at its most precise


def measure(case: Case, peer: SimGrid | None, merge: float) -> Result:
    """Ours alone where there is no peer, or the world is too large for it."""
    kernel = Kernel.of([case.world])
    run = kernel.run(merge=merge)
    result = Result(
        ours=run.cpu,
        bytes=run.bytes,
        hops=case.hops,
        tasks=case.world.graph.tasks,
        completions=distinct(run.finish),
        sensitivity=difference(run.finish, nudged(case).run(merge=merge).finish),
    )

    def ours() -> float:
        return repeated(lambda: kernel.run(merge=merge).cpu)

    if peer is None or result.tasks > MOST_TASKS:
        return replace(result, ours=in_turn(ours)[0])
    file = peer.write(case)
    theirs = peer.run(file)
    exact = peer.run(file, EXACT) if theirs.seconds < LONG else theirs
    result = replace(
        result,
        simgrid_difference=difference(run.finish, theirs.finish),
        exact_difference=difference(run.finish, exact.finish),
    )
    if theirs.seconds > LONG:
        return replace(result, ours=ours(), simgrid=theirs.seconds)
    ours_seconds, simgrid_seconds = in_turn(ours, lambda: peer.run(file).seconds)
    return replace(result, ours=ours_seconds, simgrid=simgrid_seconds)


def nudged(case: Case) -> Kernel:
    """The same world with every capacity one unit in the last place larger."""
    return Kernel.of([replace(case.world, capacity=np.nextafter(case.world.capacity, np.inf))])


def distinct(finish: np.ndarray) -> int:
    """Completion times that differ by more than rounding."""
    times = np.sort(finish)
    return 1 + int(np.count_nonzero(np.diff(times) > 1e-12 * times[1:]))


def report(name: str, results: Sequence[Result]) -> None:
    """Lines of one case, or of a family of them: times are summed, differences are the largest."""
    ours, simgrid = sum(r.ours for r in results), sum(r.simgrid for r in results)
    tasks, hops, bytes = sum(r.tasks for r in results), sum(r.hops for r in results), sum(r.bytes for r in results)
    path = f"fluid.{name}"
    say(f"{path}.worlds", len(results))
    say(f"{path}.tasks", tasks)
    say(f"{path}.flow_hops", hops)
    say(f"{path}.completion_times", sum(r.completions for r in results))
    say(f"{path}.worlds_per_second", len(results) / ours)
    if simgrid == simgrid:
        say(f"{path}.simgrid_worlds_per_second", len(results) / simgrid)
        say(f"{path}.ratio_to_simgrid", simgrid / ours)
        say(f"{path}.largest_difference", max(r.exact_difference for r in results))
        say(f"{path}.largest_difference_to_simgrid_as_it_comes", max(r.simgrid_difference for r in results))
    say(f"{path}.sensitivity", max(r.sensitivity for r in results))
    say(f"{path}.bytes_per_flow_hop", bytes / max(hops, 1))
    say(f"{path}.bytes_per_task", bytes / tasks)
    allowed = [HOP_BYTES * r.hops + TASK_BYTES * r.tasks for r in results]
    say(f"{path}.bytes_of_48_per_flow_hop_and_64_per_task", bytes / sum(allowed))
    if len(results) > 1:
        mean = statistics.fmean(r.bytes / limit for r, limit in zip(results, allowed, strict=True))
        say(f"{path}.mean_over_worlds.bytes_of_48_per_flow_hop_and_64_per_task", mean)


def progress(text: str) -> None:
    """A line about long work, separate from the results."""
    print(text, file=sys.stderr, flush=True)
