"""UserObject: an object in place of the name of a file, so that Python can compare what it has made itself."""

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
class UserObject:
    """A workload, a strategy or a fabric that is built already, where a design of one is expected."""

    value: Any

    def build(self, servers: int = 0, demand: Demand | None = None) -> Any:
        """Return the workload or the fabric. Raises ``ValueError`` for a fabric that is too small for the job."""
        if isinstance(self.value, Fabric) and self.value.servers < servers:
            raise ValueError(f"fabric: must have at least {servers} servers, got {self.value.servers}")
        return self.value

    def place(self, workload: Workload, servers: int | None) -> Strategy:
        """Return the strategy. Raises ``ValueError`` where it is of another number of servers."""
        strategy: Strategy = self.value
        if servers not in (None, strategy.servers):
            raise ValueError(f"servers: must be the {strategy.servers} of strategy {strategy.name}, got {servers}")
        return strategy

    @property
    def servers(self) -> int | None:
        """Number of servers of a strategy or a fabric; None for a workload."""
        return None if isinstance(self.value, Workload) else int(self.value.servers)


def name_of(user_object: object) -> str:
    """Return the name of an object in a table: its own, that of its config, or that of its class."""
    value = user_object.value if isinstance(user_object, UserObject) else user_object
    named = getattr(value, "name", None)
    if isinstance(named, str):
        return named
    module = type(value).__module__
    return module.rpartition(".")[2] if module.startswith("topoflow.") else type(value).__name__


def described(user_object: object) -> Mapping[str, Any]:
    """Return an object as a configuration: by its fields if these are plain, else by its name alone."""
    if not isinstance(user_object, UserObject) and is_dataclass(user_object) and not isinstance(user_object, type):
        values = asdict(user_object)
        fields = {field.name: values[field.name] for field in fields_of(user_object) if field.init}
        if _is_plain(fields):
            kind = type(user_object)
            return {"_target_": f"{kind.__module__}.{kind.__qualname__}", **fields}
    return {"object": f"{name_of(user_object)} {id(user_object):x}"}  # differs from others of its name


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str | int | float) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)
