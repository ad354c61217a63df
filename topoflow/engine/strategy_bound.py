"""The bound of many placement strategies of one workload on one fabric, without making tasks of each.

    lower -> place -> bound.simulate    any strategy: 40 million tasks of a DLRM on 128 servers, some seconds
    StrategyBound                       strategies that choose holders for each layer from a list: tens of microseconds

Both say the same, up to rounding: the critical path, and for each link the first moment at which a flow on it can
begin plus bytes / capacity (``topoflow.engine.bound``), of the tasks that ``topoflow.traffic.lower`` would make, with
rings as flows (``place(.., rings="flows")``). ``csrc/bound/strategy_bound.h`` is what runs; the long way is its oracle.

A search proposes to change one layer. What that changes is worked out again: the transfers into and out of the layer,
what they and the rings of both groups put on links. Loads are integers, so after any number of changes a chain is what
it would be from scratch, to the bit. The pass over the layers is made anew.

Shapes: C chains, Y layers, K choices, N servers, E pairs of a layer and one of its inputs, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow import _C
from topoflow.engine.arrays import Home, home
from topoflow.engine.base import Floats, Ints
from topoflow.engine.collectives import ON_RINGS
from topoflow.engine.launch import MEMORY, count_threads
from topoflow.engine.strategy_arrays import StrategyArrays, strategy_arrays
from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.units import check_positive
from topoflow.workload.base import Workload

AT_ONCE = 64  # strategies that ``makespans`` keeps at a time


class StrategyBound:
    """``choices`` [K] are the sets of servers, ascending, of which each layer of ``workload`` has one.

    The servers are all of ``fabric``'s; other arguments as of ``place`` and ``Strategy``. Raises ``ValueError`` for a
    captured workload, for choices that are not sets of servers, and for two servers without a path.
    """

    def __init__(
        self,
        workload: Workload,
        fabric: Fabric,
        choices: Sequence[tuple[int, ...]],
        *,
        all_reduce: str = "hierarchical",
        routing: str = "ecmp",
        seed: int = 0,
        bucket_bytes: int = Strategy.bucket_bytes,
        first_bucket_bytes: int = Strategy.first_bucket_bytes,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        if not workload.layers:
            raise ValueError(f"workload: must be a graph of layers, got {workload.name}, which was captured")
        if all_reduce not in ON_RINGS:
            raise ValueError(f"all_reduce: must be one of {', '.join(ON_RINGS)}, got {all_reduce!r}")
        if not choices:
            raise ValueError("choices: must be at least one, got none")
        check_positive("bucket_bytes", bucket_bytes)
        check_positive("first_bucket_bytes", first_bucket_bytes)
        self.where = home(device)
        self.threads = count_threads(threads)
        self.bucket_bytes = float(bucket_bytes)
        self.first_bucket_bytes = float(first_bucket_bytes)
        self.strategies = strategy_arrays(workload, fabric, choices, all_reduce=all_reduce, routing=routing, seed=seed)
        self.arrays = self.where.put(self.strategies.arrays)

    def makespans(self, placement: ArrayLike) -> Floats:
        """The bound [C] s of each ``placement`` [C, Y]: which choice a layer has."""
        placement = _placement(placement, self.strategies)
        rows = [placement[first : first + AT_ONCE] for first in range(0, len(placement), AT_ONCE)]
        return np.concatenate([np.zeros(0), *(self.chains(some).makespan for some in rows)])

    def chains(self, placement: ArrayLike) -> Chains:
        """Strategies side by side that begin at ``placement`` [C, Y] and change one layer at a time."""
        return Chains(self, _placement(placement, self.strategies))

    def run(self, step: str, arrays: dict[str, Any]) -> None:
        """One ``step`` of all chains; ``_C.strategies`` says which there are."""
        _C.strategies(
            self.arrays | arrays,
            step,
            self.strategies.servers,
            self.first_bucket_bytes,
            self.bucket_bytes,
            self.strategies.unit,
            MEMORY,
            self.where.stream,
            self.threads,
        )


@dataclass
class Chains:
    """Made by ``StrategyBound.chains``. A proposal changes nothing until it is accepted."""

    bound: StrategyBound
    first: Ints  # [C, Y] where they begin
    state: dict[str, Any] = field(init=False, repr=False)  # by the names of csrc/bound/strategies.h
    proposed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        chains, strategies, where = len(self.first), self.bound.strategies, self.bound.where
        self.state = _state(chains, strategies, where)
        self.state |= where.put({"placement": self.first.ravel().copy()})
        if chains:
            self.bound.run("build", self.state)

    @property
    def placement(self) -> Ints:
        """[C, Y] which choice each layer has."""
        found: Ints = self.bound.where.numpy(self.state["placement"]).reshape(self.first.shape).copy()
        return found

    @property
    def makespan(self) -> Floats:
        """[C] s"""
        return self._numbers("makespan")

    def propose(self, layer: ArrayLike, choice: ArrayLike) -> Floats:
        """The makespans [C] s if ``layer`` [C] of each chain had ``choice`` [C]."""
        chains = len(self.first)
        self._put("layer", layer, chains, self.bound.strategies.layers)
        self._put("choice", choice, chains, self.bound.strategies.choices)
        if chains:
            self.bound.run("propose", self.state)
        self.proposed = True
        return self._numbers("proposed")

    def accept(self, mask: ArrayLike) -> None:
        """Chains of the ``mask`` [C] become what was last proposed. Raises ``ValueError`` where nothing was."""
        if not self.proposed:
            raise ValueError("accept: must follow a proposal, got none since the last")
        self._put("mask", np.asarray(mask, np.bool_).astype(np.int32), len(self.first), 2)
        if len(self.first):
            self.bound.run("accept", self.state)
        self.proposed = False

    def _put(self, name: str, values: ArrayLike, chains: int, count: int) -> None:
        self.state |= self.bound.where.put({name: _numbers(name, values, (chains,), count)})

    def _numbers(self, name: str) -> Floats:
        found: Floats = self.bound.where.numpy(self.state[name]).copy()
        return found


def _state(chains: int, strategies: StrategyArrays, where: Home) -> dict[str, Any]:
    times = chains * strategies.edges * strategies.servers
    words = -(-strategies.edges // 64)
    sets = chains * strategies.servers * words
    return {
        **{name: where.zeros(chains) for name in ("makespan", "proposed")},
        **{name: where.zeros(times) for name in ("forth", "back")},
        **{name: where.zeros(sets, dtype="int64") for name in ("outgoing", "incoming")},
        "crossing": where.zeros(chains * words, dtype="int64"),
        "load": where.zeros(chains * strategies.links, dtype="int64"),
        "cursor": where.zeros(chains * strategies.links, dtype="int32"),
        **{name: where.zeros(chains, dtype="int32") for name in ("layer", "choice", "mask")},
    }


def _placement(placement: ArrayLike, strategies: StrategyArrays) -> Ints:
    rows = np.asarray(placement)
    return _numbers("placement", rows, (len(rows) if rows.ndim else 0, strategies.layers), strategies.choices)


def _numbers(name: str, values: ArrayLike, shape: tuple[int, ...], count: int) -> Ints:
    """``values`` as int32 of ``shape``. Raises ``ValueError`` unless they are integers within 0..count-1."""
    found: NDArray[Any] = np.asarray(values)
    if found.shape != shape:
        raise ValueError(f"{name}: expected {list(shape)}, got {list(found.shape)}")
    if found.size and not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"{name}: must be integers, got {found.dtype}")
    if found.size and not 0 <= found.min() <= found.max() < count:
        raise ValueError(f"{name}: must be within 0..{count - 1}, got {found.min()}..{found.max()}")
    return np.array(found, np.int32, order="C")
