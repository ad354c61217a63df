"""Ring orders for PyTorch: collectives split over several process groups, one for each ring.

    rings = PermutedRings(strides=[1, 3])
    rings.register(ddp_model)       # or a model from FSDP2's fully_shard
    rings.all_reduce(tensor)

Needs torch 2.11 or newer, and a process group of backend gloo or nccl. All ranks of the group must make the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from topoflow.apply.ddp import reduce_bucket
from topoflow.apply.fsdp import RingAllGather, RingReduceScatter
from topoflow.apply.groups import ring_group
from topoflow.apply.orders import check_orders, cuts, orders_of_plan, orders_of_strides, read_plan, shares
from topoflow.search.base import Plan


class PermutedRings:
    """Process groups with one ring order each, among the ranks of ``group`` (all, by default).

    ``strides``: rank number i of the group sends to number i + stride. ``orders``, instead: rings of ranks, in which
    each rank sends to the next. ``weights``: each ring's share of the bytes, which sum to 1; equal by default.

    Raises ``ValueError``, before any group is created, for strides that do not generate the group, orders that are no
    permutations of it, and weights that do not sum to 1.
    """

    def __init__(
        self,
        strides: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        *,
        orders: Sequence[Sequence[int]] | None = None,
        group: Any = None,
    ) -> None:
        if not dist.is_initialized():
            raise ValueError("PermutedRings: must be made after torch.distributed.init_process_group")
        if (strides is None) == (orders is None):
            raise ValueError("strides: must be given, or orders instead")
        self.ranks: tuple[int, ...] = tuple(dist.get_process_group_ranks(group or dist.group.WORLD))
        ring_orders = orders if orders is not None else orders_of_strides(strides or (), self.ranks)
        self.orders = check_orders(ring_orders, self.ranks)
        self.weights = shares(weights, len(self.orders))
        self.groups = [ring_group(order, group or dist.group.WORLD) for order in self.orders]

    @classmethod
    def from_plan(
        cls, plan: Plan | str | Path, weights: Sequence[float] | None = None, group: Any = None
    ) -> PermutedRings:
        """Return the rings of a plan (``plan.json``) among all its servers, each of which has equally many ranks."""
        if not dist.is_initialized():
            raise ValueError("PermutedRings: must be made after torch.distributed.init_process_group")
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        return cls(orders=orders_of_plan(read_plan(plan), ranks), weights=weights, group=group)

    def register(self, model: Any) -> None:
        """Make gradients (and with FSDP2 parameters) of ``model`` use the rings from now on.

        Raises ``ValueError`` for a model of another kind, or one that is spread over other ranks.
        """
        if isinstance(model, DistributedDataParallel):
            self.check_group(model.process_group)
            model.register_comm_hook(self, reduce_bucket)
        elif isinstance(model, FSDPModule):
            for module in model.modules():
                if isinstance(module, FSDPModule):
                    module.set_custom_all_gather(RingAllGather(self))
                    module.set_custom_reduce_scatter(RingReduceScatter(self))
        else:
            got = type(model).__name__
            raise ValueError(f"model: must be DistributedDataParallel or made by fully_shard, got {got}")

    def check_group(self, group: Any) -> None:
        """Raise ``ValueError`` unless ``group`` has the rings' ranks, in their order."""
        ranks = tuple(dist.get_process_group_ranks(group))
        if ranks != self.ranks:
            raise ValueError(f"model: must be spread over the ranks {list(self.ranks)}, got {list(ranks)}")

    def all_reduce(self, tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        """Reduce ``tensor`` in place on all ranks; waits like ``torch.distributed.all_reduce``.

        Raises ``RuntimeError`` if a rank has failed.
        """
        flat = tensor if tensor.is_contiguous() else tensor.contiguous()
        for work in self.start(flat.view(-1), op):
            work.wait()
        if flat is not tensor:
            tensor.copy_(flat)

    def start(self, flat: torch.Tensor, op: Any) -> list[Any]:
        """Start an in-place all-reduce of ``flat`` [N], contiguous; return its work handles, one for each ring."""
        return [
            dist.all_reduce(flat[first:end], op, group=group, async_op=True)
            for group, (first, end) in zip(self.groups, self.cuts(flat), strict=True)
            if end > first
        ]

    def cuts(self, flat: torch.Tensor) -> list[tuple[int, int]]:
        """Return, for each ring, the first element of ``flat`` [N] that it carries and the one after its last."""
        return cuts(flat.numel(), flat.element_size(), self.weights)

    def close(self) -> None:
        """Destroy the rings' process groups. The rings must not be used afterwards."""
        for group in self.groups:
            dist.destroy_process_group(group)
        self.groups = []
