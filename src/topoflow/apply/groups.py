"""Process groups whose collectives go round a ring in a given order."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from topoflow.apply.orders import Order

# In which direction of a group's ranks a backend's ring sends: NCCL from each rank to the next (src/graph/connect.cc,
# connectRings; not tried on a GPU), gloo to the one before (measured: tests/apply counts the bytes of its sockets).
DIRECTION = {"nccl": 1, "gloo": -1}
_made: Counter[str] = Counter()  # rings of every group, by its name: the same on all its ranks


def ring_group(order: Order, parent: Any) -> Any:
    """A process group of the ranks of ``order``, all those of the group ``parent``, in which each sends to the next.

    Collective among these ranks. Raises ``ValueError`` for a backend whose direction is unknown.
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
    """What ``new_group`` does, but for sorting ``ranks`` (until torch 2.11), and called by these ranks only.

    Its own way to do without the others (``use_local_synchronization``) names groups by how many each rank has made, in
    which ranks may differ.
    """
    default = c10d._get_default_group()
    store = c10d._world.pg_map[default][1]
    backend = dist.get_backend(parent)
    own = ranks.index(default.rank())
    _made[parent.group_name] += 1
    name = f"topoflow-ring-{parent.group_name}-{_made[parent.group_name]}"
    timeout = c10d._get_default_timeout(backend)
    group, _ = c10d._new_process_group_helper(len(ranks), own, ranks, backend, store, name, timeout=timeout)
    c10d._world.pg_group_ranks[group] = {rank: at for at, rank in enumerate(ranks)}
    return group
