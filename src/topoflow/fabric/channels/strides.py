"""Ring orders for any fabric: strides that an application can choose in place of those of the fabric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from topoflow.demand import Demand, Group
from topoflow.fabric.base import Channels, Fabric, FabricDesign

MAX_RINGS = 4  # that a search tries together; more rings share the same few links of a server
Strides = tuple[int, ...]


def with_strides(fabric: Fabric, groups: Iterable[Group], strides: Strides) -> Fabric:
    """Return ``fabric`` where each of ``groups`` reduces in its rings +stride; a group without any keeps its orders.

    A ring +stride joins all n servers of a group if and only if n and the stride are co-prime (TopoOpt, Theorem 2).
    """
    from topoflow.fabric.topoopt.totient_perms import ring  # most networks keep their rings

    valid = {group: [stride for stride in strides if _is_ring(stride, len(group))] for group in groups}
    rings = {group: tuple(ring(group, stride) for stride in fitting) for group, fitting in valid.items() if fitting}
    return replace(fabric, channels=Channels({**fabric.channels.rings, **rings}, fabric.channels.trees))


def strides_to_try(size: int) -> list[Strides]:
    """Return sets of strides for a group of ``size`` whose neighbours are joined through switches.

    The sets are those that TopoOpt would wire for 2 to 4 rings, each of these strides alone, and both directions of the
    natural ring.
    """
    from topoflow.fabric.topoopt.select_permutations import select_permutations

    sets = [select_permutations(size, rings) for rings in range(2, MAX_RINGS + 1)]
    sets += [(stride,) for stride in select_permutations(size, MAX_RINGS)] + [(1, size - 1)]
    return [chosen for chosen in dict.fromkeys(sets) if chosen and len(set(chosen)) == len(chosen) and chosen != (1,)]


def _is_ring(stride: int, size: int) -> bool:
    return stride < size and gcd(stride, size) == 1


@dataclass(frozen=True)
class WithStrides:
    """A design whose fabrics have the rings +stride of ``strides`` for every group of the demand."""

    design: FabricDesign
    strides: Strides

    def build(self, servers: int, demand: Demand) -> Fabric:
        return with_strides(self.design.build(servers, demand), demand.all_reduce, self.strides)


def check_fit(strides: Sequence[int] | None, demand: Demand) -> None:
    """Raise ``ValueError`` if none of ``strides`` is a ring of any group that all-reduces."""
    if strides is None:
        return
    sizes = sorted({len(group) for group in demand.all_reduce if len(group) > 1})
    if any(_is_ring(stride, size) for stride in strides for size in sizes):
        return
    groups = f"a group that all-reduces ({', '.join(map(str, sizes)) or 'none does'})"
    raise ValueError(f"strides: must be co-prime with the servers of {groups} and less, got {list(strides)}")


def check_strides(strides: object) -> None:
    """Raise ``ValueError`` unless it is None or a list of strides."""
    if strides is None:
        return
    listed = list(strides) if isinstance(strides, Sequence) and not isinstance(strides, str) else []
    if not listed or any(isinstance(stride, bool) or not isinstance(stride, int) or stride < 1 for stride in listed):
        raise ValueError(f"strides: must be a list of whole numbers of at least 1, or null, got {strides!r}")
