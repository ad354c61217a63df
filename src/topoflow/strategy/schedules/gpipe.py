"""GPipe: all forward passes, then all backward passes. All microbatches are kept; the bubble is that of 1F1B.

Source: Huang et al., "GPipe", NeurIPS 2019, section 2.3.
"""

from __future__ import annotations

from topoflow.strategy.schedules.base import Pass, ScheduleRule


def passes(rank: int, ranks: int, microbatches: int, virtual: int = 1) -> list[Pass]:
    """Return the passes of one rank."""
    return [Pass(rank, number, kind) for kind in "FB" for number in range(microbatches)]


RULE = ScheduleRule(passes, virtual=1)
