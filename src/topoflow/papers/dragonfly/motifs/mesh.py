"""Meshes of blocks for amr3d, and the faces that ranks share.

All blocks have equally many cells, and a block that is cut becomes eight blocks of the next level. Neighbours differ by
at most one level, as in miniAMR. Without a file of the mesh (``block_file``), the mesh is finer at the surface of a
sphere. This is our assumption: the block files of the tapered dragonfly's amr3d were written by miniAMR on real
machines and are not published. Refinement follows miniAMR's rule for its moving sphere (Vaughan and Barrett, "Enabling
tractable exploration of the performance of adaptive mesh refinement", IEEE CLUSTER 2015).

Shapes: n ranks, E messages, B blocks, k of them, F faces. Axes are x, y, z; directions x down, x up, y down, y up, z
down, z up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Floats, Mask, Offsets
from topoflow.papers.dragonfly.motifs.scripts import box

RADIUS = 0.3  # radius of the sphere over the side of the domain; our assumption
MAX_PLACES = 2**24  # of the finest blocks that are cut: 80 B each while a mesh is built, 1.3 GB
BOUNDARY = -2  # the level beyond the domain; Ember's number for it
UNKNOWN = -3  # no block, or a block that differs by more than one level
NO_BLOCK = -1


@dataclass(frozen=True, eq=False)
class Mesh:
    """The blocks that ranks compute, and the faces that they exchange."""

    blocks: Floats  # [n] number of blocks of each rank
    source: Offsets  # [E] rank
    target: Offsets  # [E] another rank; it sends as much back
    faces: Floats  # [E] faces between blocks of source and target


@dataclass(frozen=True, eq=False)
class DomainBlocks:
    """The places and ranks of blocks, which cover each place of the domain once."""

    ranks: int
    size: tuple[int, int, int]  # blocks of level 0 along each axis
    level: Offsets  # [B] number of cuts from a block of level 0
    place: Offsets  # [B, 3] among blocks of its level
    rank: Offsets  # [B] ascending

    def first(self, level: int | Offsets) -> Offsets:
        """Return the number of the first block of a level; all places of coarser levels have lower numbers."""
        numbers: Offsets = np.prod(self.size, dtype=np.int64) * (8 ** np.asarray(level, np.int64) - 1) // 7
        return numbers

    def numbers(self, level: Offsets, place: Offsets) -> Offsets:
        """Return the number [k] of each ``place`` [k, 3] of its ``level`` [k], x first; NO_BLOCK outside the domain."""
        sides = np.array(self.size) * 2 ** np.maximum(level, 0)[:, None]
        inside = (level >= 0) & np.all((place >= 0) & (place < sides), axis=1)
        along = place[:, 0] + sides[:, 0] * (place[:, 1] + sides[:, 1] * place[:, 2])
        return np.where(inside, self.first(np.maximum(level, 0)) + along, NO_BLOCK)

    def find(self, level: Offsets, place: Offsets) -> Offsets:
        """Return the block [k] at each ``place`` [k, 3] of its ``level`` [k], or NO_BLOCK."""
        order, ascending = self._ascending
        wanted = self.numbers(level, place)
        index = np.searchsorted(ascending, wanted).clip(max=len(ascending) - 1)
        return np.where(ascending[index] == wanted, order[index], NO_BLOCK)

    @cached_property
    def _ascending(self) -> tuple[Offsets, Offsets]:
        """Return the blocks [B] in the order of their numbers, and these numbers [B]."""
        numbers = self.numbers(self.level, self.place)
        order = np.argsort(numbers, kind="stable")
        return order, numbers[order]

    @cached_property
    def neighbours(self) -> tuple[Offsets, Offsets]:
        """Return the level in each direction [B, 6], BOUNDARY or UNKNOWN, and the blocks there [B, 6, 4], or NO_BLOCK.

        Finer neighbours are four, in the order of their numbers; other neighbours are only in the first column.
        """
        levels = np.full((len(self.level), 6), UNKNOWN, np.int64)
        blocks = np.full((len(self.level), 6, 4), NO_BLOCK, np.int64)
        for direction in range(6):
            axis, up = divmod(direction, 2)
            ahead = self.place + np.eye(3, dtype=np.int64)[axis] * (1 if up else -1)
            levels[self.numbers(self.level, ahead) == NO_BLOCK, direction] = BOUNDARY
            nearest = ahead * 2 + np.eye(3, dtype=np.int64)[axis] * (0 if up else 1)
            first, second = np.delete(np.eye(3, dtype=np.int64), axis, axis=0)
            finer = [self.find(self.level + 1, nearest + first * (k % 2) + second * (k // 2)) for k in range(4)]
            for step, block in (
                (0, self.find(self.level, ahead)),
                (-1, self.find(self.level - 1, ahead // 2)),
            ):
                exists = block != NO_BLOCK
                levels[exists, direction] = self.level[exists] + step
                blocks[exists, direction, 0] = block[exists]
            exists = np.all(np.stack(finer) != NO_BLOCK, axis=0)
            levels[exists, direction] = self.level[exists] + 1
            blocks[exists, direction] = np.stack(finer, axis=1)[exists]
        return levels, blocks

    def faces(self) -> tuple[Offsets, Offsets]:
        """Return blocks [F] and their neighbours [F], each pair from both sides, by block and then by direction."""
        _, neighbours = self.neighbours
        block, direction, which = np.nonzero(neighbours != NO_BLOCK)
        return block, neighbours[block, direction, which]

    def mesh(self) -> Mesh:
        """Return a message for each face between two ranks and back, in the order in which Ember sends them."""
        block, neighbour = self.faces()
        source, target = self.rank[block], self.rank[neighbour]
        away = source != target
        counts = np.bincount(self.rank, minlength=self.ranks).astype(np.float64)
        return Mesh(counts, source[away], target[away], np.ones(int(away.sum())))


def refined(ranks: int, level: int) -> Mesh:
    """Return the mesh of ``sphere``, with all faces between two ranks in one message.

    By default miniAMR sends the faces of a direction in one message; it has an option to send each alone, as Ember
    does.
    """
    mesh = sphere(ranks, level).mesh()
    pairs, faces = np.unique(mesh.source * ranks + mesh.target, return_counts=True)
    return Mesh(mesh.blocks, pairs // ranks, pairs % ranks, faces.astype(np.float64))


def sphere(ranks: int, level: int) -> DomainBlocks:
    """Return one block for each of ``ranks``; blocks at the sphere are cut into eight, ``level`` times.

    More blocks are cut if two neighbours would differ by more than one level. Blocks are assigned to ranks in the order
    of the coarse blocks; the numbers of blocks of two ranks differ by at most one.
    """
    if ranks < 1 or level < 0:
        raise ValueError(f"mesh: must have a rank at least, and a level of at least 0, got {ranks} and {level}")
    max_level = 1 + max((depth for depth in range(8) if ranks * 8**depth <= MAX_PLACES), default=-1)
    if level > max_level:
        raise ValueError(f"workload.level: must be at most {max_level} on {ranks} ranks, got {level}")
    size, levels, places = box(ranks), [], []
    exists = np.ones(size, np.bool_)
    for depth, cut in enumerate([*_cut(size, level), None]):
        uncut = np.argwhere(exists if cut is None else exists & ~cut)
        levels.append(np.full(len(uncut), depth, np.int64))
        places.append(uncut)
        if cut is not None:
            exists = _children(cut)
    block_level, place = np.concatenate(levels), np.concatenate(places)
    order = _along(size, block_level, place, level)
    rank = np.arange(len(order)) * ranks // len(order)
    return DomainBlocks(ranks, size, block_level[order], place[order], rank)


def _cut(size: tuple[int, int, int], level: int) -> list[Mask]:
    """Return, for each level below ``level``, the mask over places [x, y, z] of blocks that are cut."""
    cuts: list[Mask] = []
    for depth in range(level):
        width = 2 ** (level - depth)  # finest cells of a block
        cells = [side * 2**level for side in size]
        corner = np.indices([side * 2**depth for side in size]).astype(np.int64) * width
        near = _at_sphere(corner, width, cells)
        cuts.append(near & _children(cuts[-1]) if cuts else near)
    for depth in range(level - 2, -1, -1):  # a neighbour of a cut block must be as fine, so its parent is cut
        needed = cuts[depth + 1].copy()
        for axis in range(3):
            near, far = (np.moveaxis(side, axis, 0) for side in (needed, cuts[depth + 1]))
            near[1:] |= far[:-1]
            near[:-1] |= far[1:]
        x, y, z = cuts[depth].shape
        cuts[depth] |= needed.reshape(x, 2, y, 2, z, 2).any(axis=(1, 3, 5))
    return cuts


def _children(cut: Mask) -> Mask:
    """Return the mask over places [2 x, 2 y, 2 z] of the next level that are inside blocks of ``cut``."""
    mask: Mask = cut.repeat(2, axis=0).repeat(2, axis=1).repeat(2, axis=2)
    return mask


def _along(size: tuple[int, int, int], depth: Offsets, place: Offsets, level: int) -> Offsets:
    """Return the order [B] of blocks: by coarse block, and recursively by the eight parts of each cut."""
    corner = place << (level - depth)[:, None]
    path = np.zeros(len(depth), np.int64)
    for bit in range(level - 1, -1, -1):
        x, y, z = (corner >> bit & 1).T
        path = path * 8 + x * 4 + y * 2 + z
    return np.lexsort((path, np.ravel_multi_index(tuple((corner >> level).T), size)))


def _at_sphere(corner: NDArray[np.int64], width: int, cells: list[int]) -> Mask:
    """Return where the surface may cross a block: it is no further from the centre than the block's corners are."""
    scale = np.array(cells, np.float64).reshape(3, 1, 1, 1)
    centre = (corner + width / 2) / scale - 0.5
    distance = np.sqrt((centre**2).sum(axis=0))
    near: Mask = np.abs(distance - RADIUS) <= np.linalg.norm(width / 2 / scale)
    return near
