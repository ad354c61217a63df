"""The jobs of a batch: their configurations, folders and files, of which jobs of the same files share most."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from topoflow.files import make_folder, write_bytes
from topoflow.study.configure.composition import composed
from topoflow.study.configure.points import PointComposer
from topoflow.study.configure.sources import Sources, is_hydra_override
from topoflow.study.configure.tree import ConfigTree, at, leaves

SETTINGS = ("sweep.dir", "sweep.subdir", "output_subdir")  # of Hydra, that name folders
SAME_FOR_ALL = re.compile(r"(?:[^$]|\$\{(?:now|oc\.env):[^${}]*\})*")
NUMBER = "${hydra.job.num}"
# Text that YAML writes as it is, and reads as text: it has no space, and = or / that no number or word of YAML has.
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.,+-]*[=/][A-Za-z0-9_/.=,+-]*")


class UncheckedLoader:
    """Hydra's loader, except that a sweeper's look at each job costs nothing: the batch finds what is wrong itself."""

    def __init__(self, loader: ConfigLoader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the configuration of the sweep in place of that of a job."""
        return master_config


@dataclass(frozen=True, eq=False)
class SharedConfiguration:
    """The configuration that jobs of the same files share, as Hydra composed it and as plain Python."""

    whole: DictConfig
    task: ConfigTree
    hydra: dict[str, Any]

    @cache  # noqa: B019  there are few, and they live as long as the sweep
    def setting(self, key: str) -> Any:
        """Return a setting of Hydra that is the same in all jobs."""
        return OmegaConf.select(self.whole.hydra, key)

    @cached_property
    def mappings(self) -> frozenset[int]:
        """The identities of all mappings in it."""
        return frozenset(map(id, _mappings([self.task.plain, self.hydra])))

    @cached_property
    def reads_hydra(self) -> bool:
        """Whether a value of the configuration refers to Hydra's own node."""
        return any(isinstance(value, str) and "${hydra:" in value for _, value in leaves(self.task.plain))

    @classmethod
    def of(cls, whole: DictConfig) -> SharedConfiguration:
        task = whole.copy()
        OmegaConf.set_readonly(task, False)
        OmegaConf.set_struct(task, False)
        hydra = OmegaConf.to_container(task.pop("hydra"), enum_to_str=True)
        values = OmegaConf.to_container(task)
        assert isinstance(hydra, dict)
        assert isinstance(values, dict)
        return cls(whole, ConfigTree(_by_name(values), task), _by_name(hydra))


def _by_name(mapping: dict[Any, Any]) -> dict[str, Any]:
    """Return a mapping of OmegaConf with the names of its keys."""
    return {str(key): value for key, value in mapping.items()}


def _mappings(values: Iterable[Any]) -> Iterator[dict[Any, Any]]:
    for value in values:
        if isinstance(value, dict):
            yield value
            yield from _mappings(value.values())


@dataclass(frozen=True)
class SweepJob:
    """``launcher.Launched``: the job number ``number`` of a sweep."""

    number: int
    overrides: list[str]
    changes: Mapping[tuple[str, ...], Any]  # values of the task that its files do not have
    dirname: str  # hydra.job.override_dirname
    shared: SharedConfiguration
    folder: Path = Path()
    output_subdir: str | None = None  # the folder in it for the configuration; None: it is not written

    @property
    def hydra(self) -> dict[str, Any]:
        """Hydra's own node of the job, with interpolations as text."""
        shared = self.shared.hydra
        job = {"override_dirname": self.dirname, "id": str(self.number), "num": self.number}
        return {
            **shared,
            "overrides": {**shared["overrides"], "task": self.overrides},
            "job": {**shared["job"], **job},
            "runtime": {**shared["runtime"], "output_dir": str(self.folder)},
        }

    @property
    def config(self) -> DictConfig:
        """The configuration with Hydra's own node, which ``HydraConfig`` has from here on."""
        config = deepcopy(self.shared.whole)
        OmegaConf.set_readonly(config.hydra, False)
        for path, value in self.changes.items():
            OmegaConf.update(config, ".".join(path), value)
        for name in ("overrides", "job", "runtime"):
            for key, value in self.hydra[name].items():
                if value != self.shared.hydra[name].get(key):
                    config.hydra[name][key] = value
        hydra: Any = HydraConfig.instance()
        hydra.cfg = config  # no copy of it, unlike set_config
        return config


@dataclass
class Jobs:
    """Makes the jobs of the sweep whose configuration is ``master``."""

    master: DictConfig
    _shared: dict[tuple[str, ...], SharedConfiguration] = field(default_factory=dict)  # by what Hydra composed
    _mappings: dict[int, str] = field(default_factory=dict)  # texts of what jobs share, by identity
    _texts: dict[Any, str] = field(default_factory=dict)  # of keys and values

    def __post_init__(self) -> None:
        hydra = self.master.hydra
        self._hydra_overrides = [str(text) for text in hydra.overrides.hydra]
        sources = Sources(None, tuple(self._hydra_overrides))
        self._points = PointComposer(str(hydra.job.config_name), lambda values: None, sources)

    def job(self, overrides: Sequence[str], number: int) -> SweepJob:
        """Return a job. Raise what Hydra raises for overrides that it cannot compose."""
        composition, changes = self._points.composition(overrides)
        if composition.overrides not in self._shared:
            whole = composed(self._points.name, [*self._hydra_overrides, *composition.overrides])
            OmegaConf.copy_cache(from_config=self.master, to_config=whole)
            self._shared[composition.overrides] = SharedConfiguration.of(whole)
        shared = self._shared[composition.overrides]
        task = [text for text in overrides if not is_hydra_override(text)]
        settings = shared.hydra["job"]["config"]["override_dirname"]
        named = sorted(text for text in task if self._points.argument(text).key not in settings["exclude_keys"])
        dirname = settings["item_sep"].join(named).replace("=", settings["kv_sep"])
        job = SweepJob(number, task, changes, dirname, shared)
        folder, subfolder, output = map(partial(self._setting, job), SETTINGS)
        job = replace(job, folder=Path(os.getcwd(), folder, subfolder), output_subdir=output)
        if shared.reads_hydra:
            job.config  # noqa: B018  HydraConfig has it
        return job

    def write(self, job: SweepJob) -> None:
        """Write ``config.yaml``, ``hydra.yaml`` and ``overrides.yaml``, byte for byte as Hydra's own launcher does."""
        make_folder(str(job.folder))
        if job.output_subdir is None:
            return
        target = os.path.join(job.folder, job.output_subdir)
        make_folder(target)
        content = {"config": job.shared.task.with_interpolations(job.changes), "hydra": {"hydra": job.hydra}}
        for name, values in content.items():
            write_bytes(f"{target}/{name}.yaml", "".join(self._yaml(values, (), job.shared.mappings)).encode())
        overrides = self._text((), "", job.overrides).partition("\n")[2] if job.overrides else "[]\n"
        write_bytes(f"{target}/overrides.yaml", overrides.encode())

    def _setting(self, job: SweepJob, key: str) -> Any:
        """Return a setting of Hydra that names a folder of the job."""
        text = at(job.shared.hydra, key.split("."))
        if text == NUMBER:
            return str(job.number)
        same = SAME_FOR_ALL.fullmatch(str(text))
        return job.shared.setting(key) if same else OmegaConf.select(job.config.hydra, key)

    def _yaml(self, content: Mapping[Any, Any], path: tuple[Any, ...], shared: frozenset[int]) -> Iterator[str]:
        """Yield the text of each key of a mapping at ``path``; mappings that jobs share are made text once."""
        for key, value in content.items():
            if not isinstance(value, dict) or not value:
                yield self._text(path, key, value)
                continue
            text = self._mappings.get(id(value))
            if text is None:
                head = self._text(path, key, {"": None}).partition("\n")[0]
                text = "".join([head, "\n", *self._yaml(value, (*path, key), shared)])
                if id(value) in shared:
                    self._mappings[id(value)] = text
            yield text

    def _text(self, path: tuple[Any, ...], key: Any, value: Any) -> str:
        """Return a key and its value as OmegaConf writes them at ``path``; it breaks lines by their indentation."""
        indent = "  " * len(path)
        if type(value) is int or (isinstance(value, str) and PLAIN.fullmatch(value)):
            return f"{indent}{key}: {value}\n"
        if value and isinstance(value, list) and all(isinstance(text, str) and PLAIN.fullmatch(text) for text in value):
            return f"{indent}{key}:\n" + "".join(f"{indent}- {text}\n" for text in value)
        known = (path, key, json.dumps(value) if isinstance(value, list | dict) else (type(value), value))
        if known not in self._texts:
            part = {key: value}
            for name in reversed(path):
                part = {name: part}
            self._texts[known] = OmegaConf.to_yaml(OmegaConf.create(part)).split("\n", len(path))[-1]
        return self._texts[known]
