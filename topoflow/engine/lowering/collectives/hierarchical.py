"""Hierarchical all-reduce, all-gather and reduce-scatter: inside each server, a ring between them, inside again.

Inside a server of l ranks first a reduce-scatter, (l-1)/l S / local_bandwidth, and at the end an all-gather, as long
again (an all-gather has only the latter, a reduce-scatter only the former).
Between them one rank of each server has S/l: the l collectives side by side are one with S, as they use the same links.

Source: TopoOpt, section 5.1; NCCL's rings.
"""

from __future__ import annotations

from dataclasses import replace

from topoflow.engine.lowering.collectives import ring

ALGORITHM = replace(ring.ALGORITHM, default=False, hierarchical=True)
