"""A configuration that the caller has composed, as keys of a comparison: a dictionary, or a ``DictConfig`` of Hydra.

defaults: [{/fabric@network.fabric: torus}, _self_]     topoflow.compare(cfg.network)
network: {servers: 8, bandwidth_gbps: 400, degree: 4, latency_us: 1}
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

TARGET = "_target_"
DEFAULTS = {"efficiency": "roofline", "micro_batch": None}  # of keys that groups read; ``config`` may be without them


def keys_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys and values of ``config``; a group with a ``_target_`` becomes its object.

    Raises ``ValueError`` for a value that cannot be resolved.
    """
    from topoflow.study.configure.build import build
    from topoflow.study.configure.options import options
    from topoflow.study.configure.point import FIDELITY, Point

    values = {key: value for key, value in _resolved(config).items() if key != "hydra"}
    settings = {name: values.pop(name) for name in options(FIDELITY) if name in values}
    chosen = values.get(FIDELITY)
    if isinstance(chosen, Mapping):  # whose settings are under its own name, where Hydra has composed a whole verb
        same = (section for section in settings.values() if section[TARGET] == chosen.get(TARGET))
        values[FIDELITY] = next(same, chosen)
    else:
        values |= {name: {key: section[key] for key in section if key != TARGET} for name, section in settings.items()}
    return {
        key: build(Point({}, {}, values), key) if isinstance(value, Mapping) and TARGET in value else value
        for key, value in values.items()
    }


def _resolved(config: Mapping[str, Any]) -> dict[str, Any]:
    """``config`` without interpolations. Those of topoflow's files are of other keys of ``config``, wherever it is."""
    from omegaconf import DictConfig, OmegaConf

    from topoflow.study.configure.composition import PACKAGE
    from topoflow.study.configure.errors import one_line

    if not isinstance(config, DictConfig):
        return {str(key): value for key, value in config.items()}
    import_module(PACKAGE)  # which has the resolvers of units
    with one_line([], ""):
        plain = {key: config[key] for key in config if not OmegaConf.is_config(config[key])}
        alone = OmegaConf.merge(DEFAULTS, OmegaConf.to_container(config), plain)
        return {str(key): plain[key] if key in plain else _group(alone, config, key) for key in config}


def _group(alone: Any, config: Any, key: Any) -> Any:
    """A group, with values of ``alone``, else of the tree that ``config`` is a part of."""
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationKeyError

    try:
        return OmegaConf.to_container(alone[key], resolve=True, throw_on_missing=True)
    except InterpolationKeyError:
        return OmegaConf.to_container(config[key], resolve=True, throw_on_missing=True)
