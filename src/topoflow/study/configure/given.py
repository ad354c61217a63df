"""Given: an object where a configuration has the name of a file, so that Python can compare what it has made itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from dataclasses import fields as fields_of
from typing import Any

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.workload.base import Workload


@dataclass(frozen=True, eq=False)
class Given:
    """A workload, a strategy or a fabric that is built already, where a design of one is expected."""

    made: Any

    def build(self, servers: int = 0, demand: Demand | None = None) -> Any:
        """The workload or the fabric. Raises ``ValueError`` for a fabric that is too small for the job."""
        if isinstance(self.made, Fabric) and self.made.servers < servers:
            raise ValueError(f"fabric: must have at least {servers} servers, got {self.made.servers}")
        return self.made

    def place(self, workload: Workload, servers: int | None) -> Strategy:
        """The strategy. Raises ``ValueError`` where it is of another number of servers."""
        strategy: Strategy = self.made
        if servers not in (None, strategy.servers):
            raise ValueError(f"servers: must be the {strategy.servers} of strategy {strategy.name}, got {servers}")
        return strategy

    @property
    def servers(self) -> int | None:
        """Number of servers of a strategy or a fabric; None for a workload."""
        return None if isinstance(self.made, Workload) else int(self.made.servers)


def name_of(given: object) -> str:
    """Return the name of an object in a table: its own, that of its config, or that of its class."""
    made = given.made if isinstance(given, Given) else given
    named = getattr(made, "name", None)
    if isinstance(named, str):
        return named
    module = type(made).__module__
    return module.rpartition(".")[2] if module.startswith("topoflow.") else type(made).__name__


def described(given: object) -> Mapping[str, Any]:
    """An object as a configuration: by its fields if these are plain, else by its name alone."""
    if not isinstance(given, Given) and is_dataclass(given) and not isinstance(given, type):
        values = asdict(given)
        fields = {each.name: values[each.name] for each in fields_of(given) if each.init}
        if _is_plain(fields):
            kind = type(given)
            return {"_target_": f"{kind.__module__}.{kind.__qualname__}", **fields}
    return {"object": f"{name_of(given)} {id(given):x}"}  # differs from others of its name


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str | int | float) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)
