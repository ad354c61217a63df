"""A mesh of blocks that is finer at the surface of a sphere: who shares how many faces with whom.

Ours: the block files of the tapered dragonfly's amr3d were written by miniAMR on real machines and are not published.
What is refined is what miniAMR refines for its moving sphere (Vaughan and Barrett, "Enabling tractable exploration of
the performance of adaptive mesh refinement", IEEE CLUSTER 2015).

Shapes: n ranks, E pairs of ranks, B blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Floats, Offsets
from topoflow.workload.messages.scripts import box

RADIUS = 0.3  # of the sphere, in sides of the domain: ours


class Mesh(NamedTuple):
    """Blocks lie on ranks in the order of the coarse blocks, as many on each as on any other, up to one."""

    blocks: Floats  # [n] of each rank
    source: Offsets  # [E] rank
    target: Offsets  # [E] another one; each pair comes once in each direction
    faces: Floats  # [E] of blocks of the one that lie at blocks of the other


def refined(ranks: int, level: int) -> Mesh:
    """A block for each of ``ranks``, each at the sphere cut into eight, and these again, ``level`` times."""
    leaf = _leaves(box(ranks), level)
    _, number = np.unique(leaf, return_inverse=True)  # in the order of the coarse blocks
    number = number.reshape(leaf.shape)
    blocks = int(number.max()) + 1
    owner = np.arange(blocks) * ranks // blocks
    pairs = []
    for axis in range(3):
        low, high = (np.take(number, range(*ends), axis) for ends in ((0, leaf.shape[axis] - 1), (1, leaf.shape[axis])))
        meets = low != high
        pairs.append(low[meets] * blocks + high[meets])
    one, other = np.divmod(np.unique(np.concatenate(pairs)), blocks)  # two blocks share one face
    ends = np.stack([owner[one], owner[other]])
    ends = ends[:, ends[0] != ends[1]]
    key, count = np.unique(np.concatenate([ends[0] * ranks + ends[1], ends[1] * ranks + ends[0]]), return_counts=True)
    of_rank = np.bincount(owner, minlength=ranks).astype(np.float64)
    return Mesh(of_rank, key // ranks, key % ranks, count.astype(np.float64))


def _leaves(size: tuple[int, int, int], level: int) -> NDArray[np.int64]:
    """[x, y, z] of cells as fine as the finest block: a number of the block that has it, alike for one block."""
    cells = [side * 2**level for side in size]
    place = np.indices(cells).astype(np.int64)
    coarse = np.ravel_multi_index(tuple(place // 2**level), size)
    is_cut = np.ones(cells, np.bool_)
    path = np.zeros(cells, np.int64)
    for depth in range(level):
        width = 2 ** (level - depth)  # cells of a block
        is_cut = is_cut & _at_sphere(place // width * width, width, cells)
        child = place // (width // 2) % 2
        path = path * 9 + np.where(is_cut, 1 + child[0] * 4 + child[1] * 2 + child[2], 0)
    found: NDArray[np.int64] = coarse * 9**level + path
    return found


def _at_sphere(corner: NDArray[np.int64], width: int, cells: list[int]) -> NDArray[np.bool_]:
    """Whether the surface may cross the block with this ``corner``: its centre is no further than its corners are."""
    scale = np.array(cells, np.float64).reshape(3, 1, 1, 1)
    centre = (corner + width / 2) / scale - 0.5
    distance = np.sqrt((centre**2).sum(axis=0))
    near: NDArray[np.bool_] = np.abs(distance - RADIUS) <= np.linalg.norm(width / 2 / scale)
    return near
