"""Program: what an iteration does, in order, as data. Whoever lowers a strategy carries it out line by line.

A placement of layers, whose layers 0 1 2 have gradients in buckets 0 (of layers 2 and 1) and 1:

    FORWARD 0, FORWARD 1, FORWARD 2, BACKWARD 2, BACKWARD 1, REDUCE 0, BACKWARD 0, REDUCE 1, UPDATE

The order is that in which a server computes, and that in which the collectives of a group run, as on one NCCL
communicator. It says nothing of dependencies: those follow from what an instruction means (``placed.py``), so that
another order of the same instructions is another schedule of the same job.

A new kind of strategy adds instructions: a name here, a method of that name where strategies of its kind are lowered,
which writes the tasks (``columns.Columns``) and says what they wait for, and a function that makes the programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from topoflow.strategy.shards import Shards
from topoflow.traffic.buckets import Bucket
from topoflow.workload.base import Workload

FORWARD, BACKWARD, REDUCE, UPDATE = "forward", "backward", "reduce", "update"
GATHER, SCATTER = "gather", "scatter"  # of the parameters of a unit, and of its gradients (``strategy.shards``)


@dataclass(frozen=True)
class Instruction:
    """``name`` is that of the method that carries it out."""

    name: str
    of: int = 0  # the layer, or the bucket; of shards, the segment or the unit


Program = Sequence[Instruction]


def of_placement(workload: Workload, buckets: Sequence[Bucket]) -> Program:
    """Layers forward, layers backward, each bucket when its last layer has gone backward, and the update."""
    number = {layer.name: position for position, layer in enumerate(workload.layers)}
    completed = defaultdict(list)  # layer -> the buckets that it completes
    for position, bucket in enumerate(buckets):
        completed[number[bucket.layers[-1]]].append(position)
    program = [Instruction(FORWARD, layer) for layer in range(len(workload.layers))]
    for layer in reversed(range(len(workload.layers))):
        program.append(Instruction(BACKWARD, layer))
        program += [Instruction(REDUCE, bucket) for bucket in completed[layer]]
    return [*program, Instruction(UPDATE)]


def of_shards(shards: Shards, units: Sequence[int]) -> Program:
    """Segments forward and backward, which are runs of layers of one unit; ``units`` are those of the segments.

    Of units 1 and 2 and a root 0 around them, with ZeRO-3 and one unit gathered ahead:

        GATHER 0, GATHER 1, FORWARD 0, GATHER 2, FORWARD 1, FORWARD 2, FORWARD 3, GATHER 2, BACKWARD 3, GATHER 1,
        BACKWARD 2, SCATTER 2, BACKWARD 1, SCATTER 1, BACKWARD 0, SCATTER 0, UPDATE

    A gather comes as early as ``shards.prefetch`` allows, but after the last segment that frees the unit. With stages 1
    and 2 all units are gathered at the end instead.
    """
    passes = [Instruction(FORWARD, segment) for segment in range(len(units))]
    passes += [Instruction(BACKWARD, segment) for segment in reversed(range(len(units)))]
    waiting = _gathers(shards, [units[each.of] for each in passes])
    program: list[Instruction] = []
    for position, one in enumerate(passes):
        while waiting and waiting[0][0] <= position:
            program.append(Instruction(GATHER, waiting.pop(0)[1]))
        program.append(one)
        if one.name == BACKWARD and units.index(units[one.of]) == one.of:
            program.append(Instruction(SCATTER, units[one.of]))
    updated = range(0 if shards.stage == 3 else len(shards.gathered))
    return [*program, Instruction(UPDATE), *(Instruction(GATHER, unit) for unit in updated)]


def _gathers(shards: Shards, units: Sequence[int]) -> list[tuple[int, int]]:
    """Of stage 3: before which pass each gather comes, in order, and its unit; ``units`` are those of all passes."""
    found: list[tuple[int, int]] = []
    latest: dict[int, int] = {}
    for position, unit in enumerate(units):
        kept = shards.root and unit == 0 and unit in latest
        if shards.stage == 3 and not kept:
            earliest = max(position - shards.prefetch, latest.get(unit, -1) + 1)
            found.append((max(earliest, found[-1][0] if found else 0), unit))
        latest[unit] = position
    return found
