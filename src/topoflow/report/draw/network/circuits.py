"""Kinds of links of a network: circuits of a ring or tree, pairs of opposite circuits, cables between two tiers.

Shapes: L links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.collectives.trees import tree_edges
from topoflow.fabric.base import Fabric
from topoflow.fabric.topoopt.totient_perms import stride
from topoflow.report.draw.network.tiers import groups, tier_names, tiers
from topoflow.report.draw.style import COLOURS

MAX_KINDS = 6  # kinds of rings and trees with their own colours
OTHER = "other rings or trees"
PAIR, ONE_WAY, OTHER_COLOUR = COLOURS[1], "#7F7F7F", "#000000"
RINGS = tuple(colour for colour in COLOURS if colour not in (PAIR, OTHER_COLOUR))

NO_GROUP = -1  # the group of a server

Group = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of links, which have the same look."""

    label: str
    colour: str
    links: NDArray[np.int64]


def kinds(fabric: Fabric) -> list[Kind]:
    """Return the kinds of links; a link that several rings share belongs to the first of them."""
    return _cables(fabric) if fabric.has_switches else _circuits(fabric)


def order_name(what: str, group: Group, order: Group, number: int, servers: int) -> str:
    """Return the name of an order: ``ring +5`` or ``trees +1`` among all servers, ``rings of 8, +1`` among some."""
    step = stride(group, order)
    label = f"+{step}" if step is not None else f"{number + 1}"
    return f"{what} {label}" if len(group) == servers else f"{what.removesuffix('s')}s of {len(group)}, {label}"


def _edges(order: Group) -> list[tuple[int, int]]:
    return list(zip(order, order[1:] + order[:1], strict=True))


def _tree_edges(order: Group) -> list[tuple[int, int]]:
    up = tree_edges(order, 1)
    return [*up, *(edge[::-1] for edge in up)]


def _purposes(fabric: Fabric) -> dict[tuple[int, int], str]:
    """Return pair of servers -> the ring or pair of trees that is the first to use its circuit."""
    purposes: dict[tuple[int, int], str] = {}
    for what, orders_of, edges in (
        ("ring", fabric.channels.rings, _edges),
        ("trees", fabric.channels.trees, _tree_edges),
    ):
        for group, orders in orders_of.items():
            for number, order in enumerate(orders):
                name = order_name(what, group, order, number, fabric.servers)
                for edge in edges(order):
                    purposes.setdefault(edge, name)
    return purposes


def _circuits(fabric: Fabric) -> list[Kind]:
    purposes = _purposes(fabric)
    colours = dict(zip(dict.fromkeys(purposes.values()), RINGS[:MAX_KINDS], strict=False))
    ends = list(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    existing = set(ends)
    of_kind: dict[tuple[str, str], list[int]] = {(name, colour): [] for name, colour in colours.items()}
    for link, edge in enumerate(ends):
        if edge in purposes:
            name = purposes[edge] if purposes[edge] in colours else OTHER
            kind = (name, colours.get(name, OTHER_COLOUR))
        else:
            kind = ("pairs, a circuit each way", PAIR) if edge[::-1] in existing else ("one way", ONE_WAY)
        of_kind.setdefault(kind, []).append(link)
    return [Kind(*kind, np.array(links)) for kind, links in of_kind.items() if links]


def _cables(fabric: Fabric) -> list[Kind]:
    tier, group = tiers(fabric), groups(fabric)
    names = tier_names(fabric)
    ends = np.sort(np.column_stack((tier[fabric.source], tier[fabric.target])), axis=1)  # [L, 2]
    between = np.zeros(fabric.links, np.bool_)
    if group is not None:
        group_of = np.concatenate((np.full(fabric.servers, NO_GROUP), group))
        first, second = group_of[fabric.source], group_of[fabric.target]
        between = (first != second) & (first != NO_GROUP) & (second != NO_GROUP)
    combinations = sorted(set(zip(*ends.T.tolist(), between.tolist(), strict=True)))
    return [
        Kind(
            f"{names[low]} - {names[high]}{', between groups' if beside else ''}",
            COLOURS[at % len(COLOURS)],
            np.flatnonzero((ends == (low, high)).all(axis=1) & (between == beside)),
        )
        for at, (low, high, beside) in enumerate(combinations)
    ]
