"""Choice between plans by an objective."""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.fabric.prices import front
from topoflow.search.base import Plan


def chosen(plans: Sequence[Plan], objective: str) -> list[int]:
    """Return the indices of the plans that are best by the objective, cheapest or quickest first.

    - ``time``: the shortest iteration; the cheapest of equal ones.
    - ``cost``: the least USD * s, the price of the network times the iteration time, to which the cost of an iteration
      is proportional for any depreciation period.
    - ``power``: the least W * s, the energy of the network in an iteration.
    - ``pareto``: all plans that no other beats in both time and price, the cheapest first.

    Raises ``ValueError`` where a plan lacks a price that the objective needs.
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
