"""Composing the jobs of a multirun: those that choose the same files have these read and merged once."""

from __future__ import annotations

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
from topoflow.study.configure.template import Path, Template

OF_JOB = ("hydra", "job")
TASK, DIRNAME = ("hydra", "overrides", "task"), (*OF_JOB, "override_dirname")


@dataclass(frozen=True)
class Composed:
    """The configuration of a job, until the next is composed; where it differs from others of its template."""

    config: DictConfig
    template: Template | None = None  # None: it is one by itself
    changed: dict[Path, Any] = field(default_factory=dict)


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


@dataclass
class Loader(ConfigLoader):
    """Hydra's own loader, but for the configurations of jobs, which come from a ``Composer``."""

    inner: ConfigLoader
    composers: dict[tuple[str, ...], Composer] = field(default_factory=dict)  # by the settings of Hydra itself
    known: dict[Any, tuple[Template, Dirname] | None] = field(default_factory=dict)  # by what jobs have in common

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of a job, by which sweepers see that it can be composed; the next call changes it.

        A hundred times as fast as the inner loader where jobs differ in plain values; then the node of Hydra is that of
        an earlier job. ``job`` gives the launcher its own.
        """
        return self._composed(self._composer(master_config), master_config, sweep_overrides)[0].config

    def job(self, master: DictConfig, overrides: list[str]) -> Composed:
        """The configuration of one job, until the next is asked for. Raises what Hydra raises."""
        composer = self._composer(master)
        found, dirname = self._composed(composer, master, overrides)
        task = [each for each in overrides if not is_of_hydra(each)]
        name = dirname(task, [composer.key_of(each) for each in task])
        found.config.hydra.overrides.task, found.config.hydra.job.override_dirname = task, name
        return Composed(found.config, found.template, {**found.changed, TASK: task, DIRNAME: name})

    def _composer(self, master: DictConfig) -> Composer:
        own = tuple(str(each) for each in master.hydra.overrides.hydra)
        if own not in self.composers:
            self.composers[own] = Composer(master.hydra.job.config_name, own)
        return self.composers[own]

    def _composed(self, composer: Composer, master: DictConfig, overrides: list[str]) -> tuple[Composed, Dirname]:
        """A job by itself, or of a template; the second of several with the same files becomes one."""
        same, keys, values = composer.split(overrides)
        which = composer.own, same
        known = self.known.get(which)
        if known is not None:
            template, dirname = known
            template.set(values)
            return Composed(template.config, template, template.changed), dirname
        config = composer.whole(overrides)
        OmegaConf.set_readonly(config.hydra, False)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        is_second = which in self.known and not any("${" in each for each in overrides)
        template, dirname = Template.of(config, keys) if is_second else None, Dirname.of(config)
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[which] = None if template is None else (template, dirname)
        return Composed(config), dirname

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
