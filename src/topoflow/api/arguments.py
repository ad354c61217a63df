"""Keywords of Python as arguments of the command line, and the objects among them.

compare(workload="dlrm", fabric=["fat_tree", FatTree(...)], bandwidth_gbps=[25, 100])
workload=dlrm fabric=fat_tree,object_0 bandwidth_gbps=25,100        and object_0 is the FatTree
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.study.configure.user_object import UserObject
from topoflow.workload.base import Workload

NEEDS = {  # key whose value may be an object -> what the object must have
    "workload": "build",
    "strategy": "place",
    "fabric": "build",
    "gpu": "memory",
    "prices": "cost",
    "fidelity": "simulate",
    "executor": "submit",
}
BUILT: Mapping[str, Any] = {"workload": Workload, "strategy": Strategy, "fabric": Fabric}


def arguments(texts: Sequence[str], keys: Mapping[str, object]) -> tuple[list[str], dict[str, object]]:
    """Return overrides as the command line takes them, and the objects that stand for values in them, by name.

    ``texts`` are arguments already (``"workload.tables=8"``). A list sweeps its key, a list in it is a list; a mapping
    sets keys of a group (``fail={"each": "fiber"}``); text is as on the command line, a path is quoted. Raises
    ``ValueError`` for an object where only a value can be.
    """
    objects: dict[str, object] = {}
    overrides = list(texts)
    for key, value in keys.items():
        if isinstance(value, Mapping):
            overrides += [f"{key}.{inner}={_text(f'{key}.{inner}', entry, objects)}" for inner, entry in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if not value:
                raise ValueError(f"{key}: must have at least one value, got none")
            overrides.append(f"{key}={','.join(_text(key, element, objects) for element in value)}")
        else:
            overrides.append(f"{key}={_text(key, value, objects)}")
    return overrides, objects


def _text(key: str, value: object, objects: dict[str, object]) -> str:
    """Return one value in Hydra's syntax."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, Real):
        return repr(int(value) if isinstance(value, Integral) else float(value))
    if isinstance(value, os.PathLike):
        return "'" + str(os.fspath(value)).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, Sequence):
        return f"[{','.join(_text(key, element, objects) for element in value)}]"
    if isinstance(value, Mapping):
        inner = ",".join(f"{name}:{_text(key, entry, objects)}" for name, entry in value.items())
        return f"{{{inner}}}"
    name = f"object_{len(objects)}"
    objects[name] = _object(key, value)
    return name


def _object(key: str, value: object) -> object:
    """A design as it is, and what is built already as one. Raises ``ValueError`` for what the key cannot be."""
    if key in ("workload", "strategy", "fabric") and isinstance(value, BUILT[key]):
        return UserObject(value)
    if key not in NEEDS:
        raise ValueError(f"{key}: must be text, a number or a list of these, got {type(value).__name__}")
    if isinstance(value, type) or not hasattr(value, NEEDS[key]):
        got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise ValueError(f"{key}: must be a name or an object with {NEEDS[key]}, got {got}")
    return value
