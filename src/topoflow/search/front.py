"""Choosing between plans by an objective."""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.fabric.prices import front
from topoflow.search.base import Plan


def chosen(plans: Sequence[Plan], objective: str) -> list[int]:
    """The numbers of the plans that the objective asks for, cheapest or quickest first.

    - ``time``: the shortest iteration, of equal ones the cheapest.
    - ``cost``: the least USD * s, the price of the network times the iteration: what an iteration costs is in
      proportion to it, however many years the network is written off over.
    - ``power``: the least W * s, the energy that the network takes in an iteration.
    - ``pareto``: all that no other plan beats in time and price, the cheapest first.

    Raises ``ValueError`` where a plan has no price and the objective needs it.
    """
    if objective == "pareto":
        return front([_priced(plan, "cost") for plan in plans], [plan.iteration_time for plan in plans])
    if objective == "time":
        keys = [(plan.iteration_time, plan.cost if plan.cost is not None else float("inf")) for plan in plans]
    else:
        keys = [(_priced(plan, objective) * plan.iteration_time, plan.iteration_time) for plan in plans]
    return [min(range(len(plans)), key=lambda number: keys[number])]


def _priced(plan: Plan, name: str) -> float:
    price = plan.cost if name == "cost" else plan.power
    if price is None:
        raise ValueError(f"search.objective: needs the {name} of {plan.fabric}, which has no bill of materials")
    return price
