"""Build the objects that a point's values describe: ``fabric`` with its ``_target_`` becomes a design, and so on."""

from __future__ import annotations

import dataclasses
import pkgutil
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from topoflow.engine.base import Fidelity, Run
from topoflow.engine.device import DeviceMemory, check_name
from topoflow.engine.executor.base import Workers
from topoflow.engine.executor.local import Local
from topoflow.engine.observer import Observer
from topoflow.study.configure.errors import is_of_libraries, reason
from topoflow.study.configure.hints import suggest
from topoflow.study.configure.os_errors import named, of_group
from topoflow.study.configure.point import EXECUTOR, FIDELITY, Point, distinct

TARGET = "_target_"  # the key of a config that names its class
CONVERT = ("_convert_", "all")  # an instruction for Hydra that is given in any case
MAX_BUILT = 1024  # objects kept; points share most of theirs, but a sweep of the bandwidth has a design for each value

_built: dict[tuple[str, str], Any] = {}  # frozen objects by group and values: instantiating takes 3 ms
_checked: set[tuple[str, tuple[tuple[str, object], ...]]] = set()  # keys and types of groups that were built


class FailedCallError(Exception):
    """An error that a class raised for the values of a config."""


def forget() -> None:
    """Forget what was built: files that it was read from may have changed."""
    _built.clear()
    _checked.clear()


def fidelity_of(point: Point) -> Fidelity:
    """Return the fidelity that a point is simulated in."""
    fidelity: Fidelity = build(point, FIDELITY if FIDELITY in point.objects else point.config[FIDELITY])
    return fidelity


def run_of(points: Sequence[Point], observer: Observer, out: Path | None = None) -> Run:
    """Return how all ``points`` are simulated. Raise ``ValueError`` where they differ in it, or without the device."""
    for key in ("device", "threads", EXECUTOR):
        values = dict.fromkeys(str(point.config.get(key)) for point in distinct(points))
        if len(values) > 1:
            raise ValueError(f"{key}: must be one for all, got {', '.join(values)}")
    config = points[0].config
    device, threads = config["device"], config["threads"]
    check_name(device)
    executor = build(points[0], EXECUTOR) if EXECUTOR in config else Local()
    if isinstance(executor, Executor):
        workers: Workers | None = Workers(executor, device, threads or 1)
    else:
        workers = executor.workers(device, threads, out)
    return Run(DeviceMemory.named(device) if workers is None else DeviceMemory(), threads, observer, workers)


def build(point: Point, group: str) -> Any:
    """Return the object that a point's ``group`` describes. Raise ``ValueError`` in one line that names the key."""
    if group in point.objects:
        return point.objects[group]
    config = point.config.get(group)
    if not isinstance(config, dict) or TARGET not in config:
        raise ValueError(f"{group}: must be a config with a _target_, got {config!r}")
    key = group, repr(config)  # equal values share one
    if key not in _built:
        if len(_built) >= MAX_BUILT:
            _built.clear()
        _built[key] = _instantiated(group, config)
    return _built[key]


def _instantiated(group: str, config: dict[str, Any]) -> Any:
    try:
        kinds = tuple([(key, value if isinstance(value, str) else type(value)) for key, value in config.items()])
        if (group, kinds) not in _checked:
            target = target_of(group, config["_target_"])
            check_fields(group, target, config)
            if not _is_plain(config):
                from hydra.utils import instantiate

                return instantiate(config, _convert_="all")
            if not any(isinstance(value, dict | list) for value in config.values()):
                _checked.add((group, kinds))
        return _made(config)
    except Exception as error:
        if not isinstance(error, FailedCallError) and not is_of_libraries(error):
            raise
        cause: BaseException = error  # the first that says place and field, not what led to it
        while cause.__cause__ is not None and not isinstance(cause, ValueError | OSError):
            cause = cause.__cause__
        if isinstance(cause, ValueError | OSError):
            with named(of_group(group, config)):
                raise cause from error
        raise ValueError(f"{group}: {reason(cause)}") from error


def _is_plain(value: object) -> bool:
    """Return whether the classes of topoflow are all that a value names, and nothing in it has to be resolved."""
    if isinstance(value, dict):
        return all(_is_plain(item) and _is_known(key, item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or (isinstance(value, bool | int | float | str) and "$" not in str(value) and value != "???")


def _is_known(key: object, value: object) -> bool:
    """Return whether a key of a config is a field, a class of topoflow, or the instruction that all have."""
    if key == TARGET and str(value).startswith("topoflow."):
        with suppress(ImportError, AttributeError, ValueError):
            return dataclasses.is_dataclass(_resolved(str(value)))
    return not str(key).startswith("_") or (key, value) == CONVERT


def _made(value: Any) -> Any:
    """Do what Hydra's ``instantiate`` does with a plain value, in a tenth of its 3 ms; price lists take it 19 ms."""
    if isinstance(value, list):
        return [*map(_made, value)]
    if not isinstance(value, dict):
        return value
    fields = {
        key: _made(item) if isinstance(item, dict | list) else item
        for key, item in value.items()
        if key not in (TARGET, CONVERT[0])
    }
    if TARGET not in value:
        return fields
    try:
        return _resolved(value[TARGET])(**fields)
    except Exception as error:
        raise FailedCallError(str(error)) from error


def target_of(group: str, name: object) -> type:
    """Return the dataclass that ``_target_`` names."""
    place = f"{group}._target_"
    try:
        target = _resolved(str(name))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{place}: must name a class, got {name!r} ({reason(error)})") from error
    if not isinstance(target, type) or not dataclasses.is_dataclass(target):
        raise ValueError(f"{place}: must name a dataclass, got {name!r}")
    return target


def _resolved(name: str) -> Any:
    """Return what ``pkgutil.resolve_name`` does; of a module that is imported, in a hundredth of its 40 us."""
    module, _, attribute = name.rpartition(".")
    if module in sys.modules and hasattr(sys.modules[module], attribute):
        return getattr(sys.modules[module], attribute)
    return pkgutil.resolve_name(name)


def check_fields(where: str, target: type, config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless ``config`` has the fields of the dataclass ``target``, with plain types right."""
    hints, required = fields_of(target)
    for key in sorted(required - set(config)):
        raise ValueError(f"{where}.{key}: must be given")
    for key, value in config.items():
        if key.startswith("_"):  # _target_ and the like are for Hydra
            continue
        if key not in hints:
            raise ValueError(f"{where}.{key}: no such key{suggest(key, list(hints), where)}")
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, dict) and "_target_" not in value:
            raise ValueError(f"{where}.{key}: must be a config with a _target_, got {value!r}")
        if not _fits(value, hints[key]):
            raise ValueError(f"{where}.{key}: must be {_type_name(hints[key])}, got {value!r}")


@cache
def fields_of(target: type) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the types of a dataclass's fields that can be given, and the names of those that must be."""
    init_names = {field.name for field in dataclasses.fields(target) if field.init}
    hints = {key: hint for key, hint in typing.get_type_hints(target).items() if key in init_names}
    required = frozenset(
        f.name for f in dataclasses.fields(target) if f.init and f.default is f.default_factory is dataclasses.MISSING
    )
    return hints, required


def _fits(value: object, hint: object) -> bool:
    """Return whether a value has a type; the object itself checks what a list or a mapping holds."""
    if isinstance(hint, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (str, bool, type(None)):
        return isinstance(value, typing.cast("type", hint))
    origin = typing.get_origin(hint)
    if origin is Sequence:
        return isinstance(value, list | tuple)
    if origin is Mapping or dataclasses.is_dataclass(hint):
        return isinstance(value, dict)
    return True


def _type_name(hint: object) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return " or ".join(names.get(part) or _container_name(part) for part in parts)


def _container_name(hint: object) -> str:
    return "a list, as [1, 2]" if typing.get_origin(hint) is Sequence else "a mapping, as {name: value}"
