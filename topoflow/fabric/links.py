"""A user's own list of links, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.units import check_not_negative, check_positive

COLUMNS = ("src", "dst", "bandwidth", "latency")


@dataclass(frozen=True)
class LinkList:
    """Directed links between named nodes, as a file gives them. L links, N nodes.

    ``nodes`` are in the order of their first appearance; ``servers`` are the names that the file calls so.
    """

    nodes: tuple[str, ...]  # [N]
    source: NDArray[np.int32]  # [L] node
    target: NDArray[np.int32]  # [L] node
    bandwidth: NDArray[np.float64]  # [L] B/s
    latency: NDArray[np.float64]  # [L] s
    servers: tuple[str, ...] = ()

    def index(self) -> dict[str, int]:
        """Node by name."""
        return {name: node for node, name in enumerate(self.nodes)}


@dataclass(frozen=True)
class Links:
    """The network of a file, link by link.

        {"links": [{"src": "a", "dst": "b", "bandwidth": 12.5e9, "latency": 1e-6}, ...],      a ---> b
         "servers": ["a", "b"]}                                                                 <---
        src,dst,bandwidth,latency
        a,b,12.5e9,1e-6

    A link is one direction; both directions are two rows. Bandwidth is B/s, latency s. The endpoints of the
    traffic are ``hosts``, else the file's "servers", else all nodes in order of appearance, if they are as many as
    the servers; server i is the i-th of them. Every node forwards; flows are hashed over all shortest
    paths. The bill counts, at every node and speed, as many ports (with a transceiver each) as it has links in or out,
    whichever is more.
    """

    file: str
    hosts: Sequence[str | int] | None = None

    def build(self, servers: int, demand: Demand) -> Fabric:
        """Raises ValueError where the file is wrong, has too few hosts, or a host cannot reach another."""
        links = read_links(FilePath(self.file))
        hosts = self._hosts(links)
        if len(hosts) < servers:
            raise ValueError(f"{self.file}: must have a host for each of {servers} servers, got {len(hosts)}")
        if len(hosts) > servers and not (self.hosts or links.servers):  # the first may as well be switches
            which = f"which of the {len(hosts)} nodes of {self.file} are the {servers} servers"
            raise ValueError(f"fabric.hosts: must say {which}, as in fabric.hosts=[a,b], got none")
        order = list(dict.fromkeys([*hosts[:servers], *links.nodes]))
        place = {name: node for node, name in enumerate(order)}
        renumber = np.array([place[name] for name in links.nodes], dtype=np.int32)
        source, target = renumber[links.source], renumber[links.target]
        route = ShortestPaths(order, source, target)
        _check_reachable(self.file, order, servers, route)
        outgoing = Counter(node for node in source.tolist() if node < servers)
        at_servers = links.bandwidth[source < servers]
        return Fabric(
            name="links",
            servers=servers,
            nodes=tuple(order),
            source=source,
            target=target,
            bandwidth=links.bandwidth,
            latency=links.latency,
            route=route,
            degree=max(outgoing.values(), default=0),
            interface_bandwidth=float(at_servers.max(initial=0.0)),
            bill=_bill(servers, source, target, links.bandwidth),
        )

    def _hosts(self, links: LinkList) -> list[str]:
        given = [str(host) for host in self.hosts] if self.hosts is not None else []
        hosts = given or list(links.servers) or list(links.nodes)
        field = "links.hosts" if given else f"{self.file}: servers"
        known = set(links.nodes)
        for position, host in enumerate(hosts):
            if host not in known:
                raise ValueError(f"{field}[{position}]: must be an end of a link, got {host!r}")
        if len(set(hosts)) != len(hosts):
            raise ValueError(f"{field}: must name each host once, got {_first_repeated(hosts)!r} twice")
        return hosts


def read_links(path: FilePath) -> LinkList:
    """Read a list of links: JSON ``{"links": [...], "servers": [...]}`` or CSV with the header of ``COLUMNS``."""
    if path.suffix.lower() == ".csv":
        return _read_csv(path)
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: must be an object with 'links', got {type(content).__name__}")
    unknown = sorted(set(content) - {"links", "servers"})
    if unknown:
        raise ValueError(f"{path}: keys must be links and servers, got {unknown[0]!r}")
    names = content.get("servers", [])
    if not isinstance(names, list):
        raise ValueError(f"{path}: servers must be a list of names, got {names!r}")
    servers = tuple(name_of(f"{path}: servers[{position}]", name) for position, name in enumerate(names))
    if "links" not in content:
        raise ValueError(f"{path}: must have 'links', got {sorted(content)}")
    return parse_links(content["links"], f"{path}: links", servers)


def parse_links(rows: object, where: str, servers: tuple[str, ...] = ()) -> LinkList:
    """Check the rows of a list of links and number their nodes.

    ``rows`` is the list of objects with ``COLUMNS`` as a JSON reader gives it, ``where`` the file and field it
    came from: ``"world.json: links"`` makes ``"world.json: links[3].bandwidth: must be positive, got -1"``.
    """
    if not isinstance(rows, list):
        raise ValueError(f"{where}: must be a list, got {type(rows).__name__}")
    return _collect(where, ((f"{where}[{position}]", row) for position, row in enumerate(rows)), servers)


def read_json(path: FilePath) -> Any:
    """The content of a JSON file; a key that is given twice is an error, as is anything that is not JSON."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"keys must be unique, got {_first_repeated(keys)!r} twice")
        return dict(pairs)

    try:
        return json.loads(_read_text(path), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: line {error.lineno}: must be JSON, got {error.msg}") from error
    except RecursionError as error:
        raise ValueError(f"{path}: must be JSON of a sane depth, got too many brackets") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_text(path: FilePath) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"must be UTF-8, got byte {error.start} wrong") from error


def _read_csv(path: FilePath) -> LinkList:
    try:
        reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{path}: must be CSV, got {error}") from error
    header = [cell.strip() for cell in lines[0][1]] if lines else []
    if sorted(header) != sorted(COLUMNS):
        raise ValueError(f"{path}: line 1: columns must be {','.join(COLUMNS)}, got {','.join(header)!r}")
    places = []
    for line, cells in lines[1:]:
        if len(cells) != len(header):
            raise ValueError(f"{path}: line {line}: must have {len(header)} cells, got {len(cells)}")
        row = {column: cell.strip() for column, cell in zip(header, cells, strict=True)}
        places.append((f"{path}: line {line}", row | _numbers(f"{path}: line {line}", row)))
    return _collect(str(path), places, ())


def _numbers(place: str, row: Mapping[str, str]) -> dict[str, float]:
    numbers = {}
    for column in ("bandwidth", "latency"):
        try:
            numbers[column] = float(row[column])
        except ValueError as error:
            raise ValueError(f"{place}.{column}: must be a number, got {row[column]!r}") from error
    return numbers


def _collect(where: str, rows: Iterable[tuple[str, object]], servers: tuple[str, ...]) -> LinkList:
    nodes: dict[str, int] = {}
    ends: list[tuple[int, int]] = []
    bandwidth: list[float] = []
    latency: list[float] = []
    for place, row in rows:
        if not isinstance(row, Mapping):
            raise ValueError(f"{place}: must be an object with {', '.join(COLUMNS)}, got {row!r}")
        for key in (*COLUMNS, *row):
            if key not in row or key not in COLUMNS:
                problem = "is missing" if key not in row else "is unknown"
                raise ValueError(f"{place}: must have {', '.join(COLUMNS)}, {key!r} {problem}")
        source, target = name_of(f"{place}.src", row["src"]), name_of(f"{place}.dst", row["dst"])
        if source == target:
            raise ValueError(f"{place}: must join two nodes, got {source!r} twice")
        ends.append((nodes.setdefault(source, len(nodes)), nodes.setdefault(target, len(nodes))))
        bandwidth.append(number(f"{place}.bandwidth", row["bandwidth"]))
        check_positive(f"{place}.bandwidth", bandwidth[-1])
        latency.append(number(f"{place}.latency", row["latency"]))
        check_not_negative(f"{place}.latency", latency[-1])
    if not ends:
        raise ValueError(f"{where}: must have at least one link, got none")
    pairs = np.array(ends, dtype=np.int32)
    return LinkList(tuple(nodes), pairs[:, 0], pairs[:, 1], np.array(bandwidth), np.array(latency), servers)


def number(place: str, value: object) -> float:
    """A number that is no boolean, as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{place}: must be a number, got {shorten(value)}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{place}: must be finite, got {shorten(value)}") from error


def name_of(place: str, value: object) -> str:
    """A string or a whole number; 7 and "7" are the same name."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"{place}: must be a name or a whole number, got {shorten(value)}")
    name = str(value)
    if not name.isprintable():
        raise ValueError(f"{place}: must be printable, got {ascii(name)[:60]}")
    return name


def shorten(value: object) -> str:
    """A value for a message: one line of at most 60 characters, whatever a file holds."""
    if isinstance(value, int) and abs(value) > 10**60:
        return f"a whole number of {value.bit_length()} bits"
    text = f"{len(value)} values" if isinstance(value, list | dict) and len(value) > 20 else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _first_repeated(names: Sequence[str]) -> str:
    return next(name for name, count in Counter(names).items() if count > 1)


def _check_reachable(file: str, nodes: Sequence[str], servers: int, route: ShortestPaths) -> None:
    """All hosts reach each other exactly if the first reaches all and all reach the first."""
    for host in range(1, servers):
        for source, target in ((0, host), (host, 0)):
            if route.hops(source, target) < 0:
                ends = f"from {nodes[source]!r} to {nodes[target]!r}"
                raise ValueError(f"{file}: links: hosts must reach each other, got no path {ends}")


def _bill(
    servers: int, source: NDArray[np.int32], target: NDArray[np.int32], bandwidth: NDArray[np.float64]
) -> tuple[Item, ...]:
    """Ports and fibers by speed; a link and one back between the same two nodes share a cable."""
    bill: list[Item] = []
    for speed in np.unique(bandwidth).tolist():
        ends = list(zip(source[bandwidth == speed].tolist(), target[bandwidth == speed].tolist(), strict=True))
        there = Counter(ends)
        transmit, receive = Counter(start for start, _ in ends), Counter(end for _, end in ends)
        ports = transmit | receive  # the larger of the two, node by node
        at_servers = sum(count for node, count in ports.items() if node < servers)
        at_switches = ports.total() - at_servers
        fibers = sum((there | Counter({(b, a): count for (a, b), count in there.items()})).values()) / 2
        for component, count in (
            ("nic_port", at_servers),
            ("switch_port", at_switches),
            ("transceiver", at_servers + at_switches),
            ("fiber", fibers),
        ):
            if count:
                bill.append(Item(component, count, speed))
    return tuple(bill)
