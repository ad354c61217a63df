"""Hierarchical all-reduce: inside each server, double binary trees between them, inside again.

Inside a server of l ranks first a reduce-scatter, (l-1)/l S / local_bandwidth, and at the end an all-gather, as long
again. Between them one rank of each server has S/l: the l collectives side by side are one with S, as they use the
same links.

Source: NCCL 2.30, src/graph/trees.cc: double binary trees between servers (there with a chain inside each).
"""

from __future__ import annotations

from dataclasses import replace

from topoflow.collectives.algorithms import double_binary_tree

ALGORITHM = replace(double_binary_tree.ALGORITHM, default=False, hierarchical=True)
