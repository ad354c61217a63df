"""Simulation: worlds, each with the fidelity that it is simulated in; those of equal fidelities are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from topoflow.engine.base import Fidelity, Run, Timeline, World
from topoflow.engine.executor.base import ItemFunction, do_all
from topoflow.engine.observer import PartialObserver


def simulate(worlds: Sequence[World], fidelity: Fidelity, run: Run = Run()) -> list[Timeline]:
    """The timelines of ``worlds``, in their order, all in one fidelity. Raises as ``simulate_each`` does."""
    return simulate_each([(world, fidelity) for world in worlds], run)


def simulate_each(pairs: Sequence[tuple[World, Fidelity]], run: Run = Run()) -> list[Timeline]:
    """Return the timelines of worlds, in their order, each in the fidelity that it is given with.

    ``run.observer`` is informed how many of the worlds are done, and ``run.workers`` simulate them. Raises
    ``ValueError`` before anything is simulated where a fidelity refuses a world, and as ``Fidelity.simulate`` does.
    """
    batches: dict[Fidelity, list[int]] = {}
    for number, (world, fidelity) in enumerate(pairs):
        if (refusal := fidelity.refuses(world)) is not None:
            raise ValueError(refusal)
        batches.setdefault(fidelity, []).append(number)
    timelines: dict[int, Timeline] = {}
    for fidelity, batch in batches.items():
        part = replace(run, observer=PartialObserver(run.observer, len(timelines), len(pairs)))
        worlds = [pairs[number][0] for number in batch]
        for number, timeline in do_all(Simulating(fidelity), worlds, part):
            timelines[batch[number]] = timeline
    return [timelines[number] for number in range(len(pairs))]


@dataclass(frozen=True)
class Simulating(ItemFunction[World, Timeline]):
    """Worlds as work for an executor; answers are timelines."""

    fidelity: Fidelity
    is_batch = True

    def name(self, item: World) -> str:
        return item.name

    def do(self, items: Sequence[World], run: Run) -> list[Timeline]:
        return self.fidelity.simulate(items, run)

    def weight(self, item: World) -> float:
        """Return the number of tasks and hops: the cost of an event varies, but less than their number does."""
        return 1.0 + len(item.graph.delay) * item.graph.rounds + len(item.graph.path_links)

    def packed(self, item: World, answer: Timeline) -> Any:
        """Return the timeline without its world, unless that is another one, as where circuits have changed."""
        return replace(answer, world=None) if answer.world is item else answer  # type: ignore[arg-type]

    def unpacked(self, item: World, packed: Any) -> Timeline:
        timeline: Timeline = replace(packed, world=packed.world or item)
        return timeline
