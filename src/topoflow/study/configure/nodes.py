"""The settings that follow from ``node=``: those of the node, where they are not given."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from topoflow.hardware.presets import load
from topoflow.units import gbps


def with_node(overrides: Sequence[str], made: Collection[str], gpus: Collection[str]) -> Sequence[str]:
    """Return ``overrides`` with the GPU, the interfaces and the collectives of a ``node`` that they name.

    ``made`` are groups whose objects were made in Python, ``gpus`` the names of GPUs that there are. Raises
    ``ValueError`` for a node that does not exist.
    """
    values = {key.lstrip("+"): value for key, _, value in (text.partition("=") for text in overrides)}
    name = values.get("node", "null").strip("'\"")
    if name in ("null", ""):
        return overrides
    node = load(name)
    gpu = node.gpu.lower()
    follows = {
        "gpu": gpu if gpu in gpus else None,
        "bandwidth_gbps": max((port.bandwidth for port in node.ports), default=gbps(100)) / gbps(1),
        "degree": 1,
        "all_reduce": "nccl" if node.sm else None,
    }
    added = [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in follows.items()
        if value is not None and key not in values and key not in made
    ]
    return [*overrides, *added]
