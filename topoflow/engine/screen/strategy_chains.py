"""Chains of placement strategies that change one layer at a time, as a model of the iteration time evaluates them.

A model (``strategy_bound.py``, ``contention.py``) keeps of every chain what makes the change of one layer little work.
Loads are integers, so after any number of changes a chain is what it would be from scratch, to the bit.

Shapes: C chains, Y layers, K choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow.engine.base import Floats, Ints
from topoflow.engine.device import Device
from topoflow.engine.launch import count_threads
from topoflow.engine.screen.strategy_arrays import StrategyArrays, strategy_arrays
from topoflow.fabric.base import Fabric
from topoflow.strategy.placement import Placement
from topoflow.units import check_positive
from topoflow.workload.base import LayerGraph

BATCH_SIZE = 64  # strategies that ``makespans`` keeps at a time


class Steps(Protocol):
    """``_C.StrategySteps`` or ``_C.ContentionSteps``: build, propose or accept for all chains."""

    def run(self, step: str, stream: int) -> None: ...


class StrategyModel(ABC):
    """``choices`` [K] are the sets of servers, ascending; each layer of ``workload`` has one of them.

    The servers are all of ``fabric``'s; other arguments as of ``place`` and ``Strategy``. Raises ``ValueError`` for a
    captured workload, for choices that are not sets of servers, and for two servers without a path.
    """

    algorithms: ClassVar[tuple[str, ...]]  # of all-reduces

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
        device: str = "cpu",
    ) -> None:
        if not workload.layers:
            raise ValueError(f"workload: must be a graph of layers, got {workload.name}, which was captured")
        if all_reduce not in self.algorithms:
            raise ValueError(f"all_reduce: must be one of {', '.join(self.algorithms)}, got {all_reduce!r}")
        if not choices:
            raise ValueError("choices: must be at least one, got none")
        check_positive("bucket_bytes", bucket_bytes)
        check_positive("first_bucket_bytes", first_bucket_bytes)
        self.where = Device.named(device)
        self.threads = count_threads(threads)
        self.bucket_bytes = float(bucket_bytes)
        self.first_bucket_bytes = float(first_bucket_bytes)
        found = strategy_arrays(workload, fabric, choices, all_reduce=all_reduce, routing=routing, seed=seed)
        self.strategies = self.read(found, fabric)
        self.arrays = self.where.put(self.strategies.arrays)

    @abstractmethod
    def read(self, strategies: StrategyArrays, fabric: Fabric) -> StrategyArrays:
        """What the kernel reads."""

    @abstractmethod
    def state(self, chains: int) -> dict[str, Any]:
        """What the kernel keeps of this many chains, apart from placements and makespans."""

    @abstractmethod
    def steps(self, arrays: dict[str, Any], **numbers: Any) -> Steps:
        """What the kernel makes of arrays and numbers."""

    def makespans(self, placement: ArrayLike) -> Floats:
        """The makespan [C] s of each ``placement`` [C, Y]: which choice a layer has."""
        placement = _placement(placement, self.strategies)
        rows = [placement[first : first + BATCH_SIZE] for first in range(0, len(placement), BATCH_SIZE)]
        return np.concatenate([np.zeros(0), *(self.chains(some).makespan for some in rows)])

    def chains(self, placement: ArrayLike) -> Chains:
        """Strategies that begin at ``placement`` [C, Y] and change one layer at a time."""
        return Chains(self, _placement(placement, self.strategies))

    def prepare(self, state: dict[str, Any]) -> Steps:
        """Chains whose arrays are checked once, as ``steps`` of them are short."""
        with self.where.using(self.where.current_stream()):
            return self.steps(
                self.arrays | state,
                servers=self.strategies.servers,
                first_bucket_bytes=self.first_bucket_bytes,
                bucket_bytes=self.bucket_bytes,
                unit=self.strategies.unit,
                budget=self.where.memory,
                threads=self.threads,
            )


@dataclass
class Chains:
    """Made by ``StrategyModel.chains``. A proposal changes nothing until it is accepted."""

    model: StrategyModel
    first: Ints  # [C, Y] where they begin
    state: dict[str, Any] = field(init=False, repr=False)  # by the names of csrc/screen/strategies.h and coflows.h
    steps: Steps = field(init=False, repr=False)
    limit: Floats | None = field(init=False, default=None)  # [C] s, of the last proposal; None: there was none

    def __post_init__(self) -> None:
        chains, where = len(self.first), self.model.where
        self.state = self.model.state(chains)
        self.state |= {name: where.zeros(chains) for name in ("makespan", "proposed", "limit")}
        self.state["mask"] = where.zeros(chains, dtype="int32")
        self.state |= where.put({name: self.first.ravel().copy() for name in ("placement", "target")})
        self.steps = self.model.prepare(self.state)
        self._run("build")

    @property
    def placement(self) -> Ints:
        """[C, Y] which choice each layer has."""
        found: Ints = self.model.where.numpy(self.state["placement"]).reshape(self.first.shape).copy()
        return found

    @property
    def makespan(self) -> Floats:
        """[C] s"""
        return self._numbers("makespan")

    def propose(self, target: ArrayLike, limit: ArrayLike = np.inf) -> Floats:
        """The makespans [C] s if the chains had the placements ``target`` [C, Y]; what costs is how many layers differ.

        Above ``limit`` (s, for all or [C]), one is only known to be that high, and below 0, nothing is computed.
        A proposal that is refused with a ``ValueError`` leaves the last one as it is.
        """
        chains, highest = len(self.first), np.asarray(limit, np.float64)
        if highest.shape not in ((), (chains,)):
            raise ValueError(f"limit: expected one or [{chains}], got {list(highest.shape)}")
        placement = _integers("target", target, self.first.shape, self.model.strategies.choices)
        self.limit = highest.copy() if highest.ndim else np.full(chains, highest)
        self._put("target", placement.ravel())
        self._put("limit", self.limit)
        self._run("propose")
        return self._numbers("proposed")

    def accept(self, mask: ArrayLike) -> None:
        """Chains of the ``mask`` [C] become what was last proposed.

        Raises ``ValueError`` where nothing was, and for a proposal above its limit, which is not known.
        """
        if self.limit is None:
            raise ValueError("accept: must follow a proposal, got none since the last")
        mask = np.asarray(mask, np.bool_)
        self._put("mask", _integers("mask", mask.astype(np.int32), (len(self.first),), 2))
        unknown = mask & (self._numbers("proposed") > self.limit)
        if unknown.any():
            raise ValueError(f"accept: must be proposals within their limits, got {np.flatnonzero(unknown).tolist()}")
        if mask.any():
            self._run("accept")
        self.limit = None

    def _put(self, name: str, values: NDArray[Any]) -> None:
        self.model.where.write(self.state[name], values)

    def _run(self, step: str) -> None:
        if len(self.first):
            with self.model.where.using(self.model.where.current_stream()):
                self.steps.run(step, self.model.where.stream)

    def _numbers(self, name: str) -> Floats:
        found: Floats = self.model.where.numpy(self.state[name]).copy()
        return found


def _placement(placement: ArrayLike, strategies: StrategyArrays) -> Ints:
    rows = np.asarray(placement)
    return _integers("placement", rows, (len(rows) if rows.ndim else 0, strategies.layers), strategies.choices)


def _integers(name: str, values: ArrayLike, shape: tuple[int, ...], count: int) -> Ints:
    """``values`` as int32 of ``shape``. Raises ``ValueError`` unless they are integers within 0..count-1."""
    found: NDArray[Any] = np.asarray(values)
    if found.shape != shape:
        raise ValueError(f"{name}: expected {list(shape)}, got {list(found.shape)}")
    if found.dtype == np.int32 and (not found.size or found.view(np.uint32).max() < count):
        return np.array(found, order="C")
    if found.size and not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"{name}: must be integers, got {found.dtype}")
    if found.size and not 0 <= found.min() <= found.max() < count:
        raise ValueError(f"{name}: must be within 0..{count - 1}, got {found.min()}..{found.max()}")
    return np.array(found, np.int32, order="C")
