"""Strategies as JSON: what a plan and a checkpoint keep of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid
from topoflow.strategy.shards import Shards

Kind = TypeVar("Kind")


def strategy_to_json(strategy: Strategy) -> dict[str, Any]:
    """Plain types; ``placement`` names the holders of every layer. ``shards`` are there only if there are any."""
    plain = {field.name: getattr(strategy, field.name) for field in fields(Strategy)}
    plain["placement"] = {layer: list(holders) for layer, holders in strategy.placement.items()}
    plain["grid"] = None if strategy.grid is None else asdict(strategy.grid)
    if strategy.shards is None:
        del plain["shards"]
    else:
        plain["shards"] = asdict(strategy.shards)
    return plain


def strategy_from_json(plain: Any, where: str) -> Strategy:
    """Raises ``ValueError`` that names ``where`` and the field."""
    known = {field.name for field in fields(Strategy)} - {"shards"}
    if not isinstance(plain, Mapping) or set(plain) - {"shards"} != known:
        got = sorted(plain) if isinstance(plain, Mapping) else plain
        raise ValueError(f"{where}: must have {', '.join(sorted(known))}, got {got}")
    placement = plain["placement"]
    if not isinstance(placement, Mapping) or not all(isinstance(holders, list) for holders in placement.values()):
        raise ValueError(f"{where}.placement: must name the holders of every layer, got {placement!r}")
    changed = {"placement": {layer: tuple(holders) for layer, holders in placement.items()}}
    try:
        cut = {"grid": _of(Grid, plain["grid"]), "shards": _of(Shards, plain.get("shards"))}
        return Strategy(**{**plain, **changed, **cut})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _of(kind: Callable[..., Kind], plain: Any) -> Kind | None:
    return None if plain is None else kind(**{key: tuples(value) for key, value in plain.items()})


def tuples(value: Any) -> Any:
    """Lists of JSON, and those in them, as tuples."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value
