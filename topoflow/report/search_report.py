"""SearchReport: where a search began, what it found, and how it went.

Shapes: n servers, L links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import Timeline
from topoflow.engine.lowering.algorithms import algorithms
from topoflow.fabric.base import Fabric
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.report.draw.history import History
from topoflow.strategy.base import Strategy
from topoflow.strategy.words import servers
from topoflow.units import human

ROWS = 12  # groups in a table

Switch = tuple[int | None, ...]
Group = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class State:
    """A strategy on a network: what it sends [n, n] and when it runs. ``demand[i, j]`` are bytes from i to j."""

    strategy: Strategy
    fabric: Fabric
    timeline: Timeline
    demand: NDArray[np.float64]
    all_reduces: frozenset[Group]  # servers that all-reduce with each other
    memory: float | None = None  # B that the strategy needs on the fullest GPU; None of a recorded job

    def __post_init__(self) -> None:
        size = self.fabric.servers
        if self.demand.shape != (size, size):
            raise ValueError(f"state.demand: expected [n, n] = [{size}, {size}], got {list(self.demand.shape)}")
        if len(self.timeline.link_bytes) != self.fabric.links:
            raise ValueError(
                f"state.timeline.link_bytes: expected [L] = [{self.fabric.links}], "
                f"got [{len(self.timeline.link_bytes)}]"
            )

    @property
    def time(self) -> float:
        """s, of one training step."""
        return self.timeline.makespan

    @property
    def utilization(self) -> NDArray[np.float64]:
        """Share [L] of what each link could carry in the step that it did carry."""
        possible = self.fabric.bandwidth * self.time
        return np.divide(self.timeline.link_bytes, possible, out=np.zeros_like(possible), where=possible > 0)


@dataclass(frozen=True)
class TooLarge:
    """A strategy that was given to begin with, but needs more memory than there is."""

    strategy: Strategy
    memory: float  # B that it needs on the fullest GPU
    gpu_memory: float  # B that a GPU has

    def instead(self, began: State) -> str:
        """Where the search began, in a sentence."""
        needs = "" if began.memory is None else f" ({human(began.memory, 'B')})"
        return (
            f"The strategy given ({self.strategy.name}) needs {human(self.memory, 'B')} per GPU, has "
            f"{human(self.gpu_memory, 'B')}: the search began with {began.strategy.difference(self.strategy)}{needs}."
        )


@dataclass(frozen=True, eq=False)
class SearchReport:
    """A search: where it began, what it found, and how it went.

    ``circuits[i]`` is what optical switch i joins: for every server the one that receives what it transmits, None where
    the port is dark; () where there are no optical switches. Law: circuits are links of the network that was found.
    """

    workload: str
    command: str  # what was typed, to reproduce it
    before: State
    after: State
    bound: float  # s, the least time that ``after`` can take
    cost: float | None  # USD; None when the fabric has no bill of materials
    power: float | None  # W
    circuits: tuple[Switch, ...]
    history: History
    all_reduce: str = "hierarchical"
    too_large: TooLarge | None = None  # None: the search began with the strategy that was given

    def __post_init__(self) -> None:
        fabric = self.after.fabric
        links = set(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
        for number, switch in enumerate(self.circuits):
            for circuit in enumerate(switch):
                if circuit[1] is not None and circuit not in links:
                    raise ValueError(f"circuits[{number}]: must be links of {fabric.name}, got {list(circuit)}")

    @property
    def title(self) -> str:
        """``dlrm on 16 servers, topoopt with 4 interfaces of 100 Gb/s``"""
        fabric = self.after.fabric
        speed = human(8 * fabric.interface_bandwidth, "b/s")
        interfaces = f"{fabric.degree} interface{'s' if fabric.degree > 1 else ''} of {speed}"
        return f"{self.workload} on {counted(fabric.servers, 'server')}, {fabric.name} with {interfaces}"

    @property
    def answer(self) -> str:
        """What was found, in a sentence."""
        before, after = self.before.time, self.after.time
        took = f"A training step takes {human(after, 's')}, "
        if after >= before:
            took += "as where the search began: it found nothing faster."
        elif before < 2 * after:
            took += f"{100 * (1 - after / before):.2g} % less than where the search began ({human(before, 's')})."
        else:
            took += f"{before / after:.3g} times as fast as where the search began ({human(before, 's')})."
        return took if self.cost is None else f"{took} The network costs ${self.cost:,.0f}."

    @property
    def notes(self) -> list[str]:
        """What a person has to know in addition to the answer."""
        return [] if self.too_large is None else [self.too_large.instead(self.before)]

    @property
    def numbers(self) -> list[tuple[str, str, str]]:
        """(what, before, after), for a table."""
        states = (self.before, self.after)
        busiest = [f"{100 * float(state.utilization.max(initial=0.0)):.3g} %" for state in states]
        sent = [human(float(state.demand.sum()), "B") for state in states]
        needed = ["-" if state.memory is None else human(state.memory, "B") for state in states]
        return [
            ("training step", human(self.before.time, "s"), human(self.after.time, "s")),
            ("least that a step can take there (lower bound)", "", human(self.bound, "s")),
            ("busiest link, of what it could carry", busiest[0], busiest[1]),
            ("sent between servers in a step", sent[0], sent[1]),
            ("memory per GPU, at least", needed[0], needed[1]),
            ("links", f"{self.before.fabric.links:,}", f"{self.after.fabric.links:,}"),
            ("price of the network", "", "-" if self.cost is None else f"${self.cost:,.0f}"),
            ("power of the network", "", "-" if self.power is None else f"{self.power:,.0f} W"),
        ]

    @property
    def orders(self) -> list[tuple[str, str]]:
        """(servers of an all-reduce, the strides of what was built for it), the largest groups first.

        A network has rings for groups that do not all-reduce, too: so that all of its servers are joined.
        """
        fabric = self.after.fabric
        built = [("ring", *item) for item in fabric.channels.rings.items()] + [
            ("pair of trees", *item) for item in fabric.channels.trees.items()
        ]
        used = [each for each in built if each[1] in self.after.all_reduces]
        rows = [
            (servers(group), self._built(what, group, of))
            for what, group, of in sorted(used, key=lambda each: -len(each[1]))
        ]
        more = len(rows) - ROWS
        return rows if more <= 0 else [*rows[:ROWS], (f"{more} more groups", "in plan.json")]

    def _built(self, what: str, group: Group, orders: Sequence[Group]) -> str:
        """``3 rings: +1 (2 times), +5``; where all-reduces do not use rings, that only the circuits are these."""
        found = _orders(what, group, orders)
        return (
            found
            if _plural(what).endswith(self._form)
            else f"circuits wired as {found}; all-reduces go by {self._form}"
        )

    @property
    def wired_otherwise(self) -> str:
        """What circuits are wired as where that is for other all-reduces than the job's; "" where it is for them."""
        fabric = self.after.fabric
        built = {"rings": fabric.channels.rings, "trees": fabric.channels.trees}
        wired = [what for what, orders in built.items() if orders]
        if not wired or (self.after.all_reduces and self._form in wired):
            return ""
        runs = f"all-reduces go by {self._form}" if self.after.all_reduces else "nothing all-reduces"
        return f"circuits wired as {' and '.join(wired)}; {runs}"

    @property
    def sends(self) -> tuple[str, str]:
        """How all-reduces go between servers, before and after."""
        return self._sent(self.before), self._sent(self.after)

    def _sent(self, state: State) -> str:
        if not state.all_reduces:
            return "no all-reduces"
        orders = {"rings": state.fabric.channels.rings, "trees": state.fabric.channels.trees}.get(self._form)
        if orders is None:
            return f"all-reduces by {self._form}"
        built = any(group in orders for group in state.all_reduces)
        return (
            f"all-reduces over the {self._form} of the network" if built else f"{self._form} in the order of each group"
        )

    @property
    def _form(self) -> str:
        """What the job's all-reduces are between servers: ``rings``, ``trees``, ``halving doubling``."""
        return algorithms()[self.all_reduce].orders or self.all_reduce.replace("_", " ")

    @property
    def went(self) -> str:
        """How many proposals and simulations there were, in a sentence."""
        history = self.history
        simulated = sum(len(each.simulated) for each in history.rounds)
        topologies = sum(each.new_topology for each in history.rounds)
        proposals = f"{int(history.proposals[-1]) if len(history.proposals) else 0:,} proposals"
        if len(history.rate):
            proposals += f" ({np.median(history.rate):,.0f} evaluations per second, median)"
        rounds = f"{counted(len(history.rounds), 'round')}, of which {topologies} ended with another topology"
        return f"{rounds}. {proposals}; {counted(simulated, 'simulation')}."

    @property
    def strategy(self) -> list[tuple[str, str]]:
        """(layers, where they are)."""
        return self.after.strategy.rows()


def quickest(reports: Mapping[str, SearchReport]) -> list[str]:
    """The order of searches wherever they are listed."""
    return sorted(reports, key=lambda name: reports[name].after.time)


def counted(count: int, what: str) -> str:
    """``1 round``, ``2 rounds``"""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _orders(what: str, group: Group, orders: Sequence[Group]) -> str:
    """``3 rings: +1 (2 times), +5``"""
    times = Counter(_stride(group, order) for order in orders)
    strides = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in times.items())
    return f"{len(orders)} {what if len(orders) == 1 else _plural(what)}: {strides}"


def _plural(what: str) -> str:
    return what.replace("pair", "pairs") if what.startswith("pair") else f"{what}s"


def _stride(group: Group, order: Group) -> str:
    """``+5``, or how an order without a stride begins."""
    found = stride(group, order)
    return f"+{found}" if found is not None else f"{', '.join(map(str, order[:4]))}, ..."
