"""One forward, one backward: in which order the stages of a pipeline work on the microbatches.

Stage i of p begins with the forward passes of p - 1 - i microbatches, then does one forward and one backward in turn,
and ends with the backward passes that are left; so it never keeps more than p - i microbatches. p = 2, m = 3:

    stage 0    F0 F1 B0 F2 B1 B2
    stage 1       F0 B0 F1 B1 F2 B2

The step takes (m + p - 1) (forward + backward) where all stages are alike and sending costs nothing: the bubble is
(p - 1) / m of what one stage works. Source: Narayanan et al., SC 2021, section 2.2.1 (PipeDream-Flush).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pass:
    stage: int
    microbatch: int
    forward: bool


def stage_order(stage: int, stages: int, microbatches: int) -> list[Pass]:
    """The passes of one stage."""
    warm = min(stages - 1 - stage, microbatches)
    order = [Pass(stage, number, True) for number in range(warm)]
    for number in range(warm, microbatches):
        order += [Pass(stage, number, True), Pass(stage, number - warm, False)]
    return order + [Pass(stage, number, False) for number in range(microbatches - warm, microbatches)]


def one_f_one_b(stages: int, microbatches: int) -> list[Pass]:
    """All passes, each stage's in its order and each behind the pass whose output it reads."""
    waiting = [stage_order(stage, stages, microbatches)[::-1] for stage in range(stages)]
    order: list[Pass] = []
    made: set[Pass | None] = {None}
    while any(waiting):
        for queue in waiting:
            while queue and _source(queue[-1], stages) in made:
                order.append(queue.pop())
                made.add(order[-1])
    return order


def _source(one: Pass, stages: int) -> Pass | None:
    """The pass of the neighbour that hands ``one`` its input; None at the ends of the pipeline."""
    neighbour = one.stage - 1 if one.forward else one.stage + 1
    return Pass(neighbour, one.microbatch, one.forward) if 0 <= neighbour < stages else None
