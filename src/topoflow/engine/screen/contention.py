"""An estimate of the iteration time that sees transfers hold each other up, for chains to walk by.

``bound`` gives every transfer its links for itself, so a layer that all servers send to at once looks cheap, and a walk
by it alone ends where ``fluid`` is slow. Here the transfers of one layer are a coflow: they begin together, and each
takes as long as the fullest of its links needs for all bytes of the coflow on it,

    alone       latency + bytes / bandwidth
    here        latency + max over its links of (bytes of the layer's transfers on the link / its capacity)

An all-reduce is a coflow too, and waits on every link for what other groups, or gradients of activations, began there
before it; gradients of activations that meet earlier ones on a link get half of it. What is computed when is as in
``lower``: layers in order on every server, backward in reverse, buckets of a group in order, then the
optimizer.

An all-reduce takes as long as it would alone, if nothing is in its way: of rings, that is the time of its fullest link;
of an algorithm with steps or trees, what a simulation says once (``alone``). Rank correlations with ``fluid`` for all
jobs and algorithms are in benchmarks/results/search_estimate.txt.

This is no bound: transfers that do not begin together are quicker, others meet those of another layer. Its use is that
it orders strategies as ``fluid`` does; tests say how well. ``csrc/screen/contention.h`` is what runs,
``tests/twins/contention.py`` the same in plain Python.

Source: Chowdhury and Stoica, "Coflow: a networking abstraction for cluster applications", HotNets 2012; the time of a
coflow's bottleneck is that of Varys (Chowdhury, Zhong and Stoica, SIGCOMM 2014).

Shapes: C chains, Y layers, K choices, N servers, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow import _C
from topoflow.collectives.algorithm import algorithms, names
from topoflow.engine.base import Floats, Ints, Offsets
from topoflow.engine.device import DeviceMemory
from topoflow.engine.launch import Kernel, count_threads, launch_together
from topoflow.engine.screen.alone import alone
from topoflow.engine.screen.path_trees import path_trees
from topoflow.engine.screen.strategy_arrays import strategy_arrays
from topoflow.fabric.base import Fabric
from topoflow.strategy.placement import Placement
from topoflow.units import check_among, check_positive
from topoflow.workload.base import LayerGraph


class Contention:
    """The model that orders strategies as ``fluid`` does.

    ``choices`` [K] are the sets of servers, ascending; each layer of ``workload`` has one of them. The servers are all
    of ``fabric``'s; other arguments as of ``place`` and ``Strategy``. Each of several GPUs has a copy of the arrays.

    Raises ``ValueError`` for a captured workload, for choices that are not sets of servers, and for two servers without
    a path.
    """

    algorithms: ClassVar[tuple[str, ...]] = names("all_reduce")

    def __init__(
        self,
        workload: LayerGraph,
        fabric: Fabric,
        choices: Sequence[tuple[int, ...]],
        *,
        all_reduce: str = "hierarchical",
        routing: str = "ecmp",
        seed: int = 0,
        bucket_bytes: int = Placement.bucket_bytes,
        first_bucket_bytes: int = Placement.first_bucket_bytes,
        threads: int | None = None,
        device: DeviceMemory = DeviceMemory(),
    ) -> None:
        if not workload.layers:
            raise ValueError(f"workload: must be a graph of layers, got {workload.name}, which was captured")
        check_among("all_reduce", all_reduce, self.algorithms)
        if not choices:
            raise ValueError("choices: must be at least one, got none")
        check_positive("bucket_bytes", bucket_bytes)
        check_positive("first_bucket_bytes", first_bucket_bytes)
        self.threads = count_threads(threads)
        self.bucket_bytes = float(bucket_bytes)
        self.strategies = strategy_arrays(workload, fabric, choices, all_reduce=all_reduce, routing=routing, seed=seed)
        arrays = self.strategies.arrays
        consumers = np.unique(np.stack([arrays["source"], arrays["consumer"]]), axis=1)[0]
        tables = arrays | _trees(arrays, fabric.servers) | self._all_reduces(1 / fabric.bandwidth)
        self.sizes = _C.ContentionSizes(
            servers=self.strategies.servers,
            first_bucket_bytes=float(first_bucket_bytes),
            bucket_bytes=self.bucket_bytes,
            unit=self.strategies.unit,
            largest_tree=int(np.diff(tables["tree"]).max()),
            coflows=1 + int(np.bincount(consumers, minlength=1).max()),  # that the change of one layer changes
        )
        self.held = tuple((member, member.put(tables)) for member in device.all)  # devices, and the arrays there

    def makespans(self, placement: ArrayLike) -> Floats:
        """The makespan [C] s of each ``placement`` [C, Y]: which choice a layer has."""
        rows = self.check(placement)
        if not len(rows):
            return np.zeros(0)
        shares = [share for share in np.array_split(rows, len(self.held)) if len(share)]
        kernels, answers = [], []
        for (where, held), share in zip(self.held, shares, strict=False):
            answers.append(where.zeros(len(share)))
            arrays = held | where.put({"placement": share.ravel()}) | {"makespan": answers[-1]}
            kernels.append((self._kernel(where, arrays, len(share)), where))
        launch_together(kernels)
        return np.concatenate([where.numpy(answer) for (_, where), answer in zip(kernels, answers, strict=True)])

    def _kernel(self, where: DeviceMemory, arrays: dict[str, Any], placements: int) -> Kernel:
        def call() -> None:
            _C.contention(arrays, self.sizes, where.memory, where.stream, self.threads)

        return Kernel(call, where.flag(), lambda: [f"{placements} placements"])

    def check(self, placement: ArrayLike) -> Ints:
        """``placement`` [C, Y] as int32. Raises ``ValueError`` unless it is one of layers on choices."""
        rows = np.asarray(placement)
        shape = len(rows) if rows.ndim else 0, self.strategies.layers
        return _integers("placement", rows, shape, self.strategies.choices)

    def _all_reduces(self, slowness: Floats) -> dict[str, Floats]:
        """Return the time of the all-reduces of each choice, alone and on every link; ``slowness`` [L] s/B."""
        arrays, job = self.strategies.arrays, self.strategies.job
        busy = arrays["ring_share"] * slowness[arrays["ring_link"]]
        if algorithms()[job.lowering.all_reduce].streams is None:
            largest = max(2 * self.bucket_bytes, float(arrays["gradient"].max(initial=0.0)))
            waits, takes = alone(job.workload, job.fabric, job.choices, job.lowering, (self.bucket_bytes, largest))
        else:
            network = np.maximum(_largest(busy, arrays["ring_offsets"]), arrays["flow_slowness"])
            waits, takes = arrays["flow_latency"], arrays["local_before"] + arrays["local_after"] + network
        return {"ring_latency": waits, "ring_slowness": takes, "ring_busy": busy}


def _trees(arrays: dict[str, Any], servers: int) -> dict[str, Any]:
    trees = path_trees(arrays["path"], arrays["path_offsets"], arrays["path_links"], servers)
    latency = arrays["latency"]
    return trees | {"tree_latency": np.concatenate([latency, latency.reshape(servers, -1).T.ravel()])}


def _largest(values: Floats, offsets: Offsets) -> Floats:
    """The largest of each row, 0 where there is none."""
    rows = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return np.array([values[first:end].max(initial=0.0) for first, end in rows])


def _integers(name: str, values: NDArray[Any], shape: tuple[int, ...], count: int) -> Ints:
    """``values`` as int32 of ``shape``. Raises ``ValueError`` unless they are integers within 0..count-1."""
    if values.shape != shape:
        raise ValueError(f"{name}: expected {list(shape)}, got {list(values.shape)}")
    if values.size and not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name}: must be integers, got {values.dtype}")
    if values.size and not 0 <= values.min() <= values.max() < count:
        raise ValueError(f"{name}: must be within 0..{count - 1}, got {values.min()}..{values.max()}")
    return np.array(values, np.int32, order="C")
