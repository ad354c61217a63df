"""Pipeline schedules: the order of the passes of each stage, from which ``program.of_grid`` makes a program.

One forward, one backward (1F1B): stage i of p begins with the forward passes of p - 1 - i microbatches, then does one
forward and one backward in turn, and ends with the remaining backward passes. So it keeps at most p - i microbatches.
Example with p = 2, m = 3:

    stage 0    F0 F1 B0 F2 B1 B2
    stage 1       F0 B0 F1 B1 F2 B2

The step takes (m + p - 1) (forward + backward) if all stages are equal and sending takes no time: the bubble is
(p - 1) / m of the work of one stage.

Interleaved 1F1B: each of p ranks has v smaller stages; rank i has the stages i, i + p, i + 2 p, ... Microbatches go in
groups of p through one stage of a rank after the other, forward and then back. Example with p = 2, v = 2, m = 2, as
stage.microbatch:

    rank 0    F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1
    rank 1    F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1

The bubble is (p - 1) / (m v), at the cost of v p - 1 handovers instead of p - 1.

Source: Narayanan et al., SC 2021, sections 2.2.1 (PipeDream-Flush) and 2.2.2 (interleaved); the order of the latter is
that of megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pass:
    """The forward or backward pass of a microbatch through a stage."""

    stage: int
    microbatch: int
    forward: bool


def stage_order(stage: int, stages: int, microbatches: int) -> list[Pass]:
    """Return the passes of one stage."""
    warm = min(stages - 1 - stage, microbatches)
    order = [Pass(stage, number, True) for number in range(warm)]
    for number in range(warm, microbatches):
        order += [Pass(stage, number, True), Pass(stage, number - warm, False)]
    return order + [Pass(stage, number, False) for number in range(microbatches - warm, microbatches)]


def interleaved_order(rank: int, ranks: int, microbatches: int, virtual: int) -> list[Pass]:
    """Return the passes of one rank with ``virtual`` stages; ``ranks`` must divide ``microbatches``."""
    total = microbatches * virtual
    warm = min(2 * (ranks - 1 - rank) + (virtual - 1) * ranks, total)

    def nth_pass(number: int, forward: bool) -> Pass:
        """Return the ``number``-th pass in one direction."""
        group, chunk = divmod(number // ranks, virtual)
        stage = (chunk if forward else virtual - 1 - chunk) * ranks + rank
        return Pass(stage, group * ranks + number % ranks, forward)

    order = [nth_pass(number, True) for number in range(warm)]
    for number in range(warm, total):
        order += [nth_pass(number, True), nth_pass(number - warm, False)]
    return order + [nth_pass(number, False) for number in range(total - warm, total)]


def one_f_one_b(stages: int, microbatches: int) -> list[Pass]:
    """Return all passes under 1F1B in an order in which each follows the pass whose output it reads."""
    return _merged([stage_order(stage, stages, microbatches) for stage in range(stages)], stages)


def interleaved(ranks: int, microbatches: int, virtual: int) -> list[Pass]:
    """Return all passes under interleaved 1F1B in an order in which each follows the pass whose output it reads."""
    orders = [interleaved_order(rank, ranks, microbatches, virtual) for rank in range(ranks)]
    return _merged(orders, ranks * virtual)


def _merged(orders: list[list[Pass]], stages: int) -> list[Pass]:
    waiting = [order[::-1] for order in orders]
    order: list[Pass] = []
    done: set[Pass | None] = {None}
    while any(waiting):
        for queue in waiting:
            while queue and _source(queue[-1], stages) in done:
                order.append(queue.pop())
                done.add(order[-1])
    return order


def _source(reader: Pass, stages: int) -> Pass | None:
    """Return the pass of the neighbouring stage whose output ``reader`` reads; None at the ends of the pipeline."""
    neighbour = reader.stage - 1 if reader.forward else reader.stage + 1
    return Pass(neighbour, reader.microbatch, reader.forward) if 0 <= neighbour < stages else None
