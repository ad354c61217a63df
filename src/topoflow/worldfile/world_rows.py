"""Rows of a world file's tasks, and the checks of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Any

from topoflow.collectives.algorithm import check_algorithm, following, names
from topoflow.fabric.base import Path
from topoflow.fabric.link_list import LinkList
from topoflow.fields import Fields, name_of, number, shorten
from topoflow.operations import COLLECTIVES, ROOTED
from topoflow.traffic.base import Collective, Compute, Subflow, Task, Transfer
from topoflow.units import check_bandwidth, check_not_negative, check_share

COMMON = ("id", "type", "after", "start")
RINGED = ("all_reduce", "all_gather", "reduce_scatter")
ORDERED = following("rings")
MAX_LOCAL = 2**20


def fields(kind: str) -> tuple[str, ...]:
    """Return the fields that a task of this type may have in addition to ``COMMON``."""
    if kind == "transfer":
        return ("bytes", "src", "dst", "path", "paths", "limit")
    if kind == "compute":
        return ("seconds", "server")
    optional = {"root": kind in ROOTED, "orders": kind in RINGED, "splits": kind == "all_to_all"}
    return ("group", "bytes", "algorithm", "local", *(name for name, has in optional.items() if has))


@dataclass(frozen=True)
class TaskRow(Fields):
    """One object of ``tasks``, with the links that it may refer to."""

    links: LinkList
    nodes: Mapping[str, int]

    @property
    def id(self) -> str:
        return name_of(f"{self.place}id", self.values.get("id"))

    @property
    def start(self) -> float:
        return self.amount("start") if "start" in self.values else 0.0

    @property
    def after(self) -> list[str]:
        """Return the ids that the task waits for."""
        values = self.values.get("after", [])
        if not isinstance(values, list):
            self.fail("after", "must be a list of ids")
        return [name_of(f"{self.place}after[{index}]", value) for index, value in enumerate(values)]

    def amount(self, field: str) -> float:
        """Return a number that is finite and not negative."""
        return _checked(check_not_negative, f"{self.place}{field}", self.require(field))

    def node(self, field: str) -> int:
        """Return the number of the node that the field names."""
        return self._node(f"{self.place}{field}", self.require(field))

    def _node(self, place: str, value: object) -> int:
        name = name_of(place, value)
        if name not in self.nodes:
            raise ValueError(f"{place}: must be a node of the links, got {shorten(name)}")
        return self.nodes[name]

    def members(self, place: str, values: object) -> tuple[int, ...]:
        """Return the numbers of distinct nodes, given by name."""
        if not isinstance(values, list) or not values:
            raise ValueError(f"{place}: must be a list of nodes, got {shorten(values)}")
        nodes = tuple(self._node(f"{place}[{index}]", value) for index, value in enumerate(values))
        if len(set(nodes)) != len(nodes):
            raise ValueError(f"{place}: must name each node once, got {shorten(values)}")
        return nodes

    @staticmethod
    def of_task(place: str, value: object, links: LinkList, nodes: Mapping[str, int]) -> TaskRow:
        """Return the row of an object. Raises ``ValueError`` for an unknown type or field."""
        row = TaskRow(f"{place}.", Fields.of(place, value).values, links, nodes)
        kind = row.values.get("type")
        if kind not in ("transfer", "compute", *COLLECTIVES):
            row.fail("type", f"must be transfer, compute, {', '.join(COLLECTIVES)}")
        allowed = (*COMMON, *fields(kind))
        for field in row.values:
            if field not in allowed:
                row.fail(field, f"must be a field of a {kind} ({', '.join(allowed)})")
        return row

    def task(self, after: tuple[int, ...]) -> Task:
        """Return the task that this row describes; it waits for the tasks ``after``."""
        if self.values["type"] == "transfer":
            subflows = self._subflows()
            source, target = self._ends(subflows[0].links) if subflows else (self.node("src"), self.node("dst"))
            limit = float("inf")
            if "limit" in self.values:
                limit = _checked(check_bandwidth, f"{self.place}limit", self.values["limit"])
            return Transfer(self.amount("bytes"), source, target, after, self.id, self.start, subflows, limit)
        if self.values["type"] == "compute":
            server = self.node("server") if "server" in self.values else None
            return Compute(self.amount("seconds"), server, after, self.id, self.start)
        return self._collective(after)

    def _ends(self, path: Path) -> tuple[int, int]:
        """Return source and target of a path. Raises ``ValueError`` where the row names others."""
        source, target = int(self.links.source[path[0]]), int(self.links.target[path[-1]])
        for field, end in (("src", source), ("dst", target)):
            if field in self.values and self.node(field) != end:
                self.fail(field, f"must be the end {self.links.nodes[end]!r} of the path")
        return source, target

    def _subflows(self) -> tuple[Subflow, ...]:
        """Return the given paths with their shares of the bytes; empty if the row has none."""
        if "path" in self.values and "paths" in self.values:
            self.fail("paths", "must be given without path")
        if "path" in self.values:
            return (Subflow(self._path(f"{self.place}path", self.values["path"])),)
        if "paths" not in self.values:
            return ()
        rows = self.values["paths"]
        if not isinstance(rows, list) or not rows:
            self.fail("paths", "must be a list of paths")
        subflows = tuple(self._subflow(f"{self.place}paths[{index}]", row) for index, row in enumerate(rows))
        for index, subflow in enumerate(subflows):
            if self._ends(subflow.links) != self._ends(subflows[0].links):
                rule = "must begin and end where the first path does"
                raise ValueError(f"{self.place}paths[{index}]: {rule}, got {list(subflow.links)}")
        total = fsum(subflow.weight for subflow in subflows)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"{self.place}paths: weights must sum to 1, got {total:.12g}")
        return subflows

    def _subflow(self, place: str, value: object) -> Subflow:
        if not isinstance(value, dict) or set(value) != {"links", "weight"}:
            raise ValueError(f"{place}: must be an object with links and weight, got {shorten(value)}")
        weight = _checked(check_share, f"{place}.weight", value["weight"])
        return Subflow(self._path(f"{place}.links", value["links"]), weight)

    def _path(self, place: str, path: object) -> Path:
        count = len(self.links.source)
        if not isinstance(path, list) or not path:
            raise ValueError(f"{place}: must be a list of links, got {shorten(path)}")
        for index, link in enumerate(path):
            if type(link) is not int or not 0 <= link < count:
                raise ValueError(f"{place}[{index}]: must be a link within 0..{count - 1}, got {shorten(link)}")
        for before, link in pairwise(path):
            if self.links.target[before] != self.links.source[link]:
                ends = self.links.nodes[self.links.target[before]], self.links.nodes[self.links.source[link]]
                rule = f"link {link} must begin where link {before} ends, at {ends[0]!r}"
                raise ValueError(f"{place}: {rule}, got {ends[1]!r}")
        if len(set(path)) != len(path):
            raise ValueError(f"{place}: must cross a link once, got {shorten(path)}")
        return tuple(path)

    def _collective(self, after: tuple[int, ...]) -> Collective:
        op = self.values["type"]
        group = self.members(f"{self.place}group", self.values.get("group"))
        algorithm = self.values.get("algorithm")
        if "algorithm" in self.values:
            if not isinstance(algorithm, str):
                self.fail("algorithm", f"must be one of {', '.join(names(op))}")
            check_algorithm(f"{self.place}algorithm", op, algorithm)
        local = self.values.get("local", 1)
        if type(local) is not int or not 1 <= local <= MAX_LOCAL:
            self.fail("local", f"must be a whole number within 1..{MAX_LOCAL}")
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
        place = f"{self.place}splits"
        return tuple(
            tuple(_checked(check_not_negative, f"{place}[{i}][{j}]", value) for j, value in enumerate(row))
            for i, row in enumerate(splits)
        )

    def orders(self, group: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Return the ring orders of a collective among ``group``: those of the file, or that of the group."""
        if "orders" not in self.values:
            return (group,)
        orders = self.values["orders"]
        if self.values.get("algorithm", "ring") not in ORDERED:
            self.fail("orders", f"must belong to one of {', '.join(ORDERED)}")
        if not isinstance(orders, list) or not orders:
            self.fail("orders", "must be a list of orders of the group")
        members = tuple(self.members(f"{self.place}orders[{index}]", order) for index, order in enumerate(orders))
        for index, order in enumerate(members):
            if sorted(order) != sorted(group):
                rule = "must have the nodes of the group"
                raise ValueError(f"{self.place}orders[{index}]: {rule}, got {shorten(orders[index])}")
        return members


def _checked(check: Callable[[str, float], None], place: str, value: Any) -> float:
    """Return ``value`` as a number. Raises ``ValueError`` unless it is one and passes ``check``."""
    amount = number(place, value)
    check(place, value)  # as it was written
    return amount
