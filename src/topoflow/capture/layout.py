"""Layout: the mesh of a job's ranks, as axes with a number of positions each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

Ranks = tuple[int, ...]


@dataclass(frozen=True)
class MeshLayout:
    """The axes of a mesh of ranks, name -> number of positions; the first varies fastest, as in Megatron's --order.

    tp=2,dp=3    rank = tp + 2 * dp    ranks 0 1 | 2 3 | 4 5 at dp 0 | 1 | 2
    """

    axes: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, size in self.axes.items():
            if not name or size < 1:
                raise ValueError(f"layout: must give each axis a name and a positive size, got {name}={size}")

    @staticmethod
    def parse(text: str) -> MeshLayout:
        """Read ``tp=8,pp=4,dp=2``."""
        axes: dict[str, int] = {}
        for part in text.split(","):
            name, equals, size = part.strip().partition("=")
            if not equals or not size.isdecimal() or name in axes:
                raise ValueError(f"layout: must be axes with their sizes, as tp=8,pp=4,dp=2, got {text!r}")
            axes[name] = int(size)
        return MeshLayout(axes)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes.items())

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return prod(self.axes.values())

    @cached_property
    def sizes(self) -> Ranks:
        """Return the number of positions along each axis."""
        return tuple(self.axes.values())

    @cached_property
    def strides(self) -> Ranks:
        """Return the distance between neighbors along each axis, in ranks."""
        return tuple(prod(self.sizes[:axis]) for axis in range(len(self.sizes)))

    def position(self, rank: int) -> Ranks:
        """Return the position of a rank along each axis."""
        return tuple(rank // stride % size for stride, size in zip(self.strides, self.sizes, strict=True))

    def rank(self, position: Sequence[int]) -> int:
        """Return the rank at a position."""
        return sum(stride * at for stride, at in zip(self.strides, position, strict=True))

    def spanned(self, ranks: Iterable[int]) -> list[set[int]]:
        """Return the positions of the ranks along each axis."""
        return [set(along) for along in zip(*map(self.position, ranks), strict=True)]

    def spans(self, group: Ranks) -> tuple[bool, ...]:
        """Return for each axis whether the ranks of a group differ along it."""
        return tuple(len(positions) > 1 for positions in self.spanned(group))

    def box(self, along: Sequence[Iterable[int]]) -> Ranks:
        """Return the ranks at all combinations of positions along the axes, ascending."""
        return tuple(sorted(map(self.rank, product(*along))))

    def moved_group(self, group: Ranks, rank: int) -> Ranks:
        """Return the group of ``rank`` that corresponds to ``group``."""
        spans = self.spans(group)
        if all(spans):
            return group
        position = self.position(rank)
        return tuple(
            self.rank([at if spans[axis] else position[axis] for axis, at in enumerate(self.position(member))])
            for member in group
        )

    def moved_peer(self, peer: int, model: int, rank: int) -> int:
        """Return the rank that is to ``rank`` as ``peer`` is to ``model``."""
        triples = zip(self.position(peer), self.position(model), self.position(rank), self.sizes, strict=True)
        return self.rank([(at - old + new) % size for at, old, new, size in triples])
