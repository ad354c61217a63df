"""Presets of the config groups, from Python: ``topoflow.gpus.h100()``, ``topoflow.fabrics.torus(dims=[4, 4])``.

A preset is a file of ``configs/``; its numbers stand there, each with its source, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from typing import Any

from topoflow.study.configure.options import options


@dataclass(frozen=True)
class Presets:
    """The presets of a config group, as attributes; ``dir`` lists them.

    >>> import topoflow
    >>> dir(topoflow.gpus)
    ['a100', 'b200', 'gb200', 'gb300', 'gh200', 'h100', 'h200', 'l40s', 'mi300x']
    >>> topoflow.gpus.h100(memory=94e9).memory
    94000000000.0
    """

    group: str

    def __dir__(self) -> list[str]:
        return options(self.group)

    def __getattr__(self, name: str) -> Preset:
        names = options(self.group)
        if name.startswith("_") or name not in names:
            close = get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"
            raise AttributeError(f"{self.group}: no preset {name!r}{hint}")
        return Preset(self.group, name)


@dataclass(frozen=True)
class Preset:
    """A file of a config group. Calling it makes its object; ``help`` shows the file."""

    group: str
    name: str

    def __call__(self, **changes: Any) -> Any:
        """Return the object of the preset, with ``changes`` of its fields.

        The keys of a comparison that the preset refers to can be changed as well, as ``bandwidth_gbps`` of a fabric and
        ``gpu`` of a workload. Raises ``ValueError`` in one line for a key that does not exist, or a wrong value.

        >>> import topoflow
        >>> topoflow.fabrics.torus(dims=[4, 2], bandwidth_gbps=400).bandwidth
        50000000000.0
        """
        from topoflow.api.arguments import arguments
        from topoflow.study.configure.build import build
        from topoflow.study.configure.grid import grid
        from topoflow.study.configure.keys import GROUPS, KEYS, check

        section = self.name if self.group == "fidelity" else self.group
        preset_keys = set(re.findall(r"^(\w+):(?! *\$\{\1\})", self.__doc__, re.MULTILINE))  # not as gpu: ${gpu}
        shared = {key for key in (*KEYS, *GROUPS) if key not in preset_keys}
        keys = {key if key in shared else f"{section}.{key}": _single(value) for key, value in changes.items()}
        texts, objects = arguments([], keys)
        (point,) = grid([f"fabric={self._fabric}", f"{self.group}={self.name}", *texts], check, objects=objects)
        return build(point, section)

    @property
    def _fabric(self) -> str:
        return self.name if self.group == "fabric" else "ring"  # one point, whatever is swept by default

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The file of the preset: its fields, their values and sources."""
        return (resources.files("topoflow.configs") / self.group / f"{self.name}.yaml").read_text()


def _single(value: Any) -> Any:
    """Return a list as one value of a key, which would sweep the key otherwise."""
    return [value] if isinstance(value, list | tuple) else dict(value) if isinstance(value, Mapping) else value


fabrics = Presets("fabric")
fidelities = Presets("fidelity")
gpus = Presets("gpu")
prices = Presets("prices")
strategies = Presets("strategy")
workloads = Presets("workload")
