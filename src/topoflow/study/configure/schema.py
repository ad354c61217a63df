"""JSON schema of a configuration, for editors: the keys of a verb, their types and what the files say about them.

# yaml-language-server: $schema=topoflow.json
defaults: [compare, _self_]
bandwidth_gbps: 400
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from importlib import resources
from typing import Any

import yaml

from topoflow.study.configure.build import TARGET, fields_of, target_of
from topoflow.study.configure.options import options

DRAFT = "https://json-schema.org/draft/2020-12/schema"
COMMENT = re.compile(r"^(?P<key>\w+):[^#]*#\s*(?P<text>.*)|^\s+#\s*(?P<more>.*)|^")
JSON_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
VALUES = {
    dict: "object",
    list: "array",
    **{kind: name for kind, name in JSON_TYPES.items() if kind is not type(None)},
}
INTERPOLATION = {"type": "string", "pattern": r"\$\{"}


def schema(verb: str) -> dict[str, Any]:
    """Return the schema of ``configs/VERB.yaml``; the object of a group may be any of its files."""
    text = read(verb)
    content = yaml.safe_load(text)
    about = descriptions(text)
    groups = [group for entry in content["defaults"] if isinstance(entry, dict) for group in entry]
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for key, value in content.items():
        if key not in ("defaults", "hydra"):
            properties[key] = _described(_of_value(value), about.get(key))
    for group in groups:
        names = options(group)
        definitions |= {f"{group}.{name}": _of_file(group, name) for name in names}
        objects = [{"$ref": f"#/$defs/{group}.{name}"} for name in names]
        properties[group] = {"anyOf": [{"enum": names}, {"type": ["string", "null"]}, *objects]}  # also of the user
        if group == "fidelity":
            properties |= {name: {"$ref": f"#/$defs/{group}.{name}"} for name in names}
    properties |= {"defaults": {"type": "array"}, "hydra": {"type": "object"}}
    return {
        "$schema": DRAFT,
        "title": f"topoflow {verb}",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": definitions,
    }


def read(name: str) -> str:
    """Return the text of ``configs/NAME.yaml``; of a group, its presets with the first lines of their files.

    Raises ``ValueError`` if there is none.
    """
    if re.fullmatch(r"\w+(/\w+)?", name):
        file = resources.files("topoflow.configs") / f"{name}.yaml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
        if names := options(name):
            width = max(map(len, names))
            firsts = [read(f"{name}/{preset}").partition("\n")[0] for preset in names]
            about = [first.lstrip("# ").partition(" Source:")[0] for first in firsts]
            return "".join(f"{preset:{width}}  {line}\n" for preset, line in zip(names, about, strict=True))
    folders = (entry.name for entry in resources.files("topoflow.configs").iterdir() if entry.is_dir())
    groups = ", ".join(sorted(folder for folder in folders if folder.isalpha()))
    raise ValueError(f"NAME: must be a verb, a group ({groups}) or GROUP/PRESET, as fabric/torus, got {name!r}")


def descriptions(text: str) -> dict[str, str]:
    """Return the comments of the keys at the top of a YAML file, each as one line."""
    comments: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        match = COMMENT.match(line)
        assert match is not None  # the last alternative matches every line
        if match["key"]:
            key = match["key"]
            comments[key] = match["text"]
        elif match["more"] and key:
            comments[key] += f" {match['more']}"
        else:
            key = ""
    return comments


def _of_file(group: str, name: str) -> dict[str, Any]:
    """Return the schema of a file of a config group: the fields of the dataclass that it or its base names."""
    text = read(f"{group}/{name}")
    content = yaml.safe_load(text)
    if TARGET not in content:
        return _of_file(group, content["defaults"][0])
    hints, _ = fields_of(target_of(group, content[TARGET]))
    about = descriptions(text)
    properties = {key: _described(_of_hint(hint), about.get(key)) for key, hint in hints.items()}
    properties |= {TARGET: {"const": content[TARGET]}, "_convert_": {"const": "all"}, "defaults": {"type": "array"}}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _of_hint(hint: Any) -> dict[str, Any]:
    """Return the schema of a type; an interpolation may stand for every value."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    names = [_type_name(part) for part in parts]
    if None in names:
        return {}
    return {"anyOf": [{"type": names if len(names) > 1 else names[0]}, INTERPOLATION]}


def _type_name(hint: Any) -> str | None:
    """Return the JSON type of a type of Python; None for one that can be anything."""
    if typing.get_origin(hint) is Sequence:
        return "array"
    if typing.get_origin(hint) is Mapping or is_dataclass(hint):
        return "object"
    return JSON_TYPES.get(hint)


def _of_value(value: Any) -> dict[str, Any]:
    """Return the schema of a key with a default; nothing is known of the type of a key that is null."""
    if value is None or isinstance(value, str):
        return {}
    name = "number" if isinstance(value, int | float) and not isinstance(value, bool) else VALUES[type(value)]
    return {"anyOf": [{"type": name}, INTERPOLATION]}


def _described(part: dict[str, Any], text: str | None) -> dict[str, Any]:
    return part if text is None else {**part, "description": text}
