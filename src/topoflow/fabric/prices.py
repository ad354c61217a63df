"""Price lists: the cost and the power of a bill of materials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from topoflow.fabric.base import Item
from topoflow.fabric.wiring import check_count
from topoflow.units import check_not_negative, check_positive

BYTES_PER_GIGABIT = 1e9 / 8
HOURS_PER_YEAR = 365 * 24
TARIFFS = ("each", "per_gbps", "by_gbps")
Tariff = Mapping[str, float | Mapping[float, float]]


@dataclass(frozen=True)
class Prices:
    """The USD and W of every component, in the units of a price list. Each component has one tariff.

    - ``each: 100``: the same at any speed.
    - ``per_gbps: 1``: proportional to the Gb/s of its link.
    - ``by_gbps: {10: 20, 100: 99}``: listed speeds. A link between two speeds takes the faster; a link beyond the
      fastest takes several of the fastest in parallel, as TopoOpt prices 200 Gb/s (Appendix G, note 4).

    Only price lists are in Gb/s; bills are in B/s. The tariff of ``nic_port`` may be that of a card of several ports; a
    port then counts as its share of a card.
    """

    usd: Mapping[str, Tariff]
    watts: Mapping[str, Tariff]
    nic_ports: int = 1  # number of ports of a card, if the tariff of nic_port is that of a card
    years: float | None = None  # of use, over which a price is spread; None: a step has no cost
    usd_per_kwh: float = 0.0
    power_usage: float = 1.0  # power of the building over that of its computers

    def __post_init__(self) -> None:
        check_count("prices.nic_ports", self.nic_ports)
        if self.years is not None:
            check_positive("prices.years", self.years)
        check_not_negative("prices.usd_per_kwh", self.usd_per_kwh)
        check_positive("prices.power_usage", self.power_usage)
        for field in ("usd", "watts"):
            for component, tariff in getattr(self, field).items():
                _check_tariff(f"prices.{field}.{component}", tariff)

    def cost(self, bill: Sequence[Item]) -> Any:
        """Return the USD of all items; of items whose bandwidths are columns, a column."""
        return self._total("usd", bill)

    def power(self, bill: Sequence[Item]) -> Any:
        """Return the W of all items; of items whose bandwidths are columns, a column."""
        return self._total("watts", bill)

    def missing(self, bill: Sequence[Item]) -> tuple[str, ...]:
        """Return the components of the bill that have no price or no power."""
        components = dict.fromkeys(item.component for item in bill)
        return tuple(name for name in components if name not in self.usd or name not in self.watts)

    def cost_of_step(self, cost: float, power: float, seconds: float) -> float | None:
        """Return the USD of using parts for ``seconds``: a share of their ``cost`` (USD), and of ``power`` (W)."""
        if self.years is None:
            return None
        hours = seconds / 3600
        energy = power / 1e3 * self.power_usage * hours  # kWh
        return cost * hours / (self.years * HOURS_PER_YEAR) + energy * self.usd_per_kwh

    def _total(self, field: str, bill: Sequence[Item]) -> Any:
        total: Any = 0.0
        tariffs = self._tariffs[field]
        for item in bill:
            if item.component not in tariffs:
                raise ValueError(f"prices.{field}: must have {item.component}, got {', '.join(sorted(tariffs))}")
            parts = item.count / self.nic_ports if item.component == "nic_port" else item.count
            kind, value, speeds = tariffs[item.component]
            gbps = item.bandwidth / BYTES_PER_GIGABIT
            if len(speeds):
                place = np.minimum(np.searchsorted(speeds, gbps * (1 - 1e-9)), len(speeds) - 1)
                total += parts * (np.maximum(1, np.ceil(gbps / speeds[place] - 1e-9)) * value[place])
            else:
                total += parts * (value * gbps if kind == "per_gbps" else value)
        return total if isinstance(total, np.ndarray) else float(total)

    @cached_property
    def _tariffs(self) -> Mapping[str, Mapping[str, tuple[str, Any, Any]]]:
        """The kind of each tariff, its value, and the speeds that it lists, ascending, each with a value."""
        return {
            field: {
                component: (kind, *_sorted(value))
                for component, tariff in getattr(self, field).items()
                for kind, value in tariff.items()
            }
            for field in ("usd", "watts")
        }


def _sorted(value: float | Mapping[float, float]) -> tuple[Any, Any]:
    """Return the value of a tariff and no speeds, or arrays of the values at each speed, and of the speeds."""
    if not isinstance(value, Mapping):
        return value, ()
    return np.array([value[speed] for speed in sorted(value)]), np.array(sorted(value))


def front(prices: Sequence[float], times: Sequence[float]) -> list[int]:
    """Return the indices of the Pareto-optimal entries in price and time, cheapest first.

    Only the first of equal entries counts. ``front([10, 20, 20, 30], [3, 2, 2, 2]) == [0, 1]``
    """
    best: list[int] = []
    for number in sorted(range(len(prices)), key=lambda number: (prices[number], times[number])):
        if not best or times[number] < times[best[-1]]:
            best.append(number)
    return best


def _check_tariff(place: str, tariff: Tariff) -> None:
    if not isinstance(tariff, Mapping) or len(tariff) != 1 or next(iter(tariff)) not in TARIFFS:
        got = ", ".join(map(str, tariff)) if isinstance(tariff, Mapping) else tariff
        raise ValueError(f"{place}: must be one of {', '.join(TARIFFS)}, got {got}")
    ((kind, value),) = tariff.items()
    if isinstance(value, Mapping) != (kind == "by_gbps") or value == {}:
        raise ValueError(
            f"{place}.{kind}: must be {'speeds and prices' if kind == 'by_gbps' else 'a number'}, got {value}"
        )
    for speed, price in value.items() if isinstance(value, Mapping) else [(1.0, value)]:
        check_positive(f"{place}.{kind}", speed)
        check_not_negative(f"{place}.{kind}", price)
