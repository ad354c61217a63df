"""The mesh of a job, as the process groups of one of its ranks show it.

groups [0 1], [0 2 4 6], peer 8, 32 ranks    strides and ends 1 2 | 2 8 | 8    boundaries 1 2 8 32: sizes 2, 4, 4
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from topoflow.capture.layout import MeshLayout

PURPOSE = "mesh_"  # begins what PyTorch says about the group of an axis of a device mesh
ONLY_AXIS = "dp"


def layout_of(
    world_size: int, groups: Iterable[Sequence[int]], distances: Iterable[int], purposes: Mapping[str, Sequence[int]]
) -> MeshLayout:
    """Return the axes that ``groups`` span, and the ``distances`` of peers in groups of all ranks; ValueError.

    ``purposes`` name some of the groups: ``mesh_tp`` names the axis that it spans.
    """
    boundaries = {1, world_size}
    for group in groups:
        boundaries |= _boundaries(sorted(group))
    shortest = min((abs(distance) for distance in distances), default=world_size)
    boundaries.add(shortest)
    ordered = sorted(boundaries)
    for inner, outer in pairwise(ordered):
        if outer % inner:
            sizes = ", ".join(map(str, ordered))
            raise ValueError(f"groups: must be those of a mesh of {world_size} ranks, got strides and ends {sizes}")
    names = {_span(sorted(ranks)): purpose.removeprefix(PURPOSE) for purpose, ranks in purposes.items()}
    axes: dict[str, int] = {}
    for inner, outer in pairwise(ordered):
        name = names.get((inner, outer), ONLY_AXIS if len(ordered) == 2 else "")
        if not name or name in axes or "default" in name:
            name = ONLY_AXIS if len(ordered) == 2 else f"axis{len(axes)}"
        axes[name] = outer // inner
    return MeshLayout(axes or {ONLY_AXIS: 1})


def _span(group: Sequence[int]) -> tuple[int, int] | None:
    """Return the stride of a group and the end of its axis; None for a group of no single axis."""
    boundaries = sorted(_boundaries(group))
    return (boundaries[0], boundaries[1]) if len(boundaries) == 2 else None


def _boundaries(group: Sequence[int]) -> set[int]:
    """Return the stride and the end of each axis that a group of ascending ranks spans; none if it spans no mesh."""
    if len(group) < 2:
        return set()
    stride = group[1] - group[0]
    size = next((at for at, (before, after) in enumerate(pairwise(group), 1) if after - before != stride), len(group))
    blocks = [group[at : at + size] for at in range(0, len(group), size)]
    offsets = [[rank - block[0] for rank in block] for block in blocks]
    if any(offset != offsets[0] for offset in offsets) or group[0] // stride % size:
        return set()
    return {stride, stride * size} | _boundaries([block[0] for block in blocks])
