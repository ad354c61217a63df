"""Process groups whose collectives follow a ring in a given order."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from topoflow.apply.orders import Order

# The direction in which a backend's ring sends: NCCL to the next rank of the group (src/graph/connect.cc, connectRings;
# not tried on a GPU), gloo to the previous one (measured: tests/apply counts the bytes of its sockets).
DIRECTION = {"nccl": 1, "gloo": -1}
_ring_counts: Counter[str] = Counter()  # rings created for each group, by group name: equal on all its ranks


def ring_group(order: Order, parent: Any) -> Any:
    """Return a process group of the ranks of ``order``, in which each rank sends to the next.

    ``order`` has all ranks of the group ``parent``, and all of them must call this. Raises ``ValueError`` for a backend
    whose direction is unknown.
    """
    backend = dist.get_backend(parent)
    if backend not in DIRECTION:
        raise ValueError(f"backend: must be one of {', '.join(sorted(DIRECTION))}, got {backend!r}")
    ranks = list(order if DIRECTION[backend] > 0 else reversed(order))
    keeps_order = "sort_ranks" in inspect.signature(dist.new_group).parameters  # torch 2.12
    if keeps_order and len(ranks) == dist.get_world_size():
        return dist.new_group(ranks, backend=backend, sort_ranks=False)
    return _unsorted_group(ranks, parent)


def _unsorted_group(ranks: list[int], parent: Any) -> Any:
    """Create a group like ``new_group``, but without sorting ``ranks``; only these ranks call it.

    torch before 2.12 always sorts. ``new_group`` could be called by these ranks only (``use_local_synchronization``),
    but then names the group by the number of groups that each rank has created, which may differ among ranks.
    """
    default = c10d._get_default_group()
    store = c10d._world.pg_map[default][1]
    backend = dist.get_backend(parent)
    group_rank = ranks.index(default.rank())
    _ring_counts[parent.group_name] += 1
    name = f"topoflow-ring-{parent.group_name}-{_ring_counts[parent.group_name]}"
    timeout = c10d._get_default_timeout(backend)
    group, _ = c10d._new_process_group_helper(len(ranks), group_rank, ranks, backend, store, name, timeout=timeout)
    c10d._world.pg_group_ranks[group] = {rank: at for at, rank in enumerate(ranks)}
    return group
