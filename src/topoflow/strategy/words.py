"""Texts for layers and servers in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

MAX_ROWS = 12  # in a longer table, layers on equally many servers share a row

Holders = tuple[int, ...]
Row = tuple[str, str]  # layers, where they are


def layers(names: Sequence[str]) -> str:
    """Return the layers as text: ``embedding 0, ..., embedding 63 (64 layers)``."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, ..., {names[-1]} ({len(names)} layers)"


def servers(numbers: Sequence[int]) -> str:
    """Return the servers as text: ``0-15``, ``0, 4, ..., 12`` with a constant step, otherwise a shortened list."""
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and steps == {1}:
        return f"{numbers[0]}-{numbers[-1]}"
    if len(numbers) > 3 and len(steps) == 1:
        return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    return ", ".join(map(str, numbers[:8])) + (f", ... ({len(numbers)})" if len(numbers) > 8 else "")


def on_servers(numbers: Sequence[int]) -> str:
    """Return the servers as text: ``on servers 0-15``."""
    return f"on server{'s' if len(numbers) > 1 else ''} {servers(numbers)}"


def placement_rows(placement: Mapping[str, Holders], count: int) -> list[Row]:
    """Return one row for the layers with the same holders; layers on a single server share a row."""
    same: dict[Holders, list[str]] = {}
    by_size: dict[int, list[str]] = {}
    for layer, holders in placement.items():
        same.setdefault(holders if len(holders) > 1 else (), []).append(layer)
        by_size.setdefault(len(holders), []).append(layer)
    if len(same) > MAX_ROWS:
        return [(layers(names), _spread(placement, names, size, count)) for size, names in by_size.items()]
    return [(layers(names), _where(placement, names, holders, count)) for holders, names in same.items()]


def _where(placement: Mapping[str, Holders], names: Sequence[str], holders: Holders, count: int) -> str:
    """Describe the servers of layers that are all on ``holders``; () means each on a single server."""
    if 0 < len(holders) < count:
        return on_servers(holders)
    return _spread(placement, names, len(holders) or 1, count)


def _spread(placement: Mapping[str, Holders], names: Sequence[str], size: int, count: int) -> str:
    """Describe how many of the layers, each on ``size`` of ``count`` servers, the servers hold."""
    if size == count:
        return "on all servers (data parallel)"
    if len(names) == 1:
        return on_servers(placement[names[0]])
    held = [0] * count
    for name in names:
        for server in placement[name]:
            held[server] += 1
    holders = "one server" if size == 1 else f"{size} servers"
    share = f"{held[0]} on every" if len(set(held)) == 1 else f"{min(held)} to {max(held)} on a"
    return f"each on {holders}; {share} server"
