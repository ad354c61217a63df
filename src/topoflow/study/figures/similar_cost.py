"""Networks of similar cost: TopoOpt's fat-tree of links d * B'.

"B' is lower than B and is selected such that Fat-tree's cost is similar to TopoOpt" (5.1). The paper does not give B'.
There are two rules (``RULES``):

``authors``: B' = B / 4, as the authors' public scripts imply (github.com/hipersys-team/TopoOpt, simulation/scripts).

- fig16 simulates fat-trees and ideal switches of 100, 200, 400 and 800 Gb/s per server, for B = 100 Gb/s: 400 and 800
  are d * B of the ideal switch at d = 4 and d = 8, so that 100 and 200 are d * B' of the fat-tree.
- fig11_17 simulates both at 10, 25, 40, 80, 100, 160, 200, 320, 400, 800 and 1600 Gb/s, for B = 10, 25, 40, 100 and
  200: d * B at both degrees are all of these but 10 and 25. Those are B, which is d * B' at d = 4. (At d = 8 they would
  be 20 and 50, which are missing; 80, 200 and 400 are there.)

``prices``: what the price list gives. It has a few speeds (Table 2: 10, 25, 40, 100 and 200 Gb/s; faster links are
several of the fastest, note 4), and with none of them a fat-tree costs exactly as much as TopoOpt. B' is interpolated
linearly between the prices of listed speeds and of multiples of the fastest:

    cost
     |                 o 400 Gb/s (2 x 200)
     |    budget ---- /-                       B' * d where the line crosses the budget
     |             o 200 Gb/s  |
     |      o 100              |
     +----------------------------- bandwidth of a link

B' is at most B, as the paper says: a budget that would buy more is not spent entirely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.prices import Prices
from topoflow.units import gbps

AUTHORS_SHARE = 1 / 4  # B' / B, see above


def by_authors(design: FabricDesign, rival: FabricDesign, servers: int, prices: Prices) -> tuple[FabricDesign, float]:
    """``design`` with a quarter of the bandwidth of ``rival``, and what it costs (USD)."""
    fast: Any = rival
    slow = _with(design, AUTHORS_SHARE * fast.degree * fast.bandwidth)
    return slow, prices.cost(unwired(slow, servers).bill)


def by_prices(design: FabricDesign, rival: FabricDesign, servers: int, prices: Prices) -> tuple[FabricDesign, float]:
    """Return ``design`` with the fastest links for which it costs at most as much as ``rival``, and its cost (USD).

    Its links are at most as fast as those of ``design``. Raises ``ValueError`` where even the slowest listed links cost
    more than the rival.
    """
    priced_design: Any = design
    budget = prices.cost(unwired(rival, servers).bill)

    def cost(link: float) -> float:
        """Return the cost (USD) with links of this speed (B/s), a listed one."""
        return float(prices.cost(unwired(_with(priced_design, link), servers).bill))

    most = priced_design.degree * priced_design.bandwidth
    link, spent = fastest_within(budget, most, listed_speeds(prices), cost)
    if link <= 0:
        name = type(design).__name__
        raise ValueError(f"{name}: must cost at most the {budget:,.0f} USD of its rival, got {spent:,.0f} USD")
    return _with(priced_design, link), spent


RULES: Mapping[str, Callable[[FabricDesign, FabricDesign, int, Prices], tuple[FabricDesign, float]]] = {
    "authors": by_authors,
    "prices": by_prices,
}


def unwired(design: FabricDesign, servers: int) -> Fabric:
    """The network as it is bought: its bill does not depend on the demand, here an all-reduce among all servers."""
    return design.build(servers, Demand(servers, {tuple(range(servers)): 1.0}))


def _with(design: Any, link: float) -> Any:
    """The design with links of this speed (B/s), each of ``degree`` interfaces."""
    return replace(design, bandwidth=link / design.degree)


def listed_speeds(prices: Prices) -> tuple[float, ...]:
    """The speeds (B/s) of a price list, ascending; 100 Gb/s for a list of prices per Gb/s, which has all speeds."""
    tables = [value for tariff in prices.usd.values() for value in tariff.values() if isinstance(value, Mapping)]
    return tuple(sorted({gbps(speed) for table in tables for speed in table} or {gbps(100)}))


def fastest_within(
    budget: float, most: float, speeds: tuple[float, ...], cost: Callable[[float], float]
) -> tuple[float, float]:
    """The fastest link (B/s, at most ``most``) whose ``cost`` (USD) is within ``budget``, and what it costs.

    (0, cost of the slowest) if even the slowest listed link costs more. ``cost`` must not decrease with speed.
    """
    knots = _knots(speeds)
    slow = next(knots)
    lower = cost(slow)
    if lower > budget:
        return 0.0, lower
    while True:
        if most <= slow:
            return most, lower  # a link slower than all listed ones costs as much as the slowest of them
        fast = next(knots)
        upper = cost(fast)
        reach = min(most, fast)
        if upper > budget:
            reach = min(reach, slow + (fast - slow) * (budget - lower) / (upper - lower))
        if reach < fast:
            return reach, lower + (upper - lower) * (reach - slow) / (fast - slow)
        slow, lower = fast, upper


def _knots(speeds: tuple[float, ...]) -> Iterator[float]:
    yield from speeds
    yield from (several * speeds[-1] for several in count(2))
