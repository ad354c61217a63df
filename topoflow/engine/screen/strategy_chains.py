"""Chains of placement strategies that change one layer at a time, as a model of the iteration time estimates them.

What coflows put on links is kept of every chain, so that the change of one layer is little work. Loads are integers, so
after any number of changes a chain is what it would be from scratch, to the bit.

Shapes: C chains, Y layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow import _C
from topoflow.engine.base import Floats, Ints

if TYPE_CHECKING:
    from topoflow.engine.screen.contention import Contention


@dataclass
class Chains:
    """Made by ``Contention.chains``. A proposal changes nothing until it is accepted."""

    model: Contention
    first: Ints  # [C, Y] where they begin
    state: dict[str, Any] = field(init=False, repr=False)  # by the names of csrc/screen/strategies.h and coflows.h
    steps: _C.ContentionSteps = field(init=False, repr=False)
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
        placement = integers("target", target, self.first.shape, self.model.strategies.choices)
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
        self._put("mask", integers("mask", mask.astype(np.int32), (len(self.first),), 2))
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


def integers(name: str, values: ArrayLike, shape: tuple[int, ...], count: int) -> Ints:
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
