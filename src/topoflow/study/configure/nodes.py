"""The settings that follow from ``node=``: those of the node, where they are not given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from topoflow.hardware.node import Node
from topoflow.hardware.presets import load
from topoflow.units import gbps
from topoflow.workload.efficiency import measured_gpus

ABSENT = ("null", "None", "")
TRANSFORMERS = ("topoflow.workload.transformer.Transformer", "topoflow.workload.moe.Moe")
FABRICS = "rail_optimized,rail_only,fat_tree,ideal_switch"  # that a comparison of nodes sweeps by default


def default_sweep(defaults: Mapping[str, str], arguments: Sequence[str]) -> dict[str, str]:
    """Return the default sweep of a verb, of networks for nodes where ``arguments`` name any."""
    on_nodes = has_node(arguments)
    return {key: FABRICS if key == "fabric" and on_nodes else value for key, value in defaults.items()}


def has_node(arguments: Sequence[str]) -> bool:
    """Return whether the arguments name a node."""
    return any(text.partition("=")[2] not in ABSENT for text in arguments if text.startswith("node="))


def with_node(overrides: Sequence[str], user_groups: Collection[str], gpus: Collection[str]) -> Sequence[str]:
    """Return ``overrides`` with the GPU, interfaces, collectives and prices of a ``node`` that they name.

    ``user_groups`` are groups whose objects were made in Python, ``gpus`` the names of GPUs that there are. Raises
    ``ValueError`` for a node that does not exist.
    """
    if not any(text.startswith(("node=", "+")) for text in overrides):
        return overrides
    values = {key.lstrip("+"): value for key, _, value in (text.partition("=") for text in overrides)}
    name = values.get("node", "null").strip("'\"")
    if name in ABSENT:
        return overrides
    node = load(name)
    gpu = node.gpu.lower()
    if gpu not in gpus and "gpu" not in values and "gpu" not in user_groups:
        known = f"{node.gpu or 'whose name the file does not have'}, is none of {', '.join(gpus)}"
        raise ValueError(f"gpu: must be given for node {name}, as its GPU, {known}")
    given_keys = {*values, *user_groups}
    return [*overrides, *[text for key, text in _follows(node) if key not in given_keys]]


@cache
def _follows(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the keys that a node has a value for, and the override of each."""
    bandwidth = max((port.bandwidth for port in node.ports), default=gbps(100)) / gbps(1)
    follows = {
        "gpu": node.gpu.lower(),
        "bandwidth_gbps": f"{bandwidth:g}",
        "degree": "1",
        "all_reduce": "nccl" if node.sm else "ring",
        "prices": "gpu_cluster",
    }
    return tuple((key, f"{key}={value}") for key, value in follows.items())


def has_measured_kernels(values: Mapping[str, Any], overrides: Sequence[str], user_groups: Collection[str]) -> bool:
    """Return whether ``efficiency=measured`` is the default: of transformers on nodes whose GPU was measured.

    ``values`` is the composed configuration, ``user_groups`` are groups whose objects were made in Python.
    """
    if not has_node(overrides) or {"gpu", "workload"} & set(user_groups):
        return False
    if "efficiency" in {text.lstrip("+").partition("=")[0] for text in overrides}:
        return False
    return values["workload"].get("_target_") in TRANSFORMERS and values["gpu"]["name"].lower() in measured_gpus()
