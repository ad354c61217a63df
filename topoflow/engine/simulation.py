"""Simulation: worlds, each with the fidelity that it is simulated in; those of equal fidelities are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topoflow.engine.base import Fidelity, Run, Timeline, World
from topoflow.engine.observer import Part


def simulate(worlds: Sequence[World], fidelity: Fidelity, run: Run = Run()) -> list[Timeline]:
    """The timelines of ``worlds``, in their order, all in one fidelity. Raises as ``simulate_each`` does."""
    return simulate_each([(world, fidelity) for world in worlds], run)


def simulate_each(asked: Sequence[tuple[World, Fidelity]], run: Run = Run()) -> list[Timeline]:
    """The timelines of worlds, in their order, each in the fidelity that it is given with.

    ``run.observer`` is informed how many of the worlds are done. Raises ``ValueError`` before anything is simulated
    where a fidelity refuses a world, and as ``Fidelity.simulate`` does.
    """
    batches: dict[Fidelity, list[int]] = {}
    for number, (world, fidelity) in enumerate(asked):
        if (refusal := fidelity.refuses(world)) is not None:
            raise ValueError(refusal)
        batches.setdefault(fidelity, []).append(number)
    found: dict[int, Timeline] = {}
    for fidelity, batch in batches.items():
        part = replace(run, observer=Part(run.observer, len(found), len(asked)))
        timelines = fidelity.simulate([asked[number][0] for number in batch], part)
        found |= dict(zip(batch, timelines, strict=True))
    return [found[number] for number in range(len(asked))]
