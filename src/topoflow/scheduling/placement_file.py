"""Reader of the placements that ``topoflow place`` writes: the servers of a cluster that each request got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoflow.fields import decode, parse_json, shorten
from topoflow.files import read_bytes
from topoflow.units import check_count


@dataclass(frozen=True)
class PlacedRequest:
    """The distinct ``servers`` (ascending) that a request got in a cluster of ``cluster_servers``."""

    servers: tuple[int, ...]
    cluster_servers: int

    def __post_init__(self) -> None:
        check_count("placement.cluster_servers", self.cluster_servers)
        if not self.servers or list(self.servers) != sorted(set(self.servers)):
            raise ValueError(f"placement.servers: must be ascending, each once, got {shorten(self.servers)}")
        if not 0 <= self.servers[0] <= self.servers[-1] < self.cluster_servers:
            rule = f"must be within 0..{self.cluster_servers - 1}"
            raise ValueError(f"placement.servers: {rule}, got {shorten(self.servers)}")


def read_placement(file: str, request: str | None) -> PlacedRequest:
    """Return the placement of ``request``, or the only one of ``file`` (None). Errors name file and line."""
    by_line: dict[int, PlacedRequest] = {}
    names = []
    lines = decode(file, read_bytes(Path(file))).split("\n")  # splitlines() also cuts at U+2028, which names may have
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        row = parse_json(place, line)
        if not isinstance(row, Mapping) or not {"request", "servers", "cluster_servers"} <= set(row):
            raise ValueError(f"{place}: must have request, servers and cluster_servers, got {shorten(row)}")
        names.append(str(row["request"]))
        if request in (None, names[-1]):
            by_line[number] = _placed(place, row)
    if len(by_line) == 1:
        return next(iter(by_line.values()))
    if not by_line:
        known = f"it has {len(names)}, e.g. {names[0]}" if names else "it has none"
        raise ValueError(f"request: must be one that {file} has a placement of, {known}, got {request}")
    if request is None:
        raise ValueError(f"request: must be given, as {file} has {len(by_line)} placements, e.g. request={names[0]}")
    rule = "must have a request once: topoflow place with one cluster, one policy and one seed writes such a file"
    raise ValueError(f"placement: {rule}; got {request} in lines {', '.join(map(str, by_line))} of {file}")


def _placed(place: str, row: Mapping[str, Any]) -> PlacedRequest:
    servers, cluster = row["servers"], row["cluster_servers"]
    if not isinstance(servers, list) or not all(type(server) is int for server in servers):
        raise ValueError(f"{place}: servers must be a list of whole numbers, got {shorten(servers)}")
    try:
        return PlacedRequest(tuple(servers), cluster)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
