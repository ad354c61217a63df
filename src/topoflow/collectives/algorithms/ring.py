"""Ring reduce-scatter, all-gather, and all-reduce, which is the one after the other.

n ranks in a circle, S in n parts. In every step each rank sends one part to the next rank, as soon as it has
received the part of the step before and has sent its own. n = 3, S = 3 parts, "0>1:p2" = rank 0 sends part 2 to 1:

    reduce-scatter   0>1:p2  1>2:p0  2>0:p1   (added)     after n-1 steps rank i owns the sum of part i
                     0>1:p1  1>2:p2  2>0:p0
    all-gather       0>1:p0  1>2:p1  2>0:p2   (copied)
                     0>1:p2  1>2:p0  2>0:p1

With R orders, ring r carries the r-th of R equal pieces of S at the same time as the others.
Bytes sent per rank: 2 (n-1)/n S for all-reduce. Time on links of B bytes/s and latency a: 2 (n-1) (a + S/(n B)).

``streams`` is the same as one flow per pair of neighbours, which waits the latency of all steps and then carries
the bytes of all: n R tasks in place of 2 (n-1) n R. While no two pairs share a link, both take the same time, that of
the slowest pair, the largest 2 (n-1) (a + S/(n R B)): a send waits for the one before it on its own connection and on
that of the rank before, and of all such chains of 2 (n-1) sends the one that stays on the slowest connection is the
longest. With others on its links a ring in steps is never ahead of its slowest send, while as flows each pair
continues by itself. Two links of 3 that others need, one after the other, hold up steps twice and flows once
(all-gather, u = S/(3 B), no latency; X and then Y of S/3 on the links that leave 0 and 1):

    steps   0>1 shares with X in [0, 2u]; 1>2 then passes that part on while Y is there in [2u, 4u]
    flows   0>1 shares with X in [0, 2u] and is done at 3u; 1>2 is done at 2u, when Y begins

Flows are slower where pairs that share a link have different latencies: in steps, the others use the link while what a
pair has sent is on the way, but a flow waits the latency of all steps first, and then all pairs send at once. Without
latency, 576 jobs that reduce in one group at a time take the same time to 4e-6. With 1 us, flows are up to 5 % slower
where paths are hashed and up to 18 % by Valiant's routing, whose paths differ most; where many groups reduce at once on
the same links, they are up to 5 % faster (benchmarks/results/rings_as_flows.txt).

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009;
NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``runRing``): NCCL's rings pass all GPUs of a node and cross to the
next node on each rail.
"""

from __future__ import annotations

import numpy as np

from topoflow.collectives.algorithm import Algorithm, CollectiveCall
from topoflow.collectives.algorithms import Edge
from topoflow.collectives.nccl_time import RING_STEPS, STEP_BYTES, CollectiveRun, CollectiveWork
from topoflow.collectives.schedule import Index, SendSchedule, SteadyStreams, csr

REDUCE_SCATTER, ALL_GATHER = "reduce_scatter", "all_gather"
PHASES = {
    "all_reduce": (REDUCE_SCATTER, ALL_GATHER),
    "all_gather": (ALL_GATHER,),
    "reduce_scatter": (REDUCE_SCATTER,),
}


def schedule(call: CollectiveCall) -> SendSchedule:
    """The phases of the operation one after the other, over all orders at the same time."""
    orders, phases = call.orders, PHASES[call.op]
    rings, ranks = orders.shape
    step, channel, place = np.ogrid[: len(phases) * (ranks - 1), :rings, :ranks]
    shape = np.broadcast_shapes(step.shape, channel.shape, place.shape)
    reduce = np.repeat([phase == REDUCE_SCATTER for phase in phases], ranks - 1).reshape(-1, 1, 1)
    in_phase = step % max(ranks - 1, 1)
    part = channel * ranks + (place - in_phase - reduce) % ranks  # in step 0: copy one's own, add the one before
    send = np.arange(np.prod(shape)).reshape(shape)
    received = np.roll(send, 1, axis=2)[:-1]  # by each rank in the step before
    offsets, after = csr(send.size, [(send[1:], received), (send[1:], send[:-1])])

    def flat(values: Index) -> Index:
        return np.broadcast_to(values, shape).ravel()

    return SendSchedule(
        parts=rings * ranks,
        source=flat(orders[None]),
        target=flat(np.roll(orders, -1, axis=1)[None]),
        first=flat(part),
        count=np.ones(send.size, np.int64),
        reduce=np.broadcast_to(reduce, shape).ravel(),
        channel=flat(channel),
        after_offsets=offsets,
        after=after,
    )


def streams(call: CollectiveCall) -> SteadyStreams:
    """Return all that each rank sends to the next, as one flow."""
    orders = call.orders
    rings, ranks = orders.shape
    steps = len(PHASES[call.op]) * (ranks - 1)
    pairs = orders.size if steps else 0
    return SteadyStreams(
        source=orders.ravel()[:pairs],
        target=np.roll(orders, -1, axis=1).ravel()[:pairs],
        channel=np.repeat(np.arange(rings), ranks)[:pairs],
        share=np.full(pairs, steps / orders.size),
        steps=steps,
    )


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of a ring; a step is hidden while a port is busy with the chunk before it."""
    comm, inside, protocol = run.comm, run.inside, run.choice.protocol
    hop, cost = inside.hop[run.place], inside.cost[run.place]
    twice = len(PHASES[run.op])
    steps = twice * (comm.nodes - 1)
    chunk = min(run.size / comm.ranks, STEP_BYTES[protocol] * RING_STEPS[protocol] * run.choice.channels)
    busy = chunk / run.port_rate if steps else 0.0
    latency = (twice * (comm.ranks - 1) - steps) * max(hop + min(chunk * cost / run.link_rate - busy, 0.0), 0.0)
    copied = inside.copy_all_reduce if run.op == "all_reduce" else inside.copy
    between = steps * max(run.message(chunk) - busy / 2, 0.0)
    return CollectiveWork(run.sent * cost + run.copied_bytes * copied, latency, run.sent, between)


def edges(nodes: int) -> tuple[Edge, ...]:
    """Return the pairs of neighbours."""
    return tuple((node, (node + 1) % nodes, 1.0) for node in range(nodes))


OPERATIONS = tuple(PHASES)
ALGORITHM = Algorithm(
    ops=OPERATIONS,
    schedule=schedule,
    most_sends=lambda ranks: 2 * ranks * ranks,
    orders="rings",
    default=True,
    streams=streams,
)
