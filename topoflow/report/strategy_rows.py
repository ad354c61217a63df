"""A strategy in words: which layers are where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid
from topoflow.strategy.shards import Shards

ROWS = 12  # of a table that a person reads; where there are more, layers on as many servers share one

Row = tuple[str, str]  # layers, where they are
DEGREES = ("tensor", "context", "expert", "data", "pipeline")


def strategy_rows(strategy: Strategy) -> list[Row]:
    """Layers that are held alike share a row, in the order of the layers."""
    if strategy.grid is not None:
        return [("all layers", degrees(strategy.grid)), *_stage_rows(strategy, strategy.grid)]
    if strategy.shards is not None:
        return [("all layers", sharding(strategy.shards))]
    if not strategy.placement:
        return [("the whole job", "as it was recorded")]
    same: dict[tuple[int, ...], list[str]] = {}
    for layer, holders in strategy.placement.items():
        same.setdefault(holders if len(holders) > 1 else (), []).append(layer)
    if len(same) <= ROWS:
        return [(layers(names), _where(strategy, names, holders)) for holders, names in same.items()]
    by_size: dict[int, list[str]] = {}
    for layer, holders in strategy.placement.items():
        by_size.setdefault(len(holders), []).append(layer)
    return [(layers(names), _some(strategy, names, size)) for size, names in by_size.items()]


def layers(names: Sequence[str]) -> str:
    """``embedding 0, ..., embedding 63 (64 layers)``"""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, ..., {names[-1]} ({len(names)} layers)"


def servers(numbers: Sequence[int]) -> str:
    """``0-15``, ``0, 4, ..., 12`` where all are as far apart, and else all of them, shortened."""
    apart = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and apart == {1}:
        return f"{numbers[0]}-{numbers[-1]}"
    if len(numbers) > 3 and len(apart) == 1:
        return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    return ", ".join(map(str, numbers[:8])) + (f", ... ({len(numbers)})" if len(numbers) > 8 else "")


def _on(numbers: Sequence[int]) -> str:
    return f"on server{'s' if len(numbers) > 1 else ''} {servers(numbers)}"


def _where(strategy: Strategy, names: Sequence[str], holders: Sequence[int]) -> str:
    if len(holders) == strategy.servers:
        return "on all servers (data parallel)"
    if holders:
        return _on(holders)
    return _some(strategy, names, 1)


def _some(strategy: Strategy, names: Sequence[str], size: int) -> str:
    """Layers that are each on ``size`` servers: how many of them the servers hold."""
    if size == strategy.servers:
        return "on all servers (data parallel)"
    held = [0] * strategy.servers
    for name in names:
        for server in strategy.placement[name]:
            held[server] += 1
    each = "one server" if size == 1 else f"{size} servers"
    if len(names) == 1:
        return _on(strategy.placement[names[0]])
    share = f"{held[0]} on every" if len(set(held)) == 1 else f"{min(held)} to {max(held)} on a"
    return f"each on {each}; {share} server"


def degrees(grid: Grid) -> str:
    """``tensor 4, context 1, expert 1, data 2, pipeline 2; 8 microbatches``"""
    named = [f"{name} {getattr(grid, name)}" for name in DEGREES]
    return f"{', '.join(named)}; {grid.microbatches} microbatch{'es' if grid.microbatches > 1 else ''}"


def sharding(shards: Shards) -> str:
    """``parameters, gradients and optimizer state divided among the GPUs of 8 servers (ZeRO-3), 14 units``"""
    what = ("optimizer state", "gradients and optimizer state", "parameters, gradients and optimizer state")
    servers = f"{shards.servers} server{'s' if shards.servers > 1 else ''}"
    units = f"{len(shards.gathered)} unit{'s' if len(shards.gathered) > 1 else ''}"
    return f"{what[shards.stage - 1]} divided among the GPUs of {servers} (ZeRO-{shards.stage}), {units}"


def _stage_rows(strategy: Strategy, grid: Grid) -> list[Row]:
    """The stages of a pipeline; without one there is nothing to say. Of many, the first and the last."""
    if grid.pipeline == 1:
        return []
    rows = [(layers(stage), _on(strategy.placement[stage[0]])) for stage in grid.stages]
    left_out = len(rows) - ROWS
    return (
        rows if left_out <= 0 else [*rows[: ROWS - 1], ("\N{HORIZONTAL ELLIPSIS}", f"{left_out} more stages"), rows[-1]]
    )
