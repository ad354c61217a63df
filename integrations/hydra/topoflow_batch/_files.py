"""The files of a job's ``.hydra``, whose parts are much the same in all jobs and are made text once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf


@dataclass
class Files:
    """Writes what Hydra's own launcher writes, byte for byte."""

    texts: dict[str, str] = field(default_factory=dict)  # of parts seen before, by where they are and what they hold

    def write(self, folder: Path, config: DictConfig) -> None:
        """``config.yaml``, ``hydra.yaml`` and ``overrides.yaml`` of the job with the whole ``config``."""
        folder.mkdir(parents=True, exist_ok=True)
        if config.hydra.output_subdir is None:
            return
        target = folder / str(config.hydra.output_subdir)
        target.mkdir(parents=True, exist_ok=True)
        whole: Any = OmegaConf.to_container(config, enum_to_str=True)
        hydra = {"hydra": whole.pop("hydra")}
        for name, content in (("config", whole), ("hydra", hydra)):
            (target / f"{name}.yaml").write_text("".join(self._parts(content)), encoding="utf-8")
        (target / "overrides.yaml").write_text(OmegaConf.to_yaml(config.hydra.overrides.task), encoding="utf-8")

    def _parts(self, content: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
        """The text of each key of a mapping that is at ``path``."""
        for key, value in content.items():
            if isinstance(value, dict) and value:
                yield "  " * len(path) + self._text({key: {"": None}}, ()).partition("\n")[0] + "\n"
                yield from self._parts(value, (*path, key))
            else:
                yield self._text({key: value}, path)

    def _text(self, part: dict[str, Any], path: tuple[str, ...]) -> str:
        """A key and its value as they are written at ``path``: how lines are broken depends on how far they are in."""
        known = json.dumps([path, part])
        if known not in self.texts:
            for key in reversed(path):
                part = {key: part}
            self.texts[known] = OmegaConf.to_yaml(OmegaConf.create(part)).split("\n", len(path))[-1]
        return self.texts[known]
