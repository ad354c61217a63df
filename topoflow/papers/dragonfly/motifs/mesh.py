"""Meshes of blocks for amr3d, and the faces that ranks share.

Blocks have as many cells each, and a block that is cut becomes eight of the next level. Neighbours differ by one level
at most, as in miniAMR. Where no file says what the mesh is (``block_file``) it is finer at the surface of a sphere.
That is ours: the block files of the tapered dragonfly's amr3d were written by miniAMR on real machines and are not
published. What is refined is what miniAMR refines for its moving sphere (Vaughan and Barrett, "Enabling tractable
exploration of the performance of adaptive mesh refinement", IEEE CLUSTER 2015).

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

RADIUS = 0.3  # of the sphere, in sides of the domain: ours
MOST_PLACES = 2**24  # for the finest blocks that are cut: 80 B each while a mesh is made, 1.3 GB. Ours
BOUNDARY = -2  # the level beyond the domain; Ember's number for it
UNKNOWN = -3  # the level where there is no block, or one whose level neighbours may not have
NO_BLOCK = -1


@dataclass(frozen=True, eq=False)
class Mesh:
    """The blocks that ranks compute, and the faces that they exchange."""

    blocks: Floats  # [n] of each rank
    source: Offsets  # [E] rank
    target: Offsets  # [E] another one; it sends as much back
    faces: Floats  # [E] of blocks of the one that lie at blocks of the other


@dataclass(frozen=True, eq=False)
class Blocks:
    """The places and ranks of blocks. They cover the domain, each place once."""

    ranks: int
    size: tuple[int, int, int]  # blocks of level 0 along each axis
    level: Offsets  # [B] times that the domain's blocks were cut for it
    place: Offsets  # [B, 3] among blocks of its level
    rank: Offsets  # [B] ascending

    def first(self, level: int | Offsets) -> Offsets:
        """Return the number of the first block of a level: all places of coarser levels are counted before."""
        found: Offsets = np.prod(self.size, dtype=np.int64) * (8 ** np.asarray(level, np.int64) - 1) // 7
        return found

    def numbers(self, level: Offsets, place: Offsets) -> Offsets:
        """Return the number [k] of each ``place`` [k, 3] of its ``level`` [k], x first; outside the domain NO_BLOCK."""
        sides = np.array(self.size) * 2 ** np.maximum(level, 0)[:, None]
        inside = (level >= 0) & np.all((place >= 0) & (place < sides), axis=1)
        along = place[:, 0] + sides[:, 0] * (place[:, 1] + sides[:, 1] * place[:, 2])
        return np.where(inside, self.first(np.maximum(level, 0)) + along, NO_BLOCK)

    def find(self, level: Offsets, place: Offsets) -> Offsets:
        """Return the block [k] at each ``place`` [k, 3] of its ``level`` [k]; NO_BLOCK: there is none."""
        order, own = self._ascending
        asked = self.numbers(level, place)
        found = np.searchsorted(own, asked).clip(max=len(own) - 1)
        return np.where(own[found] == asked, order[found], NO_BLOCK)

    @cached_property
    def _ascending(self) -> tuple[Offsets, Offsets]:
        """The blocks [B] in the order of their numbers, and these numbers [B]."""
        own = self.numbers(self.level, self.place)
        order = np.argsort(own, kind="stable")
        return order, own[order]

    @cached_property
    def neighbours(self) -> tuple[Offsets, Offsets]:
        """The level in each direction [B, 6], BOUNDARY or UNKNOWN, and the blocks there [B, 6, 4], else NO_BLOCK.

        Four of them where they are finer, in the order of their numbers; the first alone otherwise.
        """
        levels = np.full((len(self.level), 6), UNKNOWN, np.int64)
        blocks = np.full((len(self.level), 6, 4), NO_BLOCK, np.int64)
        for direction in range(6):
            axis, up = divmod(direction, 2)
            ahead = self.place + np.eye(3, dtype=np.int64)[axis] * (1 if up else -1)
            levels[self.numbers(self.level, ahead) == NO_BLOCK, direction] = BOUNDARY
            nearest = ahead * 2 + np.eye(3, dtype=np.int64)[axis] * (0 if up else 1)
            one, other = np.delete(np.eye(3, dtype=np.int64), axis, axis=0)
            finer = [self.find(self.level + 1, nearest + one * (k % 2) + other * (k // 2)) for k in range(4)]
            for step, there in (
                (0, self.find(self.level, ahead)),
                (-1, self.find(self.level - 1, ahead // 2)),
            ):
                seen = there != NO_BLOCK
                levels[seen, direction] = self.level[seen] + step
                blocks[seen, direction, 0] = there[seen]
            seen = np.all(np.stack(finer) != NO_BLOCK, axis=0)
            levels[seen, direction] = self.level[seen] + 1
            blocks[seen, direction] = np.stack(finer, axis=1)[seen]
        return levels, blocks

    def faces(self) -> tuple[Offsets, Offsets]:
        """Return blocks [F] and their neighbours [F], each pair from both sides, by block and then by direction."""
        _, there = self.neighbours
        block, direction, which = np.nonzero(there != NO_BLOCK)
        return block, there[block, direction, which]

    def mesh(self) -> Mesh:
        """Return a message for each face between two ranks and back, in the order in which Ember sends them."""
        one, other = self.faces()
        source, target = self.rank[one], self.rank[other]
        away = source != target
        own = np.bincount(self.rank, minlength=self.ranks).astype(np.float64)
        return Mesh(own, source[away], target[away], np.ones(int(away.sum())))


def refined(ranks: int, level: int) -> Mesh:
    """Return the mesh of ``sphere``, with all faces between two ranks in one message.

    miniAMR sends those of a direction in one message by default; an option of it sends each alone, as Ember does.
    """
    mesh = sphere(ranks, level).mesh()
    pairs, faces = np.unique(mesh.source * ranks + mesh.target, return_counts=True)
    return Mesh(mesh.blocks, pairs // ranks, pairs % ranks, faces.astype(np.float64))


def sphere(ranks: int, level: int) -> Blocks:
    """Return a block for each of ``ranks``, where blocks at the sphere are cut into eight, ``level`` times.

    More blocks are cut if two neighbours would differ by more than one level. Blocks lie on ranks in the order of the
    coarse blocks; numbers of blocks of two ranks differ by one at most.
    """
    if ranks < 1 or level < 0:
        raise ValueError(f"mesh: must have a rank at least, and a level of at least 0, got {ranks} and {level}")
    most = 1 + max((each for each in range(8) if ranks * 8**each <= MOST_PLACES), default=-1)
    if level > most:
        raise ValueError(f"workload.level: must be at most {most} on {ranks} ranks, got {level}")
    size, levels, places = box(ranks), [], []
    exists = np.ones(size, np.bool_)
    for depth, cut in enumerate([*_cut(size, level), None]):
        found = np.argwhere(exists if cut is None else exists & ~cut)
        levels.append(np.full(len(found), depth, np.int64))
        places.append(found)
        if cut is not None:
            exists = _children(cut)
    own, place = np.concatenate(levels), np.concatenate(places)
    order = _along(size, own, place, level)
    rank = np.arange(len(order)) * ranks // len(order)
    return Blocks(ranks, size, own[order], place[order], rank)


def _cut(size: tuple[int, int, int], level: int) -> list[Mask]:
    """Return for each level below ``level`` the places [x, y, z] of blocks that are cut."""
    found: list[Mask] = []
    for depth in range(level):
        width = 2 ** (level - depth)  # finest cells of a block
        cells = [side * 2**level for side in size]
        corner = np.indices([side * 2**depth for side in size]).astype(np.int64) * width
        near = _at_sphere(corner, width, cells)
        found.append(near & _children(found[-1]) if found else near)
    for depth in range(level - 2, -1, -1):  # a neighbour of a block that is cut is as fine, so its parent is cut
        needed = found[depth + 1].copy()
        for axis in range(3):
            near, far = (np.moveaxis(side, axis, 0) for side in (needed, found[depth + 1]))
            near[1:] |= far[:-1]
            near[:-1] |= far[1:]
        x, y, z = found[depth].shape
        found[depth] |= needed.reshape(x, 2, y, 2, z, 2).any(axis=(1, 3, 5))
    return found


def _children(cut: Mask) -> Mask:
    """Return the places [2 x, 2 y, 2 z] of the next level within what is cut."""
    found: Mask = cut.repeat(2, axis=0).repeat(2, axis=1).repeat(2, axis=2)
    return found


def _along(size: tuple[int, int, int], depth: Offsets, place: Offsets, level: int) -> Offsets:
    """Return the order [B] of blocks: by coarse block, and within one the eight parts of a cut one after the other."""
    corner = place << (level - depth)[:, None]
    path = np.zeros(len(depth), np.int64)
    for bit in range(level - 1, -1, -1):
        x, y, z = (corner >> bit & 1).T
        path = path * 8 + x * 4 + y * 2 + z
    return np.lexsort((path, np.ravel_multi_index(tuple((corner >> level).T), size)))


def _at_sphere(corner: NDArray[np.int64], width: int, cells: list[int]) -> Mask:
    """Say if the surface may cross the block with this ``corner``: its centre is no further than its corners are."""
    scale = np.array(cells, np.float64).reshape(3, 1, 1, 1)
    centre = (corner + width / 2) / scale - 0.5
    distance = np.sqrt((centre**2).sum(axis=0))
    near: Mask = np.abs(distance - RADIUS) <= np.linalg.norm(width / 2 / scale)
    return near
