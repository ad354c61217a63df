"""Reader of the JSON of strategies in plans and checkpoints, which ``Strategy.to_json`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from topoflow.strategy.as_captured import Recorded
from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import ParallelGrid
from topoflow.strategy.placement import Placement

PLAN_FIELDS = ("bucket_bytes", "first_bucket_bytes", "grid", "name", "placement", "ranks_per_server", "servers")
OTHER_TYPES = "must have the fields and types that it was written with"


def strategy_from_json(plain: Any, where: str) -> Strategy:
    """Return the strategy. Raises ``ValueError`` that names ``where`` and the field."""
    if isinstance(plain, Mapping) and "kind" in plain:
        return _of_kind(plain, where)
    if not isinstance(plain, Mapping) or sorted(plain) != list(PLAN_FIELDS):
        got = sorted(plain) if isinstance(plain, Mapping) else plain
        raise ValueError(f"{where}: must have {', '.join(PLAN_FIELDS)}, got {got}")
    placement = plain["placement"]
    if not isinstance(placement, Mapping) or not all(isinstance(holders, list) for holders in placement.values()):
        raise ValueError(f"{where}.placement: must name the holders of every layer, got {placement!r}")
    try:
        return _of_plan({**plain, "placement": {layer: tuple(holders) for layer, holders in placement.items()}})
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    except TypeError as error:
        raise ValueError(f"{where}: {OTHER_TYPES}, got {error}") from error


def _of_plan(plain: Mapping[str, Any]) -> Strategy:
    """Return a strategy of one of the three kinds that share the fields of a plan."""
    if plain["grid"] is not None:
        grid = ParallelGrid(**tuples(plain["grid"]), name=plain["name"], bucket_bytes=plain["bucket_bytes"])
        if (grid.servers, grid.layer_servers) != (plain["servers"], plain["placement"]):
            raise ValueError(f"strategy.placement: must be that of the grid, got {dict(plain['placement'])}")
        return grid
    if not plain["placement"]:
        return Recorded(plain["name"], plain["servers"], plain["ranks_per_server"])
    named = ("name", "servers", "placement", "bucket_bytes", "first_bucket_bytes")
    return Placement(**{name: plain[name] for name in named})


def _of_kind(plain: Mapping[str, Any], where: str) -> Strategy:
    """Return a strategy of the kind that ``plain`` names: a class of ``topoflow.strategy`` and its fields."""
    module, _, name = str(plain["kind"]).rpartition(".")
    try:
        kind = getattr(import_module(module), name, None) if module.startswith(f"{__package__}.") else None
        if not (isinstance(kind, type) and issubclass(kind, Strategy)):
            raise ValueError(f"kind: must be a strategy of {__package__}, got {plain['kind']!r}")
        strategy: Strategy = kind(**{key: tuples(value) for key, value in plain.items() if key != "kind"})
    except (ImportError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{where}: {OTHER_TYPES}, got {error}") from error
    return strategy


def tuples(value: Any) -> Any:
    """Convert JSON's lists, also nested ones, to tuples."""
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value
