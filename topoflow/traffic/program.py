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

from topoflow.traffic.buckets import Bucket
from topoflow.workload.base import LayerGraph

FORWARD, BACKWARD, REDUCE, UPDATE = "forward", "backward", "reduce", "update"


@dataclass(frozen=True)
class Instruction:
    """``name`` is that of the method that carries it out."""

    name: str
    of: int = 0  # the layer, or the bucket


Program = Sequence[Instruction]


def of_placement(workload: LayerGraph, buckets: Sequence[Bucket]) -> Program:
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
