"""FOSquare's optimized mapping: groups of processes that send each other the most go to the racks with the most cores.

    cores in one rack: m = 4, then the largest power of 2 that is left
    1 2 3 4 5 6 7 8  ->  [1,2] [5,7] [3,4] [6,8]  ->  [1,2,5,7] [3,4,6,8]   pairs of groups with the most packets first
    the group of m with the most packets among themselves is mapped, and the rest is grouped anew

What Algorithm 1 leaves open, or says in a way that does not end:

    - m is at most the processes that are left, as a power of 2 ("otherwise, it is truncated").
    - After a mapping the next m may be smaller than the groups that there are (step 6 then never finds its size):
      grouping begins anew with the single processes that are left.
    - Of equal pairs of groups the first is taken. Where groups are odd in number one stays single, and waits.
    - The racks of equal room: the lowest. Cores of a rack that the processes do not fill stay available.

Source: FOSquare (Yan et al., Photonics 2021), 3, Algorithm 1, Tables 3 to 5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoflow.arrays import Mask
from topoflow.papers.fosquare.mappings import Index, between, by_room


class Groups(NamedTuple):
    """Groups of equal size: G groups of m processes, E pairs of groups that send each other packets."""

    members: Index  # [G, m] processes
    inside: Index  # [G] packets among those of a group
    pairs: Index  # [E, 2] ascending, the first of a pair the lower
    packets: Index  # [E] between the groups of a pair


def place(packets: Index, rack: Index, seed: int) -> Index:
    everyone = singles(packets)
    core = np.full(len(packets), -1)
    free = np.ones(len(rack), bool)
    while (core < 0).any():
        left = core < 0
        numbers = np.flatnonzero(free)
        most = by_room(rack[numbers])[0]
        size = power_of_two(min(len(most), int(left.sum())))
        groups = grouped(kept(everyone, left), size)
        chosen = groups.members[groups.inside.argmax()]
        cores = numbers[most[:size]]
        core[chosen] = cores
        free[cores] = False
    return core


def singles(packets: Index) -> Groups:
    """Return a group for each of the processes that send each other these ``packets`` [M, M]."""
    both = np.triu(between(packets))
    pairs = np.argwhere(both)
    members = np.arange(len(packets))[:, None]
    return Groups(members, np.zeros(len(packets), np.int64), pairs, both[tuple(pairs.T)])


def kept(groups: Groups, left: Mask) -> Groups:
    """Keep the groups that are ``left`` [G], in their order."""
    number = np.cumsum(left) - 1
    stays = left[groups.pairs].all(axis=1)
    return Groups(groups.members[left], groups.inside[left], number[groups.pairs[stays]], groups.packets[stays])


def grouped(groups: Groups, size: int) -> Groups:
    """Return groups of ``size`` processes (steps 2 to 6)."""
    while groups.members.shape[1] < size:
        groups = joined(groups, matched(groups))
    return groups


def matched(groups: Groups) -> Index:
    """Return pairs of groups [G // 2, 2], first those with the most packets between them; an odd group is left out.

    Of equal pairs the first is taken. Groups that send each other nothing are paired in their order.
    """
    is_left = np.ones(len(groups.members), bool)
    found: list[Index] = []
    for pair in groups.pairs[np.argsort(-groups.packets, kind="stable")]:
        if is_left[pair].all():
            is_left[pair] = False
            found.append(pair)
    rest = np.flatnonzero(is_left)
    return np.concatenate([np.array(found, np.int64).reshape(-1, 2), rest[: len(rest) // 2 * 2].reshape(-1, 2)])


def joined(groups: Groups, chosen: Index) -> Groups:
    """Join each of the ``chosen`` [P, 2] pairs to a group (step 5)."""
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
    return Groups(groups.members[chosen].reshape(len(chosen), -1), inside, pairs, packets)


def power_of_two(number: int) -> int:
    """Return the largest power of two that is not greater."""
    return 1 << (number.bit_length() - 1)
