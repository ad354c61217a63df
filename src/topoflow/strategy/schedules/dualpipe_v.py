"""DualPipeV: DualPipe, cut in half: rank i of p has the stages i and 2 p - 1 - i, which work in opposite directions.

In the middle, a forward pass of one stage and a backward pass of the other are overlapped, so that each hides the
communication of the other. If both end together, the bubble is (p - 1) (F&B + B - 3 W) of passes of one stage. As in
torch's default, they run here one after the other, the forward pass first, so that its output is ready sooner.
Sources: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1; github.com/deepseek-ai/DualPipe, README and
dualpipe/dualpipev.py.
"""

from __future__ import annotations

from itertools import count

from topoflow.strategy.schedules.base import Pass, ScheduleRule


def passes(rank: int, ranks: int, microbatches: int, virtual: int = 2) -> list[Pass]:
    """Return the passes of one rank, in the eight steps of the source."""
    forward, backward = (count(), count()), (count(), count())
    order: list[Pass] = []
    waiting: list[Pass] = []  # gradients of weights
    stages = rank, 2 * ranks - 1 - rank

    def add(chunk: int, kind: str) -> None:
        number = next((forward if kind == "F" else backward)[chunk])
        order.append(Pass(stages[chunk], number, kind))
        if kind == "I":
            waiting.append(Pass(stages[chunk], number, "W"))

    def add_weights() -> None:
        order.extend(waiting[:1])
        del waiting[:1]

    for _ in range(2 * (ranks - rank - 1)):
        add(0, "F")
    for _ in range(rank + 1):
        add(0, "F")
        add(1, "F")
    for _ in range(ranks - rank - 1):
        add(1, "I")
        add_weights()
        add(1, "F")
    for _ in range(microbatches - 2 * ranks + rank + 1):
        add(0, "F")
        add(1, "B")
        add(1, "F")
        add(0, "B")
    for _ in range(ranks - rank - 1):
        add(1, "B")
        add(1, "F")
        add(0, "B")
    for number in range(rank + 1):  # the second half of them leaves the gradients of weights for later
        half = (rank + 1) // 2
        add(1, "I" if number >= half + (rank % 2 == 0) else "B")
        add(0, "I" if number >= half else "B")
    for _ in range(ranks - rank - 1):
        add_weights()
        add(0, "I")
    for _ in range(rank + 1):
        add_weights()
    return order


def enough(ranks: int, microbatches: int) -> str:
    """Return the law of enough microbatches if it is broken."""
    return f"must be at least the {2 * ranks} stages with schedule=dualpipe_v" * (microbatches < 2 * ranks)


RULE = ScheduleRule(passes, virtual=2, v_shaped=True, splits=True, check=enough)
