"""Plan: the result of a search, which can be saved, compared and applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.fields import parse_json, shorten
from topoflow.strategy.base import Strategy
from topoflow.strategy.plain import strategy_from_json, tuples
from topoflow.units import check_not_negative, check_positive

FORMAT = "topoflow plan 2"
ROUTED = ("all_reduce", "mp")  # kinds of traffic
Switch = tuple[int | None, ...]  # [n] the server that receives from each server's transmit port; None: dark
Circuits = tuple[Switch, ...]
Routes = tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]  # [n][n] paths, each a list of servers


@dataclass(frozen=True)
class PlanRing:
    """The ring orders of an all-reduce group, each of which carries an equal share."""

    group: tuple[int, ...]
    strides: tuple[int | None, ...]  # step in the group from each member to the next, per order; None: not constant
    orders: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PlanTrees:
    """The orders of an all-reduce group whose double binary trees each carry an equal share."""

    group: tuple[int, ...]
    orders: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Plan:
    """A strategy and a network that runs it. Units are SI; servers are numbered from 0.

    Every server has an interface at each of ``degree`` optical switches; ``circuits[i]`` is the partial permutation of
    switch i. A fabric with electrical switches has no circuits and no routes. All groups of servers that all-reduce
    have ``rings`` (or ``trees``, by ``all_reduce``). Constraints: servers exist, a switch joins no port twice, orders
    are permutations of their group, routes use existing circuits from source to target, and the strategy has the same
    number of servers.
    """

    workload: str
    servers: int
    strategy: Mapping[str, Any]  # as JSON; ``strategy_from_json`` reads it
    fabric: str
    degree: int  # interfaces per server
    bandwidth: float  # B/s of an interface
    circuits: Circuits
    rings: tuple[PlanRing, ...]
    trees: tuple[PlanTrees, ...]
    routes: Mapping[str, Routes]  # kind of traffic -> paths
    all_reduce: str
    routing: str
    seed: int
    bound: float  # s, lower bound of the iteration time in ``fluid``
    fidelity: str  # the fidelity that predicts ``iteration_time``
    iteration_time: float  # s
    cost: float | None = None  # USD of the network
    power: float | None = None  # W

    def __post_init__(self) -> None:
        for name in ("servers", "degree", "bandwidth"):
            check_positive(f"plan.{name}", getattr(self, name))
        for name in ("bound", "iteration_time", "seed"):
            check_not_negative(f"plan.{name}", getattr(self, name))
        for name in ("servers", "degree", "seed"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"plan.{name}: must be a whole number, got {getattr(self, name)}")
        for name in ("cost", "power"):
            if getattr(self, name) is not None:
                check_not_negative(f"plan.{name}", getattr(self, name))
        if self.chosen().servers != self.servers:
            raise ValueError(f"plan.strategy.servers: must be {self.servers}, got {self.chosen().servers}")
        if len(self.circuits) not in (0, self.degree):
            raise ValueError(f"plan.circuits: must be {self.degree} switches or none, got {len(self.circuits)}")
        for number, switch in enumerate(self.circuits):
            self._check_switch(f"plan.circuits[{number}]", switch)
        for number, ring in enumerate(self.rings):
            self._check_orders(f"plan.rings[{number}]", ring)
            strides = tuple(stride(ring.group, order) for order in ring.orders)
            if ring.strides != strides:
                rule = f"must be those of its orders, {list(strides)}"
                raise ValueError(f"plan.rings[{number}].strides: {rule}, got {list(ring.strides)}")
        for number, trees in enumerate(self.trees):
            self._check_orders(f"plan.trees[{number}]", trees)
        for kind, routes in self.routes.items():
            self._check_routes(f"plan.routes.{kind}", routes)
        if set(self.routes) != (set(ROUTED) if self.circuits else set()):
            rule = f"must be {' and '.join(ROUTED)} with circuits, and none without"
            raise ValueError(f"plan.routes: {rule}, got {', '.join(self.routes) or 'none'}")

    def chosen(self) -> Strategy:
        """Return the strategy as an object."""
        return strategy_from_json(self.strategy, "plan.strategy")

    def to_json(self) -> str:
        """Return JSON with a field per line, and a server per line in large fields."""
        plain = {"format": FORMAT, **asdict(self)}
        lines = [f"  {json.dumps(key)}: {_lines(value)}" for key, value in plain.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str, where: str = "plan.json") -> Plan:
        """Read a plan. Raises ``ValueError`` that names ``where``, field, rule and value."""
        plain = parse_json(where, text)
        if not isinstance(plain, dict) or plain.pop("format", None) != FORMAT:
            raise ValueError(f"{where}.format: must be {FORMAT!r}")
        names = {field.name for field in fields(cls)}
        for key in sorted(names ^ set(plain)):
            raise ValueError(f"{where}: {key}: {'must be given' if key in names else 'no such field'}")
        try:
            _check_lists("plan.circuits", plain["circuits"], 2)
            for key in ("rings", "trees"):
                _check_lists(f"plan.{key}", plain[key], 1)
            if not isinstance(plain["routes"], dict):
                raise ValueError(f"plan.routes: must be an object, got {shorten(plain['routes'])}")
            for kind, routes in plain["routes"].items():
                _check_lists(f"plan.routes.{kind}", routes, 4)
            plain["circuits"] = tuples(plain["circuits"])
            plain["rings"] = tuple(PlanRing(**values) for values in _members("rings", PlanRing, plain["rings"]))
            plain["trees"] = tuple(PlanTrees(**values) for values in _members("trees", PlanTrees, plain["trees"]))
            plain["routes"] = {kind: tuples(routes) for kind, routes in plain["routes"].items()}
            plan = cls(**plain)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{where}: {error}") from error
        return plan

    def _check_switch(self, where: str, switch: Switch) -> None:
        joined = [server for server in switch if server is not None]
        if len(switch) != self.servers:
            raise ValueError(f"{where}: must have a port for each of {self.servers} servers, got {len(switch)}")
        self._check_servers(where, joined)
        if len(set(joined)) != len(joined):
            raise ValueError(f"{where}: must join every receive port once, got {joined}")

    def _check_orders(self, where: str, ring: PlanRing | PlanTrees) -> None:
        self._check_servers(where, ring.group)
        for order in ring.orders:
            self._check_servers(f"{where}.orders", order)
            if sorted(order) != sorted(ring.group):
                raise ValueError(f"{where}.orders: must be orders of the group {list(ring.group)}, got {list(order)}")

    def _check_routes(self, where: str, routes: Routes) -> None:
        joined = {(i, j) for switch in self.circuits for i, j in enumerate(switch)}
        for size in (len(routes), *map(len, routes)):
            if size != self.servers:
                raise ValueError(
                    f"{where}: must have a row and a column for each of {self.servers} servers, got {size}"
                )
        for source, row in enumerate(routes):
            for target, path in ((target, path) for target, paths in enumerate(row) for path in paths):
                self._check_servers(f"{where}[{source}][{target}]", path)
                if (path[:1], path[-1:]) != ((source,), (target,)):
                    raise ValueError(f"{where}[{source}][{target}]: must lead from one to the other, got {list(path)}")
                for hop in pairwise(path):
                    if hop not in joined:
                        raise ValueError(f"{where}: must use circuits that exist, got {list(hop)} in {list(path)}")

    def _check_servers(self, where: str, servers: tuple[int, ...] | list[int]) -> None:
        for server in servers:
            if not isinstance(server, int) or not 0 <= server < self.servers:
                raise ValueError(f"{where}: must be servers within 0..{self.servers - 1}, got {server!r}")


def _check_lists(where: str, value: object, depth: int) -> None:
    """Raise ``ValueError`` unless a value is a list, of lists of lists where ``depth`` is three."""
    if not isinstance(value, list):
        raise ValueError(f"{where}: must be a list, got {shorten(value)}")
    for number, item in enumerate(value if depth > 1 else ()):
        _check_lists(f"{where}[{number}]", item, depth - 1)


def _lines(value: Any) -> str:
    """Return the JSON of a field; a list of lists has a line for each."""
    if isinstance(value, Mapping) and value:
        inner = [f"    {json.dumps(key)}: {_rows(item, 6)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + "\n  }"
    return _rows(value, 4)


def _rows(value: Any, indent: int) -> str:
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple | Mapping):
        inner = [" " * indent + json.dumps(row, separators=(",", ":")) for row in value]
        return "[\n" + ",\n".join(inner) + "\n" + " " * (indent - 2) + "]"
    return json.dumps(value)


def _members(key: str, kind: type[PlanRing] | type[PlanTrees], plain: list[Any]) -> list[dict[str, Any]]:
    """Return the fields of every ring or pair of trees. Raises ``ValueError`` that names an invalid one."""
    names = [field.name for field in fields(kind)]
    for number, member in enumerate(plain):
        where = f"plan.{key}[{number}]"
        if not isinstance(member, dict) or set(member) != set(names):
            raise ValueError(f"{where}: must have the fields {', '.join(names)}, got {member!r}")
        for name in names:
            listed = isinstance(member[name], list)
            if not listed or (name == "orders" and any(not isinstance(order, list) for order in member[name])):
                rule = "a list of lists" if name == "orders" else "a list"
                raise ValueError(f"{where}.{name}: must be {rule}, got {member[name]!r}")
    return [{name: tuples(value) for name, value in member.items()} for member in plain]
