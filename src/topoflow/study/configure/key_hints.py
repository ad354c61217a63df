"""The key of a configuration that was probably meant, or the command that has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf

from topoflow.study.configure.composition import composed
from topoflow.study.configure.hints import suggest
from topoflow.study.configure.sources import Sources, is_hydra_override
from topoflow.track import trackers

CONFIGS = ("compare", "search", "simulate")  # one for each verb with keys of its own


SHARES = "search.acceptance=[SHARE,SHARE], of slower proposals that the coldest and the hottest chain accept"
REPLACED = {"search.coldest": SHARES, "search.hottest": SHARES}  # keys that there were, and what is given instead


def suggest_key(key: str, overrides: Sequence[str], name: str, sources: Sources) -> str:
    """Return the keys of the same level as the wrong one, in the configuration ``name`` of the same groups."""
    if key in REPLACED:
        return f" any more; give {REPLACED[key]}"
    named = [override for override in overrides if not override.partition("=")[2].startswith("{")]
    there, keys = _composed(sources, name), {override: override.partition("=")[0] for override in named}
    groups = [o for o, at in keys.items() if _is_group(at, there) and sources.options(at, name)]
    config = composed(name, []) if is_hydra_override(key) else _composed(sources, name, *groups)
    if (elsewhere := _elsewhere(config, key, name, sources)) is not None:
        return elsewhere
    if isinstance(OmegaConf.select(config, key), DictConfig):
        return f" in it like those given; ++{key}=... adds keys"
    parent, _, last = key.rpartition(".")
    while parent and not isinstance(OmegaConf.select(config, parent, throw_on_missing=False), DictConfig):
        parent, _, last = parent.rpartition(".")
    siblings = OmegaConf.select(config, parent) if parent else config
    if last not in siblings and (owners := _owners(parent, last, name, sources)):
        more = f" and {len(owners) - 1} more have it" if len(owners) > 1 else " has it"
        return f"; {parent}={owners[0]}{more}"
    return suggest(last, _keys(siblings), parent)


def _composed(sources: Sources, name: str, *overrides: str) -> DictConfig:
    composed = sources.composed(name, overrides)
    return OmegaConf.create(composed.values) if composed.config is None else composed.config


def _owners(group: str, key: str, name: str, sources: Sources) -> list[str]:
    """Return the choices of a config group that have a key, the shortest name first."""
    if not group or not _is_group(group, _composed(sources, name)):
        return []
    try:
        choices = sources.options(group, name)
        parts = {choice: sources.composed(name, [f"{group}={choice}"]).values[group] for choice in choices}
    except ConfigCompositionException:  # an experiment, which nothing replaces
        return []
    return sorted((choice for choice, part in parts.items() if key in part), key=len)


def _is_group(key: str, there: DictConfig) -> bool:
    """Return whether a key may be a config group: one of the configuration, or a tracker, which is optional."""
    return key in trackers() or (key in there and key != "hydra")


def _elsewhere(config: DictConfig, key: str, name: str, sources: Sources) -> str | None:
    """Return a hint to the command that has a key, or to the part of the configuration that another part refers to."""
    first = key.partition(".")[0]
    others = [
        other
        for other in CONFIGS
        if other != name and first not in config and first in sources.composed(other, []).values
    ]
    if others:
        return f" of topoflow {name}; topoflow {others[0]} has {first}"
    for at in range(1, key.count(".") + 1):
        parts = key.split(".")
        source = _source(config, parts[:at])
        if source is not None:
            return suggest(".".join(parts[at:]), _keys(OmegaConf.select(config, source)), source)
    return None


def _source(config: DictConfig, parts: Sequence[str]) -> str | None:
    """The config that ``${...}`` at this place stands for."""
    within = OmegaConf.select(config, ".".join(parts[:-1])) if parts[:-1] else config
    if (
        not isinstance(within, DictConfig)
        or parts[-1] not in within
        or not OmegaConf.is_interpolation(within, parts[-1])
    ):
        return None
    raw = OmegaConf.to_container(within, resolve=False)
    assert isinstance(raw, dict)
    source = str(raw[parts[-1]])[2:-1]
    return source if isinstance(OmegaConf.select(config, source, throw_on_missing=False), DictConfig) else None


def _keys(config: Iterable[object]) -> list[str]:
    return [str(key) for key in config if key not in ("_target_", "hydra")]
