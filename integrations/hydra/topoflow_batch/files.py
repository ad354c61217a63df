"""The files of a job's ``.hydra``, whose parts are much the same in all jobs and are made text once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf


@dataclass
class Files:
    """Writes what Hydra's own launcher writes, byte for byte."""

    texts: dict[str, str] = field(default_factory=dict)  # of parts seen before

    def write(self, folder: Path, config: DictConfig) -> None:
        """``config.yaml``, ``hydra.yaml`` and ``overrides.yaml`` of the job with the whole ``config``."""
        folder.mkdir(parents=True, exist_ok=True)
        if config.hydra.output_subdir is None:
            return
        target = folder / str(config.hydra.output_subdir)
        target.mkdir(parents=True, exist_ok=True)
        whole: Any = OmegaConf.to_container(config, enum_to_str=True)
        hydra = whole.pop("hydra")
        (target / "config.yaml").write_text("".join(self._text({key: whole[key]}) for key in whole), encoding="utf-8")
        parts = (self._text({"hydra": {key: hydra[key]}}).partition("\n")[2] for key in hydra)
        (target / "hydra.yaml").write_text("hydra:\n" + "".join(parts), encoding="utf-8")
        (target / "overrides.yaml").write_text(OmegaConf.to_yaml(config.hydra.overrides.task), encoding="utf-8")

    def _text(self, part: dict[str, Any]) -> str:
        key = json.dumps(part)
        if key not in self.texts:
            self.texts[key] = OmegaConf.to_yaml(OmegaConf.create(part))
        return self.texts[key]
