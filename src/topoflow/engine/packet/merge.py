"""Paths merged into steps: what is left of a path after a hop is kept once, whoever comes there.

The alternatives of a path are a tree of prefixes; two of its nodes are the same *step* if they are the same hop and the
same steps may follow with the same probabilities. Steps are found from the last hops backwards. A random walk along the
steps takes every alternative exactly as often as its share says.

    a-b-d, a-c-d of one path, e-b-d of another:  a -+- b -- d      b-d is a step of both
                                                 e -´         '- c -- d follows a only

Source: the minimal acyclic automaton of a set of words, Daciuk et al., "Incremental construction of minimal acyclic
finite-state automata", Computational Linguistics 26(1), 2000; words are paths, and transitions have probabilities.

Shapes: A alternatives, H hops of all, P paths, N nodes of the trees, S steps, Y roots, E edges, B branches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Floats, Ints, Offsets, distinct, offsets, rows_of

Bounds = NDArray[np.uint32]

NONE = -1
DRAWS = 2.0**32  # numbers that a packet draws from


class TakenAlternatives(NamedTuple):
    """The alternatives that are taken, path by path."""

    path: Offsets  # [A] ascending
    begin: Offsets  # [A+1] first hop; each has one hop at least
    share: Floats  # [A]


class Merged(NamedTuple):
    """Steps, as ``layout.Layout`` has them; a hop stands for the same step in all alternatives."""

    root_path: Offsets  # [Y] ascending
    root_hop: Offsets  # [Y]
    root_next: Ints  # [Y]
    root_bound: Bounds  # [Y]
    edge_hop: Offsets  # [E]
    edge_next: Ints  # [E]
    edge_bound: Bounds  # [E]
    branches: Offsets  # [B+1]


class Trees(NamedTuple):
    """The prefixes of the alternatives of each path. Nodes 0..P-1 are the paths themselves."""

    parent: Offsets  # [N] NONE for a path
    hop: Offsets  # [N] one hop that is the node; NONE for a path
    key: Offsets  # [N] what the hop is
    share: Floats  # [N]
    paths: int


def merge(rows: TakenAlternatives, key: Offsets) -> Merged:
    """``key`` [H] is the same for hops that are the same; a last hop differs from one that is not the last."""
    trees = _trees(rows, key)
    step, bound = _steps(trees)
    order = np.lexsort((step, trees.parent))
    begin = offsets(np.bincount(trees.parent[trees.paths :], minlength=len(step)))  # the paths sort first
    order = order[trees.paths :]
    _, node = np.unique(step[trees.paths :], return_index=True)
    node = node + trees.paths  # [S] one of each step
    count = np.diff(begin)[node]
    ranked = np.argsort(count <= 1, kind="stable")  # steps with a branch, then the others
    branches = offsets(count[ranked][count[ranked] > 1])
    following, first = np.full(len(node), NONE), offsets(count[ranked])[:-1]
    following[ranked] = np.where(count[ranked] == 1, first, NONE)
    following[ranked[: len(branches) - 1]] = -2 - np.arange(len(branches) - 1)
    root = order[: begin[trees.paths]]
    edge = order[rows_of(begin, node[ranked])[1]]
    return Merged(
        distinct(rows.path)[trees.parent[root]],
        trees.hop[root],
        following[step[root]].astype(np.int32),
        bound[root],
        trees.hop[edge],
        following[step[edge]].astype(np.int32),
        bound[edge],
        branches,
    )


def _trees(rows: TakenAlternatives, key: Offsets) -> Trees:
    length = np.diff(rows.begin)
    _, at = np.unique(rows.path, return_inverse=True)
    at = at.reshape(-1)  # [A] the node where each alternative is
    paths = int(at.max(initial=-1)) + 1
    many = int(key.max(initial=0)) + 1
    parents, hops, shares = [np.full(paths, NONE)], [np.full(paths, NONE)], [np.bincount(at, rows.share, paths)]
    nodes = paths
    for depth in range(int(length.max(initial=0))):
        (here,) = np.nonzero(length > depth)
        hop = rows.begin[here] + depth
        _, first, place = np.unique(at[here] * many + key[hop], return_index=True, return_inverse=True)
        place = place.reshape(-1)
        parents.append(at[here][first])
        hops.append(hop[first])
        shares.append(np.bincount(place, rows.share[here], len(first)))
        at[here] = nodes + place
        nodes += len(first)
    hop = np.concatenate(hops)
    keys = np.where(hop == NONE, NONE, np.append(key, 0)[hop])
    return Trees(np.concatenate(parents), hop, keys, np.concatenate(shares), paths)


def _steps(trees: Trees) -> tuple[Offsets, Bounds]:
    """Return [N] the step of every node (NONE for paths), and its bound among those that follow the same."""
    height = _heights(trees.parent)
    by_parent = np.argsort(trees.parent, kind="stable")[trees.paths :]
    begin = offsets(np.bincount(trees.parent[trees.paths :], minlength=len(height)))
    step = np.full(len(height), NONE, np.int64)
    bound = np.full(len(height), DRAWS - 1)
    num_steps = 0
    for level in range(int(height.max(initial=-1)) + 1):
        (node,) = np.nonzero(height == level)
        _, item = rows_of(begin, node)
        child, owner = by_parent[item], np.repeat(np.arange(len(node)), np.diff(begin)[node])
        order = np.lexsort((step[child], owner))
        child, owner = child[order], owner[order]
        bound[child] = _bounds(trees.share[child], owner)
        (inner,) = np.nonzero(node >= trees.paths)  # a path is no step
        sets = _sets(step[child], bound[child], owner, len(node))
        _, number = np.unique(
            trees.key[node[inner]] * (int(sets.max(initial=0)) + 1) + sets[inner], return_inverse=True
        )
        step[node[inner]] = num_steps + number.reshape(-1)
        num_steps += int(number.max(initial=-1)) + 1
    return step, bound.astype(np.uint32)


def _heights(parent: Offsets) -> Offsets:
    """[N] steps until the end of the longest alternative; parents come before their children."""
    height = np.zeros(len(parent), np.int64)
    followed = np.zeros(len(parent), np.bool_)
    followed[parent[parent != NONE]] = True
    (front,) = np.nonzero(~followed)
    while len(front := front[parent[front] != NONE]):
        above = parent[front]
        np.maximum.at(height, above, height[front] + 1)
        front = distinct(above)
    return height


def _bounds(share: Floats, owner: Offsets) -> Floats:
    """Return the greatest draw that takes each of those that follow the same ``owner``, which ascends."""
    if not len(share):
        return share
    begin = offsets(np.bincount(owner))  # an owner without any has an empty row
    part = np.rint(share / np.bincount(owner, share)[owner] * 2.0**40).astype(np.int64)  # sums are exact
    reached = offsets(part)
    bound = np.rint((reached[1:] - reached[begin[owner]]) / 2.0**40 * DRAWS) - 1
    bound[begin[1:][np.diff(begin) > 0] - 1] = DRAWS - 1
    clipped: Floats = np.clip(bound, 0, DRAWS - 1)
    return clipped


def _sets(step: Offsets, bound: Floats, owner: Offsets, owners: int) -> Offsets:
    """Return [owners] equal numbers for those that the same steps follow with the same bounds; ``owner`` ascends."""
    _, label = np.unique(step * int(DRAWS) + bound.astype(np.int64), return_inverse=True)
    label = label.reshape(-1)
    count = np.bincount(owner, minlength=owners)
    rank = np.arange(len(owner)) - offsets(count)[owner]
    number_of_set = np.zeros(owners, np.int64)
    many = int(label.max(initial=0)) + 1
    for place in range(int(count.max(initial=0))):
        members = np.flatnonzero(rank == place)
        _, number = np.unique(number_of_set[owner[members]] * many + label[members], return_inverse=True)
        number_of_set[owner[members]] = 1 + number.reshape(-1)
    return number_of_set * (int(count.max(initial=0)) + 1) + count
