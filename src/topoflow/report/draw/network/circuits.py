"""What the links of a network are: circuits of a ring or tree, pairs of opposite circuits, cables between two tiers.

Shapes: L links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric
from topoflow.fabric.channels.double_binary_tree import tree_edges
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.report.draw.network.tiers import groups, tier_names, tiers
from topoflow.report.draw.style import COLOURS

MAX_KINDS = 6  # kinds of rings and trees with a colour of their own
OTHER = "other rings or trees"
PAIR, ONE_WAY, OTHER_COLOUR = COLOURS[1], "#7F7F7F", "#000000"
RINGS = tuple(colour for colour in COLOURS if colour not in (PAIR, OTHER_COLOUR))

NO_GROUP = -1  # of a server

Group = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """Links that are drawn alike."""

    label: str
    colour: str
    links: NDArray[np.int64]


def kinds(fabric: Fabric) -> list[Kind]:
    """Every link is of one kind: where several rings share it, of the ring that comes first."""
    return _cables(fabric) if fabric.has_switches else _circuits(fabric)


def order_name(what: str, group: Group, order: Group, number: int, servers: int) -> str:
    """``ring +5``, ``trees +1`` among all servers, ``rings of 8, +1`` among some; the number without a stride."""
    found = stride(group, order)
    which = f"+{found}" if found is not None else f"{number + 1}"
    return f"{what} {which}" if len(group) == servers else f"{what.removesuffix('s')}s of {len(group)}, {which}"


def _edges(order: Group) -> list[tuple[int, int]]:
    return list(zip(order, order[1:] + order[:1], strict=True))


def _tree_edges(order: Group) -> list[tuple[int, int]]:
    up = tree_edges(order, 1)
    return [*up, *(edge[::-1] for edge in up)]


def _purposes(fabric: Fabric) -> dict[tuple[int, int], str]:
    """What circuits were built for: the ring or the pair of trees that is the first to use them."""
    found: dict[tuple[int, int], str] = {}
    for what, orders_of, edges in (
        ("ring", fabric.channels.rings, _edges),
        ("trees", fabric.channels.trees, _tree_edges),
    ):
        for group, orders in orders_of.items():
            for number, order in enumerate(orders):
                name = order_name(what, group, order, number, fabric.servers)
                for edge in edges(order):
                    found.setdefault(edge, name)
    return found


def _circuits(fabric: Fabric) -> list[Kind]:
    purposes = _purposes(fabric)
    colours = dict(zip(dict.fromkeys(purposes.values()), RINGS[:MAX_KINDS], strict=False))
    ends = list(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    there = set(ends)
    of_kind: dict[tuple[str, str], list[int]] = {(name, colour): [] for name, colour in colours.items()}
    for link, edge in enumerate(ends):
        if edge in purposes:
            name = purposes[edge] if purposes[edge] in colours else OTHER
            kind = (name, colours.get(name, OTHER_COLOUR))
        else:
            kind = ("pairs, a circuit each way", PAIR) if edge[::-1] in there else ("one way", ONE_WAY)
        of_kind.setdefault(kind, []).append(link)
    return [Kind(*kind, np.array(links)) for kind, links in of_kind.items() if links]


def _cables(fabric: Fabric) -> list[Kind]:
    tier, group = tiers(fabric), groups(fabric)
    names = tier_names(fabric)
    ends = np.sort(np.column_stack((tier[fabric.source], tier[fabric.target])), axis=1)  # [L, 2]
    between = np.zeros(fabric.links, np.bool_)
    if group is not None:
        of = np.concatenate((np.full(fabric.servers, NO_GROUP), group))
        first, second = of[fabric.source], of[fabric.target]
        between = (first != second) & (first != NO_GROUP) & (second != NO_GROUP)
    found = sorted(set(zip(*ends.T.tolist(), between.tolist(), strict=True)))
    return [
        Kind(
            f"{names[low]} - {names[high]}{', between groups' if beside else ''}",
            COLOURS[at % len(COLOURS)],
            np.flatnonzero((ends == (low, high)).all(axis=1) & (between == beside)),
        )
        for at, (low, high, beside) in enumerate(found)
    ]
