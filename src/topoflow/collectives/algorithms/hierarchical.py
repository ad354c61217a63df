"""Hierarchical all-reduce, all-gather and reduce-scatter: inside each server, a ring between them, inside again.

Inside a server of l ranks first a reduce-scatter, (l-1)/l S / local_bandwidth, and at the end an all-gather, as long
again (an all-gather has only the latter, a reduce-scatter only the former).
Between them one rank of each server has S/l: the l collectives side by side are one with S, as they use the same links.

Collectives that are queued one after another on a communicator overlap: while one is between the servers, the next is
inside them. Each phase is in order. That holds for all that is queued (``Traffic.queued``): buckets of data parallelism
and of grids, units of FSDP.

    inside before     |=0=|=1=|=2=|
    between servers       |==0==|==1==|==2==|
    inside after                |=0=| |=1=| |=2=|

What is inside servers is a delay: phases of different buckets there do not slow each other down, nor do groups.

Source: TopoOpt, section 5.1; NCCL's rings. Overlapping phases: Cho et al., "BlueConnect", SysML 2019, section 3; so do
TopoOpt's simulators, whose all-reduces are delayed by their time inside servers (FFRingAllreduce::start_flow).
"""

from __future__ import annotations

from dataclasses import replace

from topoflow.collectives.algorithms import ring
from topoflow.operations import bus_factor

ALGORITHM = replace(ring.ALGORITHM, default=False, hierarchical=True)


def inside_shares(op: str, local: int) -> tuple[float, float]:
    """Return the bytes that ranks send inside their server before and after the phase between servers.

    They are per byte of the buffer.
    """
    once = bus_factor("all_gather", local)
    return once * (op != "all_gather"), once * (op != "reduce_scatter")
