"""One row of a world file's tasks: each field is checked here, where its place in the file is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from topoflow.engine.collectives import ALGORITHMS, check_algorithm
from topoflow.fabric.links import LinkList, name_of, number, shorten
from topoflow.traffic.base import COLLECTIVES, Collective, Compute, Task, Transfer

COMMON = ("id", "type", "after", "start")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
RINGED = ("all_reduce", "all_gather", "reduce_scatter")
ORDERED = ("ring", "hierarchical")  # the algorithms that follow ring orders
MOST_LOCAL = 2**20


def fields(kind: str) -> tuple[str, ...]:
    """What a task of this type may have beside ``COMMON``."""
    if kind == "transfer":
        return ("bytes", "src", "dst", "path")
    if kind == "compute":
        return ("seconds", "server")
    own = {"root": kind in ROOTED, "orders": kind in RINGED, "splits": kind == "all_to_all"}
    return ("group", "bytes", "algorithm", "local", *(name for name, has in own.items() if has))


@dataclass(frozen=True)
class Row:
    """One object of ``tasks``, and the links it may speak of."""

    place: str  # "world.json: tasks[3]"
    values: Mapping[str, Any]
    links: LinkList
    nodes: Mapping[str, int]

    def fail(self, field: str, law: str) -> NoReturn:
        """Raise the ValueError for ``field``."""
        got = shorten(self.values[field]) if field in self.values else "nothing"
        raise ValueError(f"{self.place}.{field}: {law}, got {got}")

    @property
    def id(self) -> str:
        return name_of(f"{self.place}.id", self.values.get("id"))

    @property
    def start(self) -> float:
        return self.amount("start") if "start" in self.values else 0.0

    @property
    def after(self) -> list[str]:
        """The ids that it waits for."""
        values = self.values.get("after", [])
        if not isinstance(values, list):
            self.fail("after", "must be a list of ids")
        return [name_of(f"{self.place}.after[{index}]", value) for index, value in enumerate(values)]

    def amount(self, field: str) -> float:
        """A number that is not negative."""
        if field not in self.values:
            self.fail(field, "must be given")
        value = number(f"{self.place}.{field}", self.values[field])
        if not 0 <= value < float("inf"):
            self.fail(field, "must not be negative" if value < 0 else "must be finite")
        return value

    def node(self, field: str) -> int:
        """A node by name."""
        if field not in self.values:
            self.fail(field, "must be given")
        return self._node(f"{self.place}.{field}", self.values[field])

    def _node(self, place: str, value: object) -> int:
        name = name_of(place, value)
        if name not in self.nodes:
            raise ValueError(f"{place}: must be a node of the links, got {shorten(name)}")
        return self.nodes[name]

    def members(self, place: str, values: object) -> tuple[int, ...]:
        """Nodes by name, each once."""
        if not isinstance(values, list) or not values:
            raise ValueError(f"{place}: must be a list of nodes, got {shorten(values)}")
        nodes = tuple(self._node(f"{place}[{index}]", value) for index, value in enumerate(values))
        if len(set(nodes)) != len(nodes):
            raise ValueError(f"{place}: must name each node once, got {shorten(values)}")
        return nodes

    @staticmethod
    def of(place: str, value: object, links: LinkList, nodes: Mapping[str, int]) -> Row:
        """An object of a known type with known fields."""
        if not isinstance(value, dict):
            raise ValueError(f"{place}: must be an object, got {shorten(value)}")
        row = Row(place, value, links, nodes)
        kind = value.get("type")
        if kind not in ("transfer", "compute", *COLLECTIVES):
            row.fail("type", f"must be transfer, compute, {', '.join(COLLECTIVES)}")
        allowed = (*COMMON, *fields(kind))
        for field in value:
            if field not in allowed:
                row.fail(field, f"must be a field of a {kind} ({', '.join(allowed)})")
        return row

    def task(self, after: tuple[int, ...]) -> Task:
        """The task that this row describes, behind the tasks ``after``."""
        if self.values["type"] == "transfer":
            source, target, path = self._ends()
            return Transfer(self.amount("bytes"), source, target, after, self.id, self.start, path)
        if self.values["type"] == "compute":
            server = self.node("server") if "server" in self.values else None
            return Compute(self.amount("seconds"), server, after, self.id, self.start)
        return self._collective(after)

    def _ends(self) -> tuple[int, int, tuple[int, ...] | None]:
        """Source, target and the path where the file gives one; then the ends may be left out."""
        if "path" not in self.values:
            return self.node("src"), self.node("dst"), None
        path = self._path()
        source, target = int(self.links.source[path[0]]), int(self.links.target[path[-1]])
        for field, end in (("src", source), ("dst", target)):
            if field in self.values and self.node(field) != end:
                self.fail(field, f"must be the end {self.links.nodes[end]!r} of the path")
        return source, target, path

    def _path(self) -> tuple[int, ...]:
        path, count = self.values["path"], len(self.links.source)
        if not isinstance(path, list) or not path:
            self.fail("path", "must be a list of links")
        for index, link in enumerate(path):
            if type(link) is not int or not 0 <= link < count:
                raise ValueError(
                    f"{self.place}.path[{index}]: must be a link within 0..{count - 1}, got {shorten(link)}"
                )
        for before, link in pairwise(path):
            if self.links.target[before] != self.links.source[link]:
                ends = self.links.nodes[self.links.target[before]], self.links.nodes[self.links.source[link]]
                law = f"link {link} must begin where link {before} ends, at {ends[0]!r}"
                raise ValueError(f"{self.place}.path: {law}, got {ends[1]!r}")
        if len(set(path)) != len(path):
            self.fail("path", "must cross a link once")
        return tuple(path)

    def _collective(self, after: tuple[int, ...]) -> Collective:
        op = self.values["type"]
        group = self.members(f"{self.place}.group", self.values.get("group"))
        algorithm = self.values.get("algorithm")
        if "algorithm" in self.values:
            if not isinstance(algorithm, str):
                self.fail("algorithm", f"must be one of {', '.join(ALGORITHMS[op])}")
            check_algorithm(f"{self.place}.algorithm", op, algorithm)
        local = self.values.get("local", 1)
        if type(local) is not int or not 1 <= local <= MOST_LOCAL:
            self.fail("local", f"must be a whole number within 1..{MOST_LOCAL}")
        if "splits" in self.values and ("bytes" in self.values or local > 1):
            self.fail("splits", "must be given without bytes and without local")
        if op in ROOTED and self.node("root") not in group:
            self.fail("root", "must be in the group")
        return Collective(
            op=op,
            bytes=0.0 if "splits" in self.values else self.amount("bytes"),
            group=group,
            after=after,
            name=self.id,
            start=self.start,
            root=self.node("root") if op in ROOTED else None,
            splits=self._splits(len(group)) if "splits" in self.values else None,
            local=local,
            algorithm=algorithm,
        )

    def _splits(self, size: int) -> tuple[tuple[float, ...], ...]:
        splits = self.values["splits"]
        if (
            not isinstance(splits, list)
            or [len(row) if isinstance(row, list) else -1 for row in splits] != [size] * size
        ):
            self.fail("splits", f"must be {size} lists of {size} numbers")
        for i, row in enumerate(splits):
            for j, value in enumerate(row):
                place = f"{self.place}.splits[{i}][{j}]"
                if not 0 <= number(place, value) < float("inf"):
                    raise ValueError(f"{place}: must be finite and not negative, got {shorten(value)}")
        return tuple(tuple(float(value) for value in row) for row in splits)

    def orders(self, group: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The ring orders of a collective among ``group``: those of the file, or that of the group."""
        if "orders" not in self.values:
            return (group,)
        orders = self.values["orders"]
        if self.values.get("algorithm", "ring") not in ORDERED:
            self.fail("orders", f"must belong to one of {', '.join(ORDERED)}")
        if not isinstance(orders, list) or not orders:
            self.fail("orders", "must be a list of orders of the group")
        found = tuple(self.members(f"{self.place}.orders[{index}]", order) for index, order in enumerate(orders))
        for index, order in enumerate(found):
            if sorted(order) != sorted(group):
                law = "must have the nodes of the group"
                raise ValueError(f"{self.place}.orders[{index}]: {law}, got {shorten(orders[index])}")
        return found
