"""FOSquare's optimized mapping: groups of processes with the most traffic go to the racks with the most cores.

    cores in one rack: m = 4, then the largest remaining power of 2
    1 2 3 4 5 6 7 8  ->  [1,2] [5,7] [3,4] [6,8]  ->  [1,2,5,7] [3,4,6,8]   pairs of groups with the most packets first
    the group of m with the most packets among themselves is mapped, and the remaining processes are grouped anew

Algorithm 1 leaves some choices open, or states them in a way that does not end. They are made as follows:

    - m is at most the number of remaining processes, as a power of 2 ("otherwise, it is truncated").
    - After a mapping the next m may be smaller than the existing groups (step 6 then never finds its size): grouping
      begins anew with the remaining single processes.
    - Of equal pairs of groups the first is taken. In an odd number of groups, one group stays single and waits.
    - Of racks with equally many free cores the lowest is taken. Cores that the processes do not fill stay available.

Source: FOSquare (Yan et al., Photonics 2021), 3, Algorithm 1, Tables 3 to 5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoflow.arrays import Mask
from topoflow.papers.fosquare.mappings import Index, between, by_room


class ProcessGroups(NamedTuple):
    """Groups of equal size: G groups of m processes, and E pairs of groups with packets between them."""

    members: Index  # [G, m] processes
    inside: Index  # [G] packets among the members of a group
    pairs: Index  # [E, 2] ascending, the lower group of a pair first
    packets: Index  # [E] between the groups of a pair


def place(packets: Index, rack: Index, seed: int) -> Index:
    processes = singles(packets)
    core = np.full(len(packets), -1)
    free = np.ones(len(rack), bool)
    while (core < 0).any():
        unmapped = core < 0
        numbers = np.flatnonzero(free)
        best_rack = by_room(rack[numbers])[0]
        size = power_of_two(min(len(best_rack), int(unmapped.sum())))
        groups = grouped(select_groups(processes, unmapped), size)
        chosen = groups.members[groups.inside.argmax()]
        cores = numbers[best_rack[:size]]
        core[chosen] = cores
        free[cores] = False
    return core


def singles(packets: Index) -> ProcessGroups:
    """Return a group for each process, from the ``packets`` [M, M] between processes."""
    packets_of_pairs = np.triu(between(packets))
    pairs = np.argwhere(packets_of_pairs)
    members = np.arange(len(packets))[:, None]
    return ProcessGroups(members, np.zeros(len(packets), np.int64), pairs, packets_of_pairs[tuple(pairs.T)])


def select_groups(groups: ProcessGroups, mask: Mask) -> ProcessGroups:
    """Keep the groups in the ``mask`` [G], in their order."""
    number = np.cumsum(mask) - 1
    inside = mask[groups.pairs].all(axis=1)
    return ProcessGroups(
        groups.members[mask], groups.inside[mask], number[groups.pairs[inside]], groups.packets[inside]
    )


def grouped(groups: ProcessGroups, size: int) -> ProcessGroups:
    """Return groups of ``size`` processes (steps 2 to 6)."""
    while groups.members.shape[1] < size:
        groups = joined(groups, matched(groups))
    return groups


def matched(groups: ProcessGroups) -> Index:
    """Return pairs of groups [G // 2, 2], pairs with the most packets between them first; an odd group is left out.

    Of equal pairs the first is taken. Groups without packets between them are paired in their order.
    """
    is_free = np.ones(len(groups.members), bool)
    pairs: list[Index] = []
    for pair in groups.pairs[np.argsort(-groups.packets, kind="stable")]:
        if is_free[pair].all():
            is_free[pair] = False
            pairs.append(pair)
    free = np.flatnonzero(is_free)
    return np.concatenate([np.array(pairs, np.int64).reshape(-1, 2), free[: len(free) // 2 * 2].reshape(-1, 2)])


def joined(groups: ProcessGroups, chosen: Index) -> ProcessGroups:
    """Join each pair in ``chosen`` [P, 2] to a group (step 5)."""
    number = np.full(len(groups.members), -1)
    number[chosen] = np.arange(len(chosen))[:, None]
    ends = np.sort(number[groups.pairs], axis=1)
    is_paired = ends[:, 0] >= 0
    is_inside = is_paired & (ends[:, 0] == ends[:, 1])
    inside = groups.inside[chosen].sum(axis=1)
    np.add.at(inside, ends[is_inside, 0], groups.packets[is_inside])
    key, at = np.unique(ends[is_paired & ~is_inside] @ [len(chosen), 1], return_inverse=True)
    packets = np.zeros(len(key), np.int64)
    np.add.at(packets, at.reshape(-1), groups.packets[is_paired & ~is_inside])
    pairs = np.stack(np.divmod(key, max(len(chosen), 1)), axis=1)
    return ProcessGroups(groups.members[chosen].reshape(len(chosen), -1), inside, pairs, packets)


def power_of_two(number: int) -> int:
    """Return the largest power of two that is at most ``number``."""
    return 1 << (number.bit_length() - 1)
