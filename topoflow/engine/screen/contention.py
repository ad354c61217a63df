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
``contention_reference.py`` the same in plain Python. What the coflows of every layer put on links is kept, and changed
by a proposal; the clocks are run anew, as an earlier arrival moves all that follows.

Source: Chowdhury and Stoica, "Coflow: a networking abstraction for cluster applications", HotNets 2012; the time of a
coflow's bottleneck is that of Varys (Chowdhury, Zhong and Stoica, SIGCOMM 2014).

Shapes: C chains, Y layers, K choices, N servers, L links.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from topoflow import _C
from topoflow.engine.base import Floats, Offsets
from topoflow.engine.lowering.algorithms import algorithms, names
from topoflow.engine.screen.alone import alone
from topoflow.engine.screen.path_trees import path_trees
from topoflow.engine.screen.strategy_arrays import StrategyArrays, unit_for
from topoflow.engine.screen.strategy_chains import Steps, StrategyModel
from topoflow.fabric.base import Fabric


class Contention(StrategyModel):
    """The model that orders strategies as ``fluid`` does."""

    algorithms = names("all_reduce")
    largest_tree: int  # nodes
    coflows: int  # that the change of one layer changes, at most

    def read(self, strategies: StrategyArrays, fabric: Fabric) -> StrategyArrays:
        arrays = strategies.arrays
        slowness = 1 / fabric.bandwidth  # [L] s/B
        busy = arrays["ring_share"] * slowness[arrays["ring_link"]]
        unit = unit_for(fabric.servers * float(arrays["edge_bytes"].sum()))  # what a layer's coflow has, at most
        trees = path_trees(arrays["path"], arrays["path_offsets"], arrays["path_links"], fabric.servers)
        self.largest_tree = int(np.diff(trees["tree"]).max())
        latency = arrays["latency"]
        waits, takes = self._all_reduces(strategies, busy)
        consumers = np.unique(np.stack([arrays["source"], arrays["consumer"]]), axis=1)[0]
        self.coflows = 1 + int(np.bincount(consumers, minlength=1).max())
        found = {
            "tree_latency": np.concatenate([latency, latency.reshape(fabric.servers, -1).T.ravel()]),
            "link_seconds": slowness / unit,
            "ring_latency": waits,
            "ring_slowness": takes,
            "ring_busy": busy,
        }
        return replace(strategies, unit=unit, arrays=arrays | trees | found)

    def _all_reduces(self, strategies: StrategyArrays, busy: Floats) -> tuple[Floats, Floats]:
        """s [K] and s/B [K] that the all-reduces of each choice take alone."""
        arrays, job = strategies.arrays, strategies.job
        if algorithms()[job.lowering.all_reduce].streams is None:
            largest = max(2 * self.bucket_bytes, float(arrays["gradient"].max(initial=0.0)))
            return alone(job.workload, job.fabric, job.choices, job.lowering, (self.bucket_bytes, largest))
        network = np.maximum(
            _largest(busy, arrays["ring_offsets"]), _largest(arrays["line_slope"], arrays["line_offsets"])
        )
        takes = arrays["local_before"] + arrays["local_after"] + network
        return _largest(arrays["line_seconds"], arrays["line_offsets"]), takes

    def state(self, chains: int) -> dict[str, Any]:
        strategies = self.strategies
        loads = chains * strategies.layers * 2 * strategies.links
        return {"load": self.where.zeros(loads, dtype="int64")}

    def steps(self, arrays: dict[str, Any], **numbers: Any) -> Steps:
        return _C.contention(arrays, largest_tree=self.largest_tree, coflows=self.coflows, **numbers)


def _largest(values: Floats, offsets: Offsets) -> Floats:
    """The largest of each row, 0 where there is none."""
    rows = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return np.array([values[first:end].max(initial=0.0) for first, end in rows])
