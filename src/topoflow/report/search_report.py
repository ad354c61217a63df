"""SearchReport: the start, the result and the history of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.case.base import Job, Result
from topoflow.collectives.algorithm import algorithms
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.search.history import SearchHistory
from topoflow.strategy.words import servers
from topoflow.units import counted, human

ROWS = 12  # groups in a table

Switch = tuple[int | None, ...]
Group = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SearchReport:
    """The start, the result and the history of a search.

    ``circuits[i]`` is the permutation of optical switch i: for every server the one that receives from it, None for a
    dark port; () without optical switches. Circuits must be links of the resulting network.
    """

    command: str  # as typed, to reproduce the search
    requested: Job  # the requested start; ``before`` differs from it only if it does not fit in memory
    before: Result
    after: Result
    bound: float  # s, lower bound of the time of ``after`` in ``fluid``
    circuits: tuple[Switch, ...]
    history: SearchHistory
    unpermuted: Result | None = None  # ``after`` in the ring orders of its fabric; None if these are its orders

    def __post_init__(self) -> None:
        fabric = self.after.fabric
        links = set(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
        for number, switch in enumerate(self.circuits):
            for circuit in enumerate(switch):
                if circuit[1] is not None and circuit not in links:
                    raise ValueError(f"circuits[{number}]: must be links of {fabric.name}, got {list(circuit)}")

    @property
    def title(self) -> str:
        """Return ``dlrm on 16 servers, topoopt with 4 interfaces of 100 Gb/s``."""
        fabric = self.after.fabric
        interfaces = f"{counted(fabric.degree, 'interface')} of {human(8 * fabric.interface_bandwidth, 'b/s')}"
        return f"{self.after.settings.workload} on {counted(fabric.servers, 'server')}, {fabric.name} with {interfaces}"

    @property
    def answer(self) -> str:
        """Return the result in a sentence."""
        before, after = self.before.iteration_time, self.after.iteration_time
        took = f"A training step takes {human(after, 's')}, "
        if after >= before:
            took += "as where the search began: it found nothing faster."
        elif before < 2 * after:
            took += f"{100 * (1 - after / before):.2g} % less than where the search began ({human(before, 's')})."
        else:
            took += f"{before / after:.3g} times as fast as where the search began ({human(before, 's')})."
        cost = self.after.cost
        return took if cost is None else f"{took} The network costs ${cost:,.0f}."

    @property
    def notes(self) -> list[str]:
        """Return what a user has to know in addition to the answer."""
        return [*self._permuted, *self._too_large]

    @property
    def _permuted(self) -> list[str]:
        """Return a sentence about the gain of the ring orders that the search chose, if any."""
        if self.unpermuted is None:
            return []
        before, after = self.unpermuted.iteration_time, self.after.iteration_time
        share = f"{100 * (1 - after / before):.2g} % of a training step"
        return [f"The ring orders save {share}: in the servers' own order it takes {human(before, 's')}."]

    @property
    def _too_large(self) -> list[str]:
        """Return a sentence if the requested start did not fit in memory."""
        requested, start = self.requested, self.before
        if requested.fits:
            return []
        needs = "" if start.memory is None else f" ({human(start.memory, 'B')})"
        return [
            f"The strategy given ({requested.strategy.name}) needs {human(requested.memory or 0.0, 'B')} per GPU, has "
            f"{requested.room}: the search began with {start.strategy.difference(requested.strategy)}{needs}."
        ]

    @property
    def numbers(self) -> list[tuple[str, str, str]]:
        """Return (quantity, before, after) for a table."""
        ends = (self.before, self.after)
        busiest = [f"{100 * float(result.utilization.max(initial=0.0)):.3g} %" for result in ends]
        sent = [human(float(result.flow_matrix.sum()), "B") for result in ends]
        needed = ["-" if result.memory is None else human(result.memory, "B") for result in ends]
        cost, power = self.after.cost, self.after.power
        return [
            ("training step", human(self.before.iteration_time, "s"), human(self.after.iteration_time, "s")),
            ("least that a step takes there in fluid (lower bound)", "", human(self.bound, "s")),
            ("busiest link, of what it could carry", busiest[0], busiest[1]),
            ("sent between servers in a step", sent[0], sent[1]),
            ("memory per GPU, at least", needed[0], needed[1]),
            ("links", f"{self.before.fabric.links:,}", f"{self.after.fabric.links:,}"),
            ("price of the network", "", "-" if cost is None else f"${cost:,.0f}"),
            ("power of the network", "", "-" if power is None else f"{power:,.0f} W"),
        ]

    @property
    def orders(self) -> list[tuple[str, str]]:
        """Return (servers of an all-reduce, the strides of its rings or trees), the largest groups first.

        A network may have rings for other groups, too, which join all of its servers.
        """
        fabric = self.after.fabric
        built = [("ring", *item) for item in fabric.channels.rings.items()] + [
            ("pair of trees", *item) for item in fabric.channels.trees.items()
        ]
        used = [item for item in built if item[1] in self.after.all_reduces]
        rows = [
            (servers(group), self._built(what, group, orders))
            for what, group, orders in sorted(used, key=lambda item: -len(item[1]))
        ]
        more = len(rows) - ROWS
        return rows if more <= 0 else [*rows[:ROWS], (f"{more} more groups", "in plan.json")]

    def _built(self, what: str, group: Group, orders: Sequence[Group]) -> str:
        """Return ``3 rings: +1 (2 times), +5``.

        If all-reduces have another form, say that only the circuits have this one.
        """
        text = _orders(what, group, orders)
        same_form = _plural(what).endswith(self._form)
        return text if same_form else f"circuits wired as {text}; all-reduces go by {self._form}"

    @property
    def wired_otherwise(self) -> str:
        """Return a note if circuits were built for other all-reduces than the job's; otherwise ""."""
        fabric = self.after.fabric
        built = {"rings": fabric.channels.rings, "trees": fabric.channels.trees}
        wired = [what for what, orders in built.items() if orders]
        if not wired or (self.after.all_reduces and self._form in wired):
            return ""
        runs = f"all-reduces go by {self._form}" if self.after.all_reduces else "nothing all-reduces"
        return f"circuits wired as {' and '.join(wired)}; {runs}"

    @property
    def sends(self) -> tuple[str, str]:
        """Return the form of all-reduces between servers, before and after."""
        return self._sent(self.before), self._sent(self.after)

    def _sent(self, result: Result) -> str:
        if not result.all_reduces:
            return "no all-reduces"
        orders = {"rings": result.fabric.channels.rings, "trees": result.fabric.channels.trees}.get(self._form)
        if orders is None:
            return f"all-reduces by {self._form}"
        built = any(group in orders for group in result.all_reduces)
        return (
            f"all-reduces over the {self._form} of the network" if built else f"{self._form} in the order of each group"
        )

    @property
    def _form(self) -> str:
        """Return the form of the job's all-reduces between servers: ``rings``, ``trees``, ``halving doubling``."""
        name = self.after.case.lowering.all_reduce
        return algorithms()[name].orders or name.replace("_", " ")

    @property
    def effort(self) -> str:
        """Return the numbers of rounds, proposals and simulations in a sentence."""
        history = self.history
        simulated = sum(len(finished.simulated) for finished in history.rounds)
        topologies = sum(finished.new_topology for finished in history.rounds)
        proposals = f"{history.num_proposals:,} proposals"
        if len(history.steps):
            proposals += f" ({np.median(history.rate):,.0f} evaluations per second, median)"
        rounds = f"{counted(len(history.rounds), 'round')}, of which {topologies} ended with another topology"
        return f"{rounds}. {proposals}; {counted(simulated, 'simulation')}."

    @property
    def strategy(self) -> list[tuple[str, str]]:
        """Return (layers, their servers)."""
        return self.after.strategy.rows()


def quickest(reports: Mapping[str, SearchReport]) -> list[str]:
    """Return the names of searches, quickest first, the order of all lists."""
    return sorted(reports, key=lambda name: reports[name].after.iteration_time)


def _orders(what: str, group: Group, orders: Sequence[Group]) -> str:
    """Return ``3 rings: +1 (2 times), +5``."""
    counts = Counter(_stride(group, order) for order in orders)
    strides = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in counts.items())
    return f"{len(orders)} {what if len(orders) == 1 else _plural(what)}: {strides}"


def _plural(what: str) -> str:
    return what.replace("pair", "pairs") if what.startswith("pair") else f"{what}s"


def _stride(group: Group, order: Group) -> str:
    """Return ``+5``, or the first servers of an order without a stride."""
    step = stride(group, order)
    return f"+{step}" if step is not None else f"{', '.join(map(str, order[:4]))}, ..."
