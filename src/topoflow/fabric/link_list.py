"""Lists of links in files, for ``fabric=links`` and world files. Shapes: L links, N nodes."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fields import decode, name_of, number, parse_json, shorten
from topoflow.files import read_bytes
from topoflow.units import check_bandwidth, check_not_negative

COLUMNS = ("src", "dst", "bandwidth", "latency")


@dataclass(frozen=True)
class LinkList:
    """Directed links between named nodes, as listed in a file. Shapes: L links, N nodes.

    ``nodes`` are in the order of their first appearance; ``servers`` are the names of the file's field "servers".
    """

    nodes: tuple[str, ...]  # [N]
    source: NDArray[np.int32]  # [L] node
    target: NDArray[np.int32]  # [L] node
    bandwidth: NDArray[np.float64]  # [L] B/s
    latency: NDArray[np.float64]  # [L] s
    servers: tuple[str, ...] = ()

    def taken(self, links: NDArray[np.bool_]) -> LinkList:
        """Return some of the links [L], and their ends."""
        used, number = np.unique(np.concatenate([self.source[links], self.target[links]]), return_inverse=True)
        source, target = np.split(number.reshape(-1).astype(np.int32), 2)
        names = tuple(self.nodes[node] for node in used.tolist())
        return LinkList(names, source, target, self.bandwidth[links], self.latency[links])

    def index(self) -> dict[str, int]:
        """Return node number by name."""
        return {name: node for node, name in enumerate(self.nodes)}


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
        raise ValueError(f"{path}: servers: must be a list of names, got {shorten(names)}")
    servers = tuple(name_of(f"{path}: servers[{position}]", name) for position, name in enumerate(names))
    if "links" not in content:
        raise ValueError(f"{path}: must have 'links', got {sorted(content)}")
    return parse_links(content["links"], f"{path}: links", servers)


def parse_links(rows: object, where: str, servers: tuple[str, ...] = ()) -> LinkList:
    """Check the rows of a list of links and number their nodes.

    ``rows`` is a parsed JSON list of objects with ``COLUMNS``, ``where`` its file and field for errors:
    ``"world.json: links"`` gives ``"world.json: links[3].bandwidth: must be positive, got -1"``.
    """
    if not isinstance(rows, list):
        raise ValueError(f"{where}: must be a list, got {type(rows).__name__}")
    return _collect(where, ((f"{where}[{position}]", row) for position, row in enumerate(rows)), servers)


def read_json(path: FilePath) -> Any:
    """Return the content of a JSON file made by hand, whose fields are checked later."""
    return parse_json(str(path), read_bytes(path), unique=True, constants=True)


def _read_csv(path: FilePath) -> LinkList:
    try:
        reader = csv.reader(io.StringIO(decode(str(path), read_bytes(path)), newline=""), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
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
            raise ValueError(f"{place}: must be an object with {', '.join(COLUMNS)}, got {shorten(row)}")
        problems = [f"{key!r} is missing" for key in COLUMNS if key not in row]
        problems += [f"{key!r} is unknown" for key in row if key not in COLUMNS]
        if problems:
            raise ValueError(f"{place}: must have {', '.join(COLUMNS)}, {' and '.join(problems[:2])}")
        source, target = name_of(f"{place}.src", row["src"]), name_of(f"{place}.dst", row["dst"])
        if source == target:
            raise ValueError(f"{place}: must join two nodes, got {source!r} twice")
        ends.append((nodes.setdefault(source, len(nodes)), nodes.setdefault(target, len(nodes))))
        bandwidth.append(number(f"{place}.bandwidth", row["bandwidth"]))
        check_bandwidth(f"{place}.bandwidth", bandwidth[-1])
        latency.append(number(f"{place}.latency", row["latency"]))
        check_not_negative(f"{place}.latency", latency[-1])
    if not ends:
        raise ValueError(f"{where}: must have at least one link, got none")
    pairs = np.array(ends, dtype=np.int32)
    return LinkList(tuple(nodes), pairs[:, 0], pairs[:, 1], np.array(bandwidth), np.array(latency), servers)


def first_repeated(names: Sequence[str]) -> str:
    return next(name for name, count in Counter(names).items() if count > 1)
