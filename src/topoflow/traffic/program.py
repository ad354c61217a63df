"""Program: the ordered instructions of an iteration. The lowering of a strategy executes them one by one.

A placement of layers 0, 1 and 2, with gradients of layers 2 and 1 in bucket 0 and of layer 0 in bucket 1:

    FORWARD 0, FORWARD 1, FORWARD 2, BACKWARD 2, BACKWARD 1, REDUCE 0, BACKWARD 0, REDUCE 1, UPDATE

A pipeline of two stages and two microbatches under 1F1B, each stage with one bucket (stage.microbatch):

    FORWARD 0.0, SEND 0.0>1, FORWARD 0.1, SEND 0.1>1, FORWARD 1.0, BACKWARD 1.0, SEND 1.0>0, FORWARD 1.1, BACKWARD 1.1,
    REDUCE 1, SEND 1.1>0, BACKWARD 0.0, BACKWARD 0.1, REDUCE 0, UPDATE 0, UPDATE 1

A server computes in this order, and the collectives of a group run in this order, as on one NCCL communicator.
Dependencies follow from the meaning of an instruction (``placed.py``, ``grid/pipelined.py``), not from the order, so
another order of the same instructions is another schedule of the same job: each table of ``strategy.schedules`` is
another list of passes for ``of_grid``.

A new kind of strategy needs three additions: a name here; a method of this name in the class that lowers such
strategies, which adds the tasks (``columns.Columns``) and their dependencies; and a function that makes the programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topoflow.strategy.schedules.base import Pass
from topoflow.traffic.buckets import Bucket
from topoflow.workload.base import LayerGraph

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
PASS, SEND, TIE = "stage_pass", "send", "tie"  # of a stage of a pipeline
GATHER, REDUCE = "gather", "reduce"  # the parameters of a bucket, and its gradients


class Instruction(NamedTuple):
    """An instruction; ``name`` is the name of the method that executes it."""

    name: str
    of: int = 0  # the layer, the stage, or the bucket
    microbatch: int = 0
    kind: str = ""  # of a pass of a stage, one of ``strategy.schedules.base.KINDS``
    part: slice | None = None  # layers of a stage in the order of this pass; None: all
    to: int = 0  # the stage that receives the output of a pass


Program = Sequence[Instruction]


def of_placement(workload: LayerGraph, buckets: Sequence[Bucket]) -> Program:
    """Return the program of a placement: forward and backward passes, buckets when complete, and the update."""
    number = {layer.name: position for position, layer in enumerate(workload.layers)}
    completed = defaultdict(list)  # layer -> the buckets that it completes
    for position, bucket in enumerate(buckets):
        completed[number[bucket.layers[-1]]].append(position)
    program = [Instruction(FORWARD, layer) for layer in range(len(workload.layers))]
    for layer in reversed(range(len(workload.layers))):
        program.append(Instruction(BACKWARD, layer))
        program += [Instruction(REDUCE, bucket) for bucket in completed[layer]]
    return [*program, Instruction(UPDATE)]


class LayerGroup(NamedTuple):
    """Layers of a stage that a pass computes together, with the buckets that it gathers before and reduces after."""

    layers: slice | None = None  # layers of the stage in the order of the pass; None: all
    gathers: tuple[int, ...] = ()  # buckets whose gathers are issued before the part computes
    reduces: int | None = None  # the bucket that its gradients complete


class StageParts(NamedTuple):
    """The parts of the passes of a stage; the ``last`` backward pass completes the gradients of all microbatches."""

    forward: Sequence[LayerGroup]
    backward: Sequence[LayerGroup]
    last: Sequence[LayerGroup]


def of_grid(passes: Sequence[Pass], parts: Sequence[StageParts], ties: int, gathered: int = 0) -> Iterator[Instruction]:
    """Yield the program of a pipeline: passes, sends to the next stage, then ties and updates.

    ``parts`` has those of each stage. The parameters of the first ``gathered`` buckets are gathered after the update.
    """
    stages = len(parts)
    last = {stage_pass.stage: stage_pass for stage_pass in passes if stage_pass.kind in ("B", "W")}
    for next_pass in passes:
        stage, microbatch, kind = next_pass
        of_pass = parts[stage].forward if kind == "F" else parts[stage].backward
        for part in parts[stage].last if next_pass == last[stage] else of_pass:
            for bucket in part.gathers:
                yield Instruction(GATHER, bucket)
            yield Instruction(PASS, stage, microbatch, kind, part.layers)
            if part.reduces is not None:
                yield Instruction(REDUCE, part.reduces)
        to = stage + next_pass.sends
        if 0 <= to < stages and to != stage:
            yield Instruction(SEND, stage, microbatch, to=to)
    yield from (Instruction(TIE, tie) for tie in range(ties))
    yield from (Instruction(UPDATE, stage) for stage in range(stages))
    yield from (Instruction(GATHER, bucket) for bucket in range(gathered))
