"""Compose topoflow's own files as Hydra composes them, in a hundredth of its 0.2 s and without importing it.

    compare.yaml          seed, servers, ...       the values of the file, where its list of defaults says _self_
      - gpu: a100         gpu.memory, ...          those of gpu/a100.yaml below ``gpu``, or of gpu=NAME of the arguments
      - fidelities        fluid.merge, ...         a list of defaults that no file has: ``stored``

Everything else is left to Hydra (``OwnFilesError``): packages, files of the user, arguments that are not GROUP=NAME.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import yaml

from topoflow.study.configure.options import files_of, options
from topoflow.track import trackers

SELF = "_self_"
OVERRIDE = "override "
FLOAT = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.[\d_]+)[eE][-+]?\d+", re.ASCII)  # Python's; YAML 1.1 asks for a sign

Tree = dict[str, Any]


class OwnFilesError(Exception):
    """An error for a configuration that only Hydra can compose."""


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as OmegaConf does: 1e9 is a number, and no text is a date."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}


def stored() -> Mapping[str, Tree]:
    """Return the configurations that no file has, as they know the files of a group or the modules of trackers."""
    return {
        "fidelities": {"defaults": [{f"fidelity@{name}": name} for name in options("fidelity")]},
        "trackers": {"defaults": [{name: None} for name in trackers()]},
    }


def composed_of_files(name: str, overrides: Sequence[str]) -> tuple[Tree, dict[str, str]]:
    """Return the values of configuration ``name``, interpolations as text, and the choice of each of its groups.

    ``overrides`` choose files, as ``gpu=h100``. Raises ``OwnFilesError``.
    """
    choices: dict[str, str | None] = {}
    for text in overrides:
        match = re.fullmatch(r"(\w+)=([A-Za-z][\w/]*)", text, re.ASCII)
        if match is None:
            raise OwnFilesError(text)
        choices[match[1]] = match[2]
    chosen_groups, used = frozenset(choices), set[str]()
    values: Tree = {}
    for package, content in _parts(name, (), choices, used):
        part = values
        for key in package:
            part = part.setdefault(key, {})
        _merge(part, {key: value for key, value in content.items() if key != "defaults"})
    if not chosen_groups <= used:
        raise OwnFilesError(", ".join(sorted(chosen_groups - used)))
    return values, {group: str(option) for group, option in choices.items()}


def default_params(name: str) -> Mapping[str, str]:
    """Return the default sweep of a configuration. Raises ``OwnFilesError``."""
    hydra = _content(name).get("hydra") or {}
    return hydra.get("sweeper", {}).get("params") or {}


def _parts(
    path: str, package: tuple[str, ...], choices: dict[str, str | None], used: set[str]
) -> list[tuple[tuple[str, ...], Tree]]:
    """Return the contents of a file and of its defaults, each with its place, in the order of merging.

    The last default comes first, as it may replace the choices of those before it: a workload chooses a strategy.
    """
    content = _content(path)
    defaults = content.get("defaults", [])
    if SELF not in defaults:
        defaults = [SELF, *defaults]
    for entry in defaults:
        if isinstance(entry, dict) and (key := next(iter(entry))).startswith(OVERRIDE):
            group, _, place = key.removeprefix(OVERRIDE).lstrip("/").partition("@")
            if place != f"_global_.{group}":
                raise OwnFilesError(key)
            choices.setdefault(group, entry[key])
    part_lists = []
    for entry in reversed(defaults):
        if entry == SELF:
            part_lists.append([(package, content)])
        elif isinstance(entry, str):
            part_lists.append(_parts(_resolved(entry, path), package, choices, used))
        elif not (key := next(iter(entry))).startswith(OVERRIDE):
            group, _, place = key.partition("@")
            if package:
                raise OwnFilesError(key)
            used.add(key)
            option = choices.setdefault(key, entry[key])
            if option is not None:
                part_lists.append(_parts(f"{group}/{option}", (place or group,), choices, used))
    return [part for parts in reversed(part_lists) for part in parts]


def _resolved(entry: str, path: str) -> str:
    """Return the file that an entry of the defaults of ``path`` names: one next to it, or /GROUP/NAME@_here_."""
    if entry.startswith("/"):
        return entry[1:].removesuffix("@_here_")
    folder = path.rpartition("/")[0]
    return f"{folder}/{entry}" if folder else entry


@cache
def _content(path: str) -> Tree:
    if path in stored():
        return dict(stored()[path])
    files = files_of("topoflow.configs", f"{path}.yaml")
    text = files[0].read_text(encoding="utf-8") if files else "# @package"
    if "# @package" in text:
        raise OwnFilesError(path)
    content: Tree = yaml.load(text, Loader) or {}
    return content


def _merge(into: Tree, values: Tree) -> None:
    for key, value in values.items():
        there = into.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            _merge(there, value)
        elif isinstance(value, dict) and isinstance(there, str):
            raise OwnFilesError(key)  # it may stand for a mapping, into which OmegaConf merges
        else:
            into[key] = deepcopy(value)
