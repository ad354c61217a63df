"""Flat arrays for the estimate of placement strategies: a workload, a fabric and choices of holders.

``csrc/screen/strategies.h`` names the arrays and says what is in them; nothing here depends on a placement.

Shapes: N servers, Y layers, K choices, R rows (a choice and one of its holders), E edges (a layer and one of its
inputs), P paths, H hops, L links, F flows of a collective.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import offsets, row_offsets
from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.lowering.blocks import Block, BlockBuilder
from topoflow.engine.lowering.paths import NO_PATH, Paths
from topoflow.engine.lowering.placement import Lowering
from topoflow.fabric.base import Fabric
from topoflow.strategy.placement import Placement, places
from topoflow.traffic.base import Collective
from topoflow.traffic.roofline import backward_seconds, forward_seconds, update_seconds
from topoflow.workload.base import LayerGraph

Array = NDArray[Any]
LARGEST = 61  # bits of a load: what all layers' coflows put on a link fits in an int64 twice


@dataclass(frozen=True)
class ScreenedJob:
    """The workload, the fabric and the choices that the arrays are made from."""

    workload: LayerGraph
    fabric: Fabric
    choices: Sequence[tuple[int, ...]]
    lowering: Lowering


@dataclass(frozen=True)
class StrategyArrays:
    """``arrays`` by the names that ``csrc/screen/strategies.h`` gives them."""

    arrays: dict[str, Array]
    servers: int
    unit: float  # loads are counted in 1/unit B
    job: ScreenedJob

    @property
    def layers(self) -> int:
        return len(self.arrays["kind"])

    @property
    def choices(self) -> int:
        return len(self.arrays["local_before"])

    @property
    def links(self) -> int:
        return len(self.arrays["link_seconds"])


def strategy_arrays(
    workload: LayerGraph,
    fabric: Fabric,
    choices: Sequence[tuple[int, ...]],
    *,
    all_reduce: str,
    routing: str,
    seed: int,
) -> StrategyArrays:
    """Return the arrays of a placement search.

    Raises ``ValueError`` for a choice that is no ascending set of servers, for a choice that is listed twice, and for
    servers without a path.
    """
    arrays, samples = _choices(fabric.servers, choices)
    paths = Paths(fabric, seed, routing)
    blocks = BlockBuilder(fabric, all_reduce, "flows")
    groups = [blocks.of(_all_reduce(workload, holders), f"choices[{k}]") for k, holders in enumerate(choices)]
    block_paths = [_paths(paths, block, holders) for block, holders in zip(groups, choices, strict=True)]
    path = _pairs(paths)
    arrays |= _seconds(workload, choices, samples)
    arrays |= _layers(workload)
    table = _Table.of(paths)
    arrays |= _network(table, path)
    arrays |= _groups(groups, block_paths, table, workload.gpu.exchange_bandwidth)
    unit = _unit(fabric.servers * float(arrays["edge_bytes"].sum()))  # what a layer's coflow has, at most
    arrays["link_seconds"] = 1 / (fabric.bandwidth * unit)
    job = ScreenedJob(workload, fabric, choices, Lowering(all_reduce, routing, "flows", seed))
    return StrategyArrays(arrays, fabric.servers, unit, job)


def _all_reduce(workload: LayerGraph, holders: tuple[int, ...]) -> Collective:
    return Collective("all_reduce", 1.0, holders, local=workload.gpus_per_server)


def _paths(paths: Paths, block: Block, holders: tuple[int, ...]) -> Ints:
    """Return [B] the path of every task of ``block`` on the servers ``holders``."""
    ends = block.ends(np.array([holders]))
    path: Ints = block.on_tasks(paths.connections(*ends, reduces=block.reduces))[0]
    return path


def _pairs(paths: Paths) -> Ints:
    """[N, N] the path of every transfer; ``NO_PATH`` from a server to itself."""
    servers = paths.fabric.servers
    source, target = (ends.ravel() for ends in np.indices((servers, servers)))
    return paths.connections(source, target, np.zeros_like(source)).reshape(servers, servers)


def _choices(servers: int, choices: Sequence[tuple[int, ...]]) -> tuple[dict[str, Array], Ints]:
    """The arrays of choices, and of how many servers each row computes the samples [R]."""
    if len(set(choices)) < len(choices):  # layers with the same holders reduce their gradients together
        raise ValueError(f"choices: must be {len(choices)} different sets, got {len(set(choices))}")
    Placement("choices", servers, {f"choice {k}": holders for k, holders in enumerate(choices)})  # checks them
    first = offsets(len(holders) for holders in choices)
    holder = np.concatenate([np.array(holders, np.int32) for holders in choices])
    place = np.array([places(servers, holders) for holders in choices])
    row = first[:-1, None] + place  # [K, N]
    arrays = {"row_offsets": first, "holder": holder, "host": holder[row].ravel()}
    return arrays, np.bincount(row.ravel(), minlength=len(holder)).astype(np.int32)


def _seconds(workload: LayerGraph, choices: Sequence[tuple[int, ...]], samples: Ints) -> dict[str, Array]:
    """Layers that take the same time everywhere are of one kind."""
    replicated = np.repeat([len(holders) > 1 for holders in choices], [len(holders) for holders in choices])  # [R]
    cases, case = np.unique(np.column_stack([samples, replicated]), axis=0, return_inverse=True)
    times = np.array([[_times(workload, layer, *of) for of in cases.tolist()] for layer in workload.layers])
    kinds, kind = np.unique(times.reshape(len(workload.layers), -1), axis=0, return_inverse=True)
    of_rows = kinds.reshape(len(kinds), -1, 3)[:, case.reshape(-1)]  # [G, R, 3]
    forward, backward, update = (np.ascontiguousarray(of_rows[..., column]).ravel() for column in range(3))
    return {"kind": kind.reshape(-1).astype(np.int32), "forward": forward, "backward": backward, "update": update}


def _times(workload: LayerGraph, layer: Any, servers: int, replicated: int) -> tuple[float, float, float]:
    """s of one that computes a layer for the samples of this many ``servers``."""
    samples = servers * workload.batch_per_server
    return (
        forward_seconds(workload, layer, samples),
        backward_seconds(workload, layer, samples),
        update_seconds(workload, layer, samples, replicated=bool(replicated)),
    )


def _layers(workload: LayerGraph) -> dict[str, Array]:
    number = {layer.name: index for index, layer in enumerate(workload.layers)}
    inputs = [sorted(number[earlier] for earlier in layer.after) for layer in workload.layers]
    source = np.array([earlier for row in inputs for earlier in row], np.int32)
    consumer = np.repeat(np.arange(len(inputs)), [len(row) for row in inputs])
    outputs = np.array([layer.output_elements for layer in workload.layers], np.float64)
    inside = [workload.gpus_per_server > 1 and not layer.sparse for layer in workload.layers]
    parameters = np.array([layer.parameters for layer in workload.layers], np.float64)
    return {
        "gradient": parameters * workload.element_bytes,
        "inside": np.array(inside, np.int32),
        "input_offsets": row_offsets(consumer, len(inputs)),
        "source": source,
        "consumer": consumer.astype(np.int32),
        "output_offsets": row_offsets(source, len(inputs)),
        "output": np.argsort(source, kind="stable").astype(np.int32),
        "edge_bytes": outputs[source] * (workload.batch_per_server * workload.element_bytes),
    }


@dataclass(frozen=True)
class _Table:
    """The path table once all paths are in it. Of path ``NO_PATH``, the last: no links, no time."""

    offsets: Offsets  # [P+1]
    links: Ints  # [H]
    weights: Floats | None  # [H]
    hops: Offsets  # [P+1]
    latency: Floats  # [P+1] s
    slowness: Floats  # [P+1] s/B, of a flow that is alone on it

    @staticmethod
    def of(paths: Paths) -> _Table:
        table = paths.arrays()
        offsets, links, weights = table.offsets, table.links, table.path_weight
        slowness = (1.0 if weights is None else weights) / paths.fabric.bandwidth[links]
        slowest = np.maximum.reduceat(slowness, offsets[:-1]) if len(links) else np.zeros(0)
        hops = np.append(np.diff(offsets), 0)
        return _Table(offsets, links, weights, hops, np.append(table.latency, 0.0), np.append(slowest, 0.0))

    def crossed(self, path: Ints) -> tuple[Offsets, Offsets]:
        """The hops of each ``path`` [F], one after the other, and the F that they belong to."""
        count = self.hops[path]
        begin = np.cumsum(count) - count
        of = np.repeat(np.arange(len(path)), count)
        return np.arange(len(of)) + (self.offsets[path] - begin)[of], of


def _network(table: _Table, path: Ints) -> dict[str, Array]:
    """``path`` [N, N]."""
    return {
        "latency": table.latency[path].ravel(),
        "path": np.where(path == NO_PATH, 0, path).ravel().astype(np.int32),
        "path_offsets": table.offsets,
        "path_links": table.links,
        "path_weight": np.zeros(0) if table.weights is None else table.weights,
    }


def _groups(groups: Sequence[Block], paths: Sequence[Ints], table: _Table, local_bandwidth: float) -> dict[str, Array]:
    """All-reduces of one byte: what their phases inside servers and their rings take where nothing else is on links."""
    latencies, slownesses, rings = [], [], []
    for block, block_paths in zip(groups, paths, strict=True):
        path, share = block_paths[1:-1], block.share[1:-1]  # between the joins
        latencies.append(((block.waits[1:-1] + 1) * table.latency[path]).max(initial=0.0))
        slowness = share * table.slowness[path] + block.local_share[1:-1] / local_bandwidth
        slownesses.append(slowness.max(initial=0.0))
        rings.append(_on_links(table, path, share))
    return {
        "local_before": np.array([block.local_share[0] for block in groups]) / local_bandwidth,
        "local_after": np.array([block.local_share[-1] for block in groups]) / local_bandwidth,
        "flow_latency": np.array(latencies),
        "flow_slowness": np.array(slownesses),
        "ring_offsets": offsets(len(link) for link, _ in rings),
        "ring_link": np.concatenate([link for link, _ in rings]).astype(np.int32),
        "ring_share": np.concatenate([share for _, share in rings]),
    }


def _on_links(table: _Table, path: Ints, share: Floats) -> tuple[Offsets, Floats]:
    """Each link that flows [F] cross, once, and the share of the bytes that crosses it."""
    hop, flow = table.crossed(path)
    link, at = np.unique(table.links[hop], return_inverse=True)
    crossing = share[flow] if table.weights is None else share[flow] * table.weights[hop]
    return link.astype(np.int64), np.bincount(at, weights=crossing, minlength=len(link)).astype(np.float64)


def _unit(most: float) -> float:
    """The largest power of two with which no load of up to ``most`` B overflows."""
    return 2.0 ** (LARGEST - math.ceil(math.log2(max(most, 1.0))))
