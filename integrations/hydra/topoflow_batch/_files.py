"""The files of a job's ``.hydra``, whose parts are much the same in all jobs and are made text once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra_plugins.topoflow_batch._loader import OUTPUT, TASK, Composed
from omegaconf import OmegaConf

from topoflow.files import make_folder, write_text
from topoflow.study.configure.grid import MOST_KNOWN
from topoflow.study.configure.template import Template

Place = tuple[Any, ...]  # keys from the top
Pieces = dict[str, list[str | Place]]  # of a file, by its name; a place is a gap for what is there

# Text that YAML writes as it is, and reads as text: it has no space, and = or / that no number or word of YAML has.
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.,+-]*[=/][A-Za-z0-9_/.=,+-]*")


@dataclass
class Files:
    """Writes what Hydra's own launcher writes, byte for byte."""

    texts: dict[str, str] = field(default_factory=dict)  # of parts seen before, by where they are and what they hold
    known: dict[Template, Pieces] = field(default_factory=dict)

    def write(self, folder: Path, job: Composed) -> None:
        """``config.yaml``, ``hydra.yaml`` and ``overrides.yaml`` of the job."""
        subfolder = job.at(OUTPUT)
        whole = str(folder)
        make_folder(whole)
        if subfolder is None:
            return
        target = os.path.join(whole, str(subfolder))
        make_folder(target)
        for name, pieces in self._pieces(job).items():
            parts = [each if isinstance(each, str) else self._value(each, job.changed[each]) for each in pieces]
            write_text(f"{target}/{name}.yaml", "".join(parts))
        write_text(f"{target}/overrides.yaml", self._overrides(job.changed[TASK]))

    def _pieces(self, job: Composed) -> Pieces:
        """The texts of the two files of the configuration; of a template with gaps for what changes."""
        template = job.family.template
        if template in self.known:
            return self.known[template]
        whole: Any = OmegaConf.to_container(job.config, enum_to_str=True)
        hydra = {"hydra": whole.pop("hydra")}
        gaps = frozenset() if template is None else frozenset(job.changed)
        found = {name: _merged(self._parts(each, gaps)) for name, each in (("config", whole), ("hydra", hydra))}
        if template is not None:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known[template] = found
        return found

    def _overrides(self, task: list[str]) -> str:
        """A list at the top of a file."""
        return _lines(task, "") or OmegaConf.to_yaml(OmegaConf.create(task))

    def _parts(self, content: dict[Any, Any], gaps: frozenset[Place], path: Place = ()) -> Iterator[str | Place]:
        """The text of each key of a mapping that is at ``path``, or its place where that is a gap."""
        for key, value in content.items():
            if (*path, key) in gaps:
                yield (*path, key)
            elif isinstance(value, dict) and value:
                yield "  " * len(path) + self._text({key: {"": None}}, ()).partition("\n")[0] + "\n"
                yield from self._parts(value, gaps, (*path, key))
            else:
                yield self._text({key: value}, path)

    def _value(self, place: Place, value: Any) -> str:
        """A value that changes, and its key; the text of most is known without asking for it."""
        *path, key = place
        indent = "  " * len(path)
        if type(value) is int or (isinstance(value, str) and PLAIN.fullmatch(value)):
            return f"{indent}{key}: {value}\n"
        if isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]*", value):
            return f"{indent}{key}: '{value}'\n"
        if isinstance(value, list) and (lines := _lines(value, indent)):
            return f"{indent}{key}:\n{lines}"
        return self._text({key: value}, tuple(path))

    def _text(self, part: dict[Any, Any], path: Place) -> str:
        """A key and its value as they are written at ``path``: how lines are broken depends on how far they are in."""
        known = json.dumps([path, part])
        if known not in self.texts:
            for key in reversed(path):
                part = {key: part}
            self.texts[known] = OmegaConf.to_yaml(OmegaConf.create(part)).split("\n", len(path))[-1]
        return self.texts[known]


def _merged(pieces: Iterable[str | Place]) -> list[str | Place]:
    """Texts that follow each other as one."""
    found: list[str | Place] = []
    for each in pieces:
        if isinstance(each, str) and found and isinstance(found[-1], str):
            found[-1] += each
        else:
            found.append(each)
    return found


def _lines(values: list[str], indent: str) -> str:
    """A list of texts; empty where these are not as plain as that."""
    return "".join(f"{indent}- {each}\n" for each in values) if all(map(PLAIN.fullmatch, values)) else ""
