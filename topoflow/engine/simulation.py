"""Simulation: worlds, each with the fidelity that it is simulated in; those of equal fidelities are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

from topoflow.digest import digest, program
from topoflow.engine.base import Fidelity, Graph, Run, Timeline, World
from topoflow.engine.executor.base import Arrays
from topoflow.engine.executor.packing import pack, unpack
from topoflow.engine.observer import Part
from topoflow.fabric.base import Fabric

NAMES = ("name", "named", "nodes", "bill", "route", "graph", "fabric")  # no number of a timeline depends on these


def simulate(worlds: Sequence[World], fidelity: Fidelity, run: Run = Run()) -> list[Timeline]:
    """The timelines of ``worlds``, in their order, all in one fidelity. Raises as ``simulate_each`` does."""
    return simulate_each([(world, fidelity) for world in worlds], run)


def simulate_each(asked: Sequence[tuple[World, Fidelity]], run: Run = Run()) -> list[Timeline]:
    """The timelines of worlds, in their order, each in the fidelity that it is given with.

    ``run.observer`` is informed how many of the worlds are done, and ``run.executor`` simulates them. Raises
    ``ValueError`` before anything is simulated where a fidelity refuses a world, and as ``Fidelity.simulate`` does.
    """
    batches: dict[Fidelity, list[int]] = {}
    for number, (world, fidelity) in enumerate(asked):
        if (refusal := fidelity.refuses(world)) is not None:
            raise ValueError(refusal)
        batches.setdefault(fidelity, []).append(number)
    found: dict[int, Timeline] = {}
    for fidelity, batch in batches.items():
        part = replace(run, observer=Part(run.observer, len(found), len(asked)))
        worlds = [asked[number][0] for number in batch]
        for number, timeline in run.executor.map(Simulating(fidelity), worlds, part):
            found[batch[number]] = timeline
    return [found[number] for number in range(len(asked))]


@dataclass(frozen=True)
class Simulating:
    """Worlds as work for an executor; answers are timelines."""

    fidelity: Fidelity
    is_batch = True

    def keys(self, worlds: Sequence[World]) -> list[str | None]:
        """Digests of what is simulated, and of the program; what worlds share is digested once."""
        known: dict[int, str] = {}

        def shared(part: Graph | Fabric) -> str:
            if id(part) not in known:
                known[id(part)] = digest(_numbers(part))
            return known[id(part)]

        model = digest([program(), self.fidelity])
        return [
            digest([model, shared(world.graph), _numbers(world), world.fabric and shared(world.fabric)])
            for world in worlds
        ]

    def weight(self, world: World) -> float:
        """Tasks and hops: what an event costs varies, but less than their number does."""
        return 1.0 + len(world.graph.delay) * world.graph.rounds + len(world.graph.path_links)

    def name(self, world: World) -> str:
        return world.name

    def do(self, worlds: Sequence[World], run: Run) -> list[Timeline]:
        return self.fidelity.simulate(worlds, run)

    def pack(self, world: World, timeline: Timeline) -> Arrays:
        """Without the world, unless circuits changed: then what differs."""
        return pack(timeline, SimpleNamespace(world=world))

    def unpack(self, world: World, arrays: Arrays) -> Timeline:
        found: Timeline = unpack(Timeline, SimpleNamespace(world=world), arrays)
        return found


def _numbers(value: Any) -> dict[str, object]:
    """The fields of a dataclass that a simulation depends on."""
    named = [each.name for each in fields(value)]
    return {name: getattr(value, name) for name in named if name not in NAMES}
