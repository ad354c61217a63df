"""Program: what an iteration does, in order, as data. Whoever lowers a strategy carries it out line by line.

A placement of layers, whose layers 0 1 2 have gradients in buckets 0 (of layers 2 and 1) and 1:

    FORWARD 0, FORWARD 1, FORWARD 2, BACKWARD 2, BACKWARD 1, REDUCE 0, BACKWARD 0, REDUCE 1, UPDATE

A pipeline of two stages and two microbatches under 1F1B, each stage with one bucket (stage.microbatch):

    FORWARD 0.0, SEND 0.0>1, FORWARD 0.1, SEND 0.1>1, FORWARD 1.0, BACKWARD 1.0, SEND 1.0>0, FORWARD 1.1, BACKWARD 1.1,
    REDUCE 1, SEND 1.1>0, BACKWARD 0.0, BACKWARD 0.1, REDUCE 0, UPDATE 0, UPDATE 1

The order is that in which a server computes, and that in which the collectives of a group run, as on one NCCL
communicator. It says nothing of dependencies: those follow from what an instruction means (``placed.py``,
``grid/pipelined.py``), so that another order of the same instructions is another schedule of the same job: GPipe, or
interleaved 1F1B, is another list of passes for ``of_grid``.

A new kind of strategy adds instructions: a name here, a method of that name in the class that lowers such strategies,
which writes the tasks (``columns.Columns``) and says what they wait for, and a function that makes the programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topoflow.traffic.buckets import Bucket
from topoflow.traffic.grid.one_f_one_b import Pass
from topoflow.workload.base import LayerGraph

FORWARD, BACKWARD, SEND, REDUCE, TIE, UPDATE = "forward", "backward", "send", "reduce", "tie", "update"


@dataclass(frozen=True)
class Instruction:
    """``name`` is that of the method that carries it out."""

    name: str
    of: int = 0  # the layer, the stage, or the bucket
    microbatch: int = 0
    part: slice | None = None  # of a stage's layers, the last one first, that go backward; None: all
    to: int = 0  # the stage that a pass is sent to


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


class Part(NamedTuple):
    """Layers of a stage that go backward at once, and the bucket that the last of them completes, if it does."""

    layers: slice  # of the stage's, the last one first
    bucket: int | None


def of_grid(passes: Sequence[Pass], parts: Sequence[Sequence[Part]], ties: int) -> Program:
    """Passes in this order, each sent to the next stage of its direction; then ties are added up and stages updated.

    ``parts`` of each stage are those of its last backward pass, which completes its gradients.
    """
    stages = len(parts)
    last = {one.stage: one for one in passes if not one.forward}
    program = []
    for one in passes:
        if one.forward:
            program.append(Instruction(FORWARD, one.stage, one.microbatch))
        elif one != last[one.stage]:
            program.append(Instruction(BACKWARD, one.stage, one.microbatch))
        else:
            program += _completed(one, parts[one.stage])
        to = one.stage + (1 if one.forward else -1)
        if 0 <= to < stages:
            program.append(Instruction(SEND, one.stage, one.microbatch, to=to))
    program += [Instruction(TIE, tie) for tie in range(ties)]
    return program + [Instruction(UPDATE, stage) for stage in range(stages)]


def _completed(one: Pass, parts: Sequence[Part]) -> Program:
    program = []
    for part in parts:
        program.append(Instruction(BACKWARD, one.stage, one.microbatch, part.layers))
        if part.bucket is not None:
            program.append(Instruction(REDUCE, part.bucket))
    return program
