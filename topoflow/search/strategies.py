"""Strategies as JSON: what a plan and a checkpoint keep of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid


def strategy_to_json(strategy: Strategy) -> dict[str, Any]:
    """Plain types; ``placement`` names the holders of every layer."""
    plain = {field.name: getattr(strategy, field.name) for field in fields(Strategy)}
    plain["placement"] = {layer: list(holders) for layer, holders in strategy.placement.items()}
    plain["grid"] = None if strategy.grid is None else asdict(strategy.grid)
    return plain


def strategy_from_json(plain: Any, where: str) -> Strategy:
    """Raises ``ValueError`` that names ``where`` and the field."""
    known = {field.name for field in fields(Strategy)}
    if not isinstance(plain, Mapping) or set(plain) != known:
        got = sorted(plain) if isinstance(plain, Mapping) else plain
        raise ValueError(f"{where}: must have {', '.join(sorted(known))}, got {got}")
    placement = plain["placement"]
    if not isinstance(placement, Mapping) or not all(isinstance(holders, list) for holders in placement.values()):
        raise ValueError(f"{where}.placement: must name the holders of every layer, got {placement!r}")
    changed = {"placement": {layer: tuple(holders) for layer, holders in placement.items()}}
    try:
        return Strategy(**{**plain, **changed, "grid": _grid(plain["grid"])})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _grid(plain: Any) -> Grid | None:
    if plain is None:
        return None
    return Grid(**{key: tuples(value) for key, value in plain.items()})


def tuples(value: Any) -> Any:
    """Lists of JSON, and those in them, as tuples."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value
