"""The keys of ``configs/compare.yaml`` and what they may be: laws that are checked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topoflow.collectives.algorithm import NCCL, names
from topoflow.engine.base import AUTO
from topoflow.engine.device import check_name
from topoflow.engine.launch import count_threads
from topoflow.engine.lowering.blocks import RINGS
from topoflow.engine.lowering.routing import routings
from topoflow.fabric.attached import network_links
from topoflow.fabric.base import Fabric
from topoflow.fabric.channels.strides import check_strides
from topoflow.memory import check_memory
from topoflow.study.failures import CHOICES
from topoflow.units import LARGEST_BANDWIDTH, check_among, check_seed, check_whole, gbps, is_finite

GROUPS = ("workload", "strategy", "fabric", "gpu", "prices")
KEYS = (
    "servers",
    "gpus",
    "node",
    "gpus_per_node",
    "fold",
    "nccl",
    "reliability",
    "efficiency",
    "global_batch",
    "micro_batch",
    "bandwidth_gbps",
    "degree",
    "latency_us",
    "all_reduce",
    "routing",
    "rings",
    "strides",
    "placement",
    "request",
    "fidelity",
    "seed",
    "fail",
    "device",
    "threads",
    "out",
)
SPEEDS = ("bandwidth_gbps", "latency_us")  # whose values nothing but ``check_speed`` checks
NOTHING_FAILS: dict[str, Any] = {"links": [], "fibers": [], "servers": [], "each": None}
FAIL = (*NOTHING_FAILS, "rings")
BYTES_PER_SERVER = 2**11  # of a network and a job on it, at least: a dragonfly of 110,592 servers takes 3,600 each
LISTED = ("links", "fibers", "servers")  # of fail, by number
EACH = ("fiber", "server")  # what of the network fails one after the other


def check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a key or a value that ``configs/compare.yaml`` does not have, before it is used."""
    check_keys(config, (*GROUPS, *KEYS))
    check_job(config)
    check_among("rings", config["rings"], (*RINGS, AUTO))
    _check_fail(config["fail"])
    _check_node(config)
    _check_placement(config)


def _check_node(config: Mapping[str, Any]) -> None:
    _check_optional(config, "gpus_per_node")
    node, servers = config["node"], config["servers"]
    if config["fold"] is not None and (node is None or config["fold"] not in (True, False, "pipeline")):
        raise ValueError(f"fold: must be true, false or pipeline with node, else null, got {config['fold']!r}")
    if node is not None and not isinstance(node, str):
        raise ValueError(f"node: must be a preset or a file NAME.xml, got {node!r}")
    if servers is not None and node is not None:
        raise ValueError(f"servers: must be left out with node, got {servers}")
    if config["fold"] and fails(config["fail"]):
        raise ValueError(f"fold: must be false with fail, as one GPU or one link fails, got {config['fold']}")
    if node is None and config["gpus_per_node"] is not None:
        raise ValueError(f"gpus_per_node: must be left out without node, got {config['gpus_per_node']}")
    if node is not None and config["placement"] is not None:
        raise ValueError(f"placement: must be left out with node, got {config['placement']}")


def fails(fail: Mapping[str, Any]) -> bool:
    """Return whether any part fails."""
    return any(fail[key] for key in (*LISTED, "each"))


def _check_placement(config: Mapping[str, Any]) -> None:
    file, request, fail = config["placement"], config["request"], config["fail"]
    if file is not None and not isinstance(file, str):
        raise ValueError(f"placement: must be a file, got {file!r}")
    if request is not None and (file is None or not isinstance(request, str | int)):
        raise ValueError(f"request: must be the name of a request of placement=FILE, got {request!r}")
    if file is not None and fails(fail):
        raise ValueError(f"placement: must be without fail, got {file}")


def check_keys(config: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise ``ValueError`` unless ``config`` has the ``known`` keys and no other."""
    if config.keys() == set(known):
        return
    for key in sorted(set(config) - set(known)):
        raise ValueError(f"{key}: no such key; must be one of {', '.join(known)}")
    for key in known:
        if key not in config:
            raise ValueError(f"{key}: must be given")


def check_job(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a value of a key that every verb with a job on a network has."""
    _check_optional(config, "servers", "gpus", "global_batch", "micro_batch")
    if config["servers"] is not None and config["gpus"] is not None:
        raise ValueError(f"servers: must be left out with gpus, got {config['servers']}")
    if not isinstance(config["efficiency"], str):
        raise ValueError(f"efficiency: must be roofline, measured or a file, got {config['efficiency']!r}")
    servers = config["servers"] or 1
    check_memory("servers", f"{servers} servers", servers * BYTES_PER_SERVER)
    check_whole("degree", config["degree"], 1)
    check_seed("seed", config["seed"])
    for key in SPEEDS:
        check_speed(key, config[key])
    check_among("all_reduce", config["all_reduce"], (*names("all_reduce"), NCCL))
    check_among("routing", config["routing"], routings())
    check_strides(config["strides"])
    check_run(config)


def check_speed(key: str, value: object) -> None:
    """Raise ``ValueError`` for a value that one of ``SPEEDS`` cannot have."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not is_finite(value):
        raise ValueError(f"{key}: must be a finite number, got {value!r}")
    if key == "bandwidth_gbps" and gbps(value) > LARGEST_BANDWIDTH:
        raise ValueError(f"{key}: must be at most {LARGEST_BANDWIDTH / gbps(1):g}, in Gb/s, got {value!r}")
    if value < 0 or (value == 0 and key != "latency_us"):
        raise ValueError(f"{key}: must {'not be negative' if key == 'latency_us' else 'be positive'}, got {value!r}")


def check_run(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a value of the keys that say how worlds are simulated, which every verb has."""
    check_name(config["device"])
    count_threads(config["threads"])


def _check_fail(fail: object) -> None:
    if not isinstance(fail, Mapping) or set(fail) != set(FAIL):
        raise ValueError(f"fail: must be a mapping with the keys {', '.join(FAIL)}, got {fail}")
    if fail == {**NOTHING_FAILS, "rings": fail["rings"]}:
        check_among("fail.rings", fail["rings"], CHOICES)
        return
    for key in LISTED:
        numbers = fail[key]
        listed = isinstance(numbers, Sequence) and not isinstance(numbers, str)
        if not listed or any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
            raise ValueError(f"fail.{key}: must be a list of whole numbers, got {numbers!r}")
    check_among("fail.rings", fail["rings"], CHOICES)
    kinds = each_of(fail)
    if any(kind not in EACH or kinds.count(kind) > 1 for kind in kinds):
        raise ValueError(f"fail.each: must be fiber, server, both as a list, or null, got {fail['each']!r}")
    if kinds:
        for key in LISTED:
            if fail[key]:
                raise ValueError(f"fail.each: must be without fail.{key}, as each fails by itself, got {fail[key]}")


def each_of(fail: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of parts that fail one after the other, of ``EACH``."""
    kinds = fail["each"]
    if kinds is None:
        return ()
    return tuple(kinds) if isinstance(kinds, Sequence) and not isinstance(kinds, str) else (kinds,)


def check_lost(fail: Mapping[str, Any], fabric: Fabric) -> None:
    """Raise ``ValueError`` where what fails is not there, or nothing is left."""
    for key, count in (("servers", fabric.servers), ("links", fabric.links), ("fibers", fabric.links)):
        for number in fail[key]:
            if not 0 <= number < count:
                raise ValueError(f"fail.{key}: must be within 0..{count - 1}, got {number}")
    outside = network_links(fabric)
    for link in fail["fibers"]:
        if link not in outside:
            requirement = f"must be within {outside.start}..{outside.stop - 1}, as links inside nodes are no fibers"
            raise ValueError(f"fail.fibers: {requirement}, got {link}")
    if len(set(fail["servers"])) == fabric.servers:
        raise ValueError(f"fail.servers: must leave at least one of {fabric.servers} servers, got {fail['servers']}")


def _check_optional(config: Mapping[str, Any], *keys: str) -> None:
    """Raise ``ValueError`` for a value that is neither null nor a whole number of at least 1."""
    for key in keys:
        if config[key] is not None:
            check_whole(key, config[key], 1)
