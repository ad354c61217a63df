"""FSDP2's collectives on several rings: each ring carries a part of every rank's shard.

Shapes: n ranks, M elements of a shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

if TYPE_CHECKING:
    from topoflow.apply.torch import PermutedRings

# torch 2.13 has renamed both.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class _OnRings:
    """A base of both collectives. The ranks of a group are in ring order; results are in the order of FSDP's group."""

    def __init__(self, rings: PermutedRings) -> None:
        self.rings = rings

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def parts(self, shard: torch.Tensor) -> list[tuple[Any, list[int], int, int]]:
        """Return, for each ring, its group, the places of its ranks in FSDP's group, and its slice of a shard [M]."""
        place = {rank: at for at, rank in enumerate(self.rings.ranks)}
        pairs = zip(self.rings.groups, self.rings.cuts(shard), strict=True)
        return [
            (group, [place[rank] for rank in dist.get_process_group_ranks(group)], first, end)
            for group, (first, end) in pairs
            if end > first
        ]


class RingAllGather(_OnRings, AllGather):
    """Gathers [M] of every rank to [n M] on all; the caller's stream waits for it even with ``async_op``."""

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False
    ) -> None:
        self.rings.check_group(group)
        gathered = []
        for ring, places, first, end in self.parts(input_tensor):
            part = input_tensor[first:end].contiguous()
            parts = part.new_empty(len(places) * part.numel())
            work = all_gather(parts, part, group=ring, async_op=True)
            gathered.append((work, parts, places, first, end))
        rows = output_tensor.view(len(self.rings.ranks), -1)
        for work, parts, places, first, end in gathered:
            work.wait()
            rows[places, first:end] = parts.view(len(places), -1)


class RingReduceScatter(_OnRings, ReduceScatter):
    """Reduces [n M] of every rank to [M] of this one; the caller's stream waits for it even with ``async_op``."""

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False
    ) -> None:
        self.rings.check_group(group)
        rows = input_tensor.view(len(self.rings.ranks), -1)
        scattered = []
        for ring, places, first, end in self.parts(output_tensor):
            parts = rows[places, first:end].reshape(-1)
            part = output_tensor.new_empty(end - first)
            work = reduce_scatter(part, parts, op=op, group=ring, async_op=True)
            scattered.append((work, part, parts, first, end))
        for work, part, _, first, end in scattered:
            work.wait()
            output_tensor[first:end] = part
