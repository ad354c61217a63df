"""Composing the jobs of a multirun: those that choose the same files have these read and merged once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from topoflow.study.configure.composer import Composer
from topoflow.study.configure.grid import MOST_KNOWN, is_of_hydra
from topoflow.study.configure.template import Path, Template, at, interpolations, reads

OF_JOB, SWEEP = ("hydra", "job"), ("hydra", "sweep")
TASK, DIRNAME = ("hydra", "overrides", "task"), (*OF_JOB, "override_dirname")
ID, NUMBER, OUT = (*OF_JOB, "id"), (*OF_JOB, "num"), ("hydra", "runtime", "output_dir")
DIR, SUBDIR, OUTPUT = (*SWEEP, "dir"), (*SWEEP, "subdir"), ("hydra", "output_subdir")
NOW = re.compile(r"\$\{now:[^${}]*\}")  # the same for all jobs, as OmegaConf keeps it


@dataclass(frozen=True)
class Dirname:
    """``hydra.job.override_dirname``: the overrides of a job, sorted, as a part of the name of a folder."""

    between: str
    equals: str
    left_out: frozenset[str]  # keys

    @classmethod
    def of(cls, config: DictConfig) -> Dirname:
        settings = config.hydra.job.config.override_dirname
        return cls(str(settings.item_sep), str(settings.kv_sep), frozenset(settings.exclude_keys))

    def __call__(self, task: list[str], keys: list[str]) -> str:
        named = sorted(text for text, key in zip(task, keys, strict=True) if key not in self.left_out)
        return self.between.join(named).replace("=", self.equals)


@dataclass(frozen=True)
class Family:
    """Jobs that choose the same files, or one by itself."""

    template: Template | None  # None: of one
    dirname: Dirname
    choices: Mapping[str, str]  # of config groups
    settings: Mapping[Path, Any]  # of Hydra, that are the same for all of these jobs
    copies: Mapping[Path, Path]  # settings that are another one, as subdir is the number of the job
    reads_hydra: bool  # whether something in the configuration is ${hydra:..}

    @classmethod
    def of(cls, config: DictConfig, template: Template | None) -> Family:
        """That of the job whose configuration is ``config``."""
        choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
        plain: Any = OmegaConf.to_container(config)
        texts = {path: at(plain, path) for path in (DIR, SUBDIR, OUTPUT)}
        settings = {path: at(config, path) for path, text in texts.items() if reads(NOW.sub("", str(text))) == []}
        whole = {f"${{{'.'.join(path)}}}": path for path in (NUMBER, DIRNAME)}
        copies = {path: whole[text] for path, text in texts.items() if text in whole}
        del plain["hydra"]
        reads_hydra = template is None or any("${hydra:" in text for _, text in interpolations(plain))
        return cls(template, Dirname.of(config), choices, settings, copies, reads_hydra)


@dataclass(frozen=True)
class Composed:
    """A job, until the next is composed."""

    family: Family
    own: DictConfig  # the configuration; of a template, perhaps with the values of another job
    changed: dict[Path, Any]  # what differs from others of its family

    @property
    def config(self) -> DictConfig:
        """The configuration, with Hydra's own node. Most jobs do without, as OmegaConf takes a while to change it."""
        config = self.own if self.family.template is None else self.family.template.config
        for path in (TASK, DIRNAME, ID, NUMBER, OUT):
            if path in self.changed:
                at(config, path[:-1])[path[-1]] = self.changed[path]
        return config

    def at(self, path: Path) -> Any:
        """The setting of Hydra at ``path``."""
        if path in self.family.settings:
            return self.family.settings[path]
        copied = self.family.copies.get(path)
        return at(self.config, path) if copied is None else self.changed[copied]


@dataclass
class Loader(ConfigLoader):
    """Hydra's own loader, but for the configurations of jobs, which come from a ``Composer``."""

    inner: ConfigLoader
    composers: dict[tuple[str, ...], Composer] = field(default_factory=dict)  # by the settings of Hydra itself
    last: tuple[DictConfig, Composer] | None = None  # that was asked for
    known: dict[Any, tuple[Family, DictConfig] | None] = field(default_factory=dict)  # by what jobs have in common

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of a job, by which sweepers see that it can be composed, which is all they want of it.

        Where jobs differ in plain values it is that of an earlier job; ``job`` gives the launcher its own.
        """
        return self._composed(self._composer(master_config), master_config, sweep_overrides)[1]

    def job(self, master: DictConfig, overrides: list[str], number: int) -> Composed:
        """One job, until the next is asked for. Raises what Hydra raises."""
        composer = self._composer(master)
        family, config = self._composed(composer, master, overrides)
        task = [each for each in overrides if not is_of_hydra(each)]
        name = family.dirname(task, [composer.key_of(each) for each in task])
        changed = {} if family.template is None else family.template.changed
        return Composed(family, config, {**changed, TASK: task, DIRNAME: name, ID: str(number), NUMBER: number})

    def _composer(self, master: DictConfig) -> Composer:
        if self.last is None or self.last[0] is not master:
            own = tuple(str(each) for each in master.hydra.overrides.hydra)
            if own not in self.composers:
                self.composers[own] = Composer(master.hydra.job.config_name, own)
            self.last = master, self.composers[own]
        return self.last[1]

    def _composed(self, composer: Composer, master: DictConfig, overrides: list[str]) -> tuple[Family, DictConfig]:
        """A job by itself, or of a template; the second of several with the same files becomes one."""
        same, keys, values = composer.split(overrides)
        which = composer.own, same
        known = self.known.get(which)
        if known is not None:
            template = known[0].template
            assert template is not None  # which is why it is known
            template.set(values)
            return known
        config = composer.whole(overrides)
        OmegaConf.set_readonly(config.hydra, False)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        is_second = which in self.known and not any("${" in each for each in overrides)
        found = Family.of(config, Template.of(config, keys) if is_second else None), config
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[which] = None if found[0].template is None else found
        return found

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        return self.inner.load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)

    def get_search_path(self) -> ConfigSearchPath:
        return self.inner.get_search_path()

    def get_sources(self) -> list[ConfigSource]:
        return self.inner.get_sources()

    def list_groups(self, parent_name: str) -> list[str]:
        return self.inner.list_groups(parent_name)

    def get_group_options(
        self,
        group_name: str,
        results_filter: ObjectType | None = ObjectType.CONFIG,
        config_name: str | None = None,
        overrides: list[str] | None = None,
    ) -> list[str]:
        return self.inner.get_group_options(group_name, results_filter, config_name, overrides)

    def compute_defaults_list(self, config_name: str | None, overrides: list[str], run_mode: RunMode) -> Any:
        return self.inner.compute_defaults_list(config_name, overrides, run_mode)
