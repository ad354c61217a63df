"""Path trees: paths from one server share their beginnings, paths to one server their ends.

    paths 0 > 1: a b    0 > 2: a c    0 > 3: a c d        tree of 0    (0) - a - b
                                                                               `- c - d

So the fullest link of all paths from a server is found in as many steps as the tree has nodes: on 128 servers 266 with
TopoOpt and 330 with a fat-tree, where the paths have 574 and 726 hops.

Shapes: N servers, P paths, H hops, T nodes of all trees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import row_offsets
from topoflow.engine.base import Ints, Offsets

Array = NDArray[Any]
NONE = -1  # no link


def path_trees(path: Ints, offsets: Offsets, links: Ints, servers: int) -> dict[str, Array]:
    """The arrays of ``PathTrees`` in ``csrc/screen/coflows.h`` that are about trees.

    ``path`` [N * N] is the path from one server to another, ``offsets`` [P+1] and ``links`` [H] are the hops of paths;
    from a server to itself there is none, whatever ``path`` says.
    """
    source, target = np.divmod(np.arange(servers * servers), servers)
    hops = np.zeros(len(path), np.int64)
    hops[source != target] = np.diff(offsets)[path[source != target]]
    outward, inward = (np.full((len(path), int(hops.max(initial=0))), NONE, np.int64) for _ in range(2))
    pair = np.repeat(np.arange(len(path)), hops)
    hop = np.arange(len(pair)) - (np.cumsum(hops) - hops)[pair]
    outward[pair, hop] = links[offsets[path][pair] + hop]
    inward[pair, hops[pair] - 1 - hop] = outward[pair, hop]
    out, into = _trees(servers, source, outward), _trees(servers, target, inward)
    return {
        "tree": np.concatenate([out.offsets, out.offsets[-1] + into.offsets]),
        "tree_parent": np.concatenate([out.parent, into.parent]).astype(np.int32),
        "tree_link": np.concatenate([out.link, into.link]).astype(np.int32),
        "tree_leaf": np.concatenate([out.leaf, into.leaf.reshape(servers, servers).T.ravel()]).astype(np.int32),
    }


class _Trees(NamedTuple):
    """Parents and leaves are counted from the first node of their tree, which is the server itself."""

    offsets: Offsets  # [N+1]
    parent: Offsets  # [T]
    link: Offsets  # [T]
    leaf: Offsets  # [N * N] the node to which a path leads


def _trees(servers: int, root: Offsets, sequence: Offsets) -> _Trees:
    """A tree for each of ``root`` [N * N] of its ``sequence`` [N * N, ...] of links, ``NONE`` after the last."""
    tree, parent, link = [np.arange(servers)], [np.arange(servers)], [np.full(servers, NONE)]
    at, nodes = root.copy(), servers  # where each path has come to
    for step in sequence.T:
        on = np.flatnonzero(step != NONE)
        ends = np.stack([at[on], step[on]])
        _, first, node = np.unique(ends[0] * (sequence.max() + 1) + ends[1], return_index=True, return_inverse=True)
        tree.append(root[on][first])
        parent.append(ends[0, first])
        link.append(ends[1, first])
        at[on] = nodes + node
        nodes += len(first)
    of = np.concatenate(tree)
    order = np.argsort(of, kind="stable")
    first = row_offsets(of, servers)
    place = np.empty(nodes, np.int64)
    place[order] = np.arange(nodes) - first[of[order]]
    return _Trees(first, place[np.concatenate(parent)[order]], np.concatenate(link)[order], place[at])
