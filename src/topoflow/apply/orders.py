"""Ring orders of a job's ranks, from strides or from a plan, and the share of the bytes that each ring carries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from topoflow.fabric.topoopt.totient_perms import ring
from topoflow.fields import decode
from topoflow.files import read_bytes
from topoflow.search.base import Plan

Order = tuple[int, ...]  # ranks: each sends to the next, and the last to the first
ALIGNMENT = 128  # B; shares begin at multiples of it, for wide loads and stores


def orders_of_strides(strides: Sequence[int], ranks: Sequence[int]) -> tuple[Order, ...]:
    """Return the rings +stride over ``ranks``. Raises ``ValueError`` for a stride that does not generate the group."""
    size = len(ranks)
    for stride in strides:
        if isinstance(stride, bool) or not isinstance(stride, int) or not 0 < stride < max(size, 2):
            raise ValueError(f"strides: must be whole numbers from 1 to {max(size - 1, 1)}, got {stride!r}")
        if math.gcd(stride, size) != 1:
            raise ValueError(f"strides: must be co-prime with the {size} ranks, got {stride}")
    return tuple(ring(tuple(ranks), stride) for stride in strides)


def orders_of_plan(plan: Plan, ranks: Sequence[int]) -> tuple[Order, ...]:
    """Return the plan's rings among all its servers, as ranks.

    The ranks of a server are consecutive in ``ranks`` and in each ring. Raises ``ValueError`` if the servers do not
    divide the ranks, or if the plan has no rings among all servers.
    """
    if len(ranks) % plan.servers:
        raise ValueError(f"plan.servers: must divide the {len(ranks)} ranks, got {plan.servers}")
    full_groups = [ring for ring in plan.rings if len(ring.group) == plan.servers]
    if not full_groups:
        groups = sorted({len(ring.group) for ring in plan.rings}) or "none"
        raise ValueError(f"plan.rings: must have a group of all {plan.servers} servers, got groups of {groups}")
    local = len(ranks) // plan.servers
    place = {server: at * local for at, server in enumerate(sorted(full_groups[0].group))}
    orders = full_groups[0].orders
    return tuple(tuple(ranks[place[server] + rank] for server in order for rank in range(local)) for order in orders)


def read_plan(plan: Plan | str | Path) -> Plan:
    """Return ``plan``, read first if it is a path. Raises ``ValueError`` that names the file, and ``OSError``."""
    if isinstance(plan, Plan):
        return plan
    return Plan.from_json(decode(str(plan), read_bytes(Path(plan))), str(plan))


def check_orders(orders: Sequence[Sequence[int]], ranks: Sequence[int]) -> tuple[Order, ...]:
    """Return ``orders`` as tuples. Raises ``ValueError`` unless each is a permutation of ``ranks``."""
    if not orders:
        raise ValueError("orders: must be at least one, got none")
    for order in orders:
        if sorted(order) != sorted(ranks):
            raise ValueError(f"orders: must be permutations of the ranks {list(ranks)}, got {list(order)}")
    return tuple(tuple(order) for order in orders)


def shares(weights: Sequence[float] | None, rings: int) -> tuple[float, ...]:
    """Return each ring's share of the bytes [rings], equal without ``weights``. Raises ``ValueError``."""
    if weights is None:
        return (1.0 / rings,) * rings
    if len(weights) != rings:
        raise ValueError(f"weights: must be one for each of {rings} rings, got {len(weights)}")
    for weight in weights:
        if not (math.isfinite(weight) and weight > 0):
            raise ValueError(f"weights: must be positive, got {weight}")
    if abs(sum(weights) - 1) > 1e-6:
        raise ValueError(f"weights: must sum to 1, got {sum(weights):g}")
    return tuple(float(weight) for weight in weights)


def cuts(count: int, size: int, weights: Sequence[float]) -> list[tuple[int, int]]:
    """Return, for each ring, the first element that it carries and the one after its last.

    ``count``: elements of ``size`` B that the rings carry together.
    """
    step = max(ALIGNMENT // size, 1)
    ends = [min(int(count * total) // step * step, count) for total in accumulate(weights)]
    ends[-1] = count
    return list(zip([0, *ends[:-1]], ends, strict=True))
