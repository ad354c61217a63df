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

from collections.abc import Sequence

import numpy as np

from topoflow.cluster.base import Index
from topoflow.cluster.mappings import between, by_room

Group = tuple[int, ...]


def place(packets: Index, rack: Index, seed: int) -> Index:
    both = between(packets)
    core = np.full(len(packets), -1)
    free = np.ones(len(rack), bool)
    while (core < 0).any():
        left = [(process,) for process in np.flatnonzero(core < 0).tolist()]
        numbers = np.flatnonzero(free)
        most = by_room(rack[numbers])[0]
        size = power_of_two(min(len(most), len(left)))
        chosen = max(grouped(left, both, size), key=lambda group: inside(group, both))
        cores = numbers[most[:size]]
        core[list(chosen)] = cores
        free[cores] = False
    return core


def grouped(groups: Sequence[Group], both: Index, size: int) -> list[Group]:
    """Groups of ``size`` processes (steps 2 to 6)."""
    found = list(groups)
    while len(found[0]) < size:
        found = [(*one, *other) for one, other in pairs(found, both)]
    return found


def pairs(groups: Sequence[Group], both: Index) -> list[tuple[Group, Group]]:
    """Pairs of groups, those with the most packets between them first; a group that finds no other is left out."""
    left, found = list(groups), []
    while len(left) > 1:
        choices = [(one, other) for at, one in enumerate(left) for other in left[at + 1 :]]
        best = max(choices, key=lambda pair: int(both[np.ix_(*pair)].sum()))
        left = [group for group in left if group not in best]
        found.append(best)
    return found


def inside(group: Group, both: Index) -> int:
    """Packets among the processes of a group."""
    return int(both[np.ix_(group, group)].sum()) // 2


def power_of_two(number: int) -> int:
    """The largest that is not greater."""
    return 1 << (number.bit_length() - 1)
