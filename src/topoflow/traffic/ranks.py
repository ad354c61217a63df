"""A motif on servers: its messages as transfers, in the order in which NICs get them.

What ranks of one server send each other takes its time at ``gpu.local_bandwidth`` and does not come to the network, as
for a recorded job (``captured.job``). Of the ranks of a server the one that computes longest occupies it; the others
have processors of their own and compute at the same time.

Shapes: M messages.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets
from topoflow.strategy.ranks import RankPerServer
from topoflow.traffic.base import Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.lower import Lowerer, lowering
from topoflow.traffic.tasks import COMPUTE, NONE, TRANSFER, Label
from topoflow.workload.base import NOBODY, Messages, Motif


@lowering.register
def _(strategy: RankPerServer, lowerer: Lowerer) -> Traffic:
    motif = lowerer.workload
    if not isinstance(motif, Motif):
        raise ValueError(f"workload: must be a motif of messages, got {motif.name}")
    messages, several = motif.messages(strategy.ranks), strategy.ranks_per_server
    columns, local_bandwidth = Columns(), motif.gpu.exchange_bandwidth
    source, target = messages.source // several, messages.target // several
    computes = messages.target == NOBODY
    sends = ~computes & (source != target)
    columns.run(
        Label("message", ends=True),
        len(sends),
        kind=np.where(sends, TRANSFER, COMPUTE),
        source=np.where(sends, source, NONE),
        target=np.where(sends, target, NONE),
        server=_occupied(messages, several),
        bytes=np.where(sends, messages.bytes, 0.0),
        seconds=np.where(sends, 0.0, np.where(computes, 0.0, messages.bytes / local_bandwidth) + _seconds(messages)),
    )
    if messages.waits is not None:
        columns.wait(*messages.waits)
    traffic = columns.traffic(motif.name, strategy.servers, local_bandwidth)
    if messages.rounds > 1:
        traffic = replace(traffic, rounds=messages.rounds, carried=messages.carried)
    return traffic if messages.release is None else replace(traffic, release=messages.release)


def _seconds(messages: Messages) -> Floats:
    """[M] of compute."""
    return np.zeros(len(messages.source)) if messages.seconds is None else messages.seconds


def _occupied(messages: Messages, several: int) -> Ints:
    """[M] the server that a message which is none, but compute, occupies."""
    computes = messages.target == NOBODY
    ranks = -(-(int(messages.source.max(initial=0)) + 1) // several) * several
    total = np.bincount(messages.source[computes], _seconds(messages)[computes], ranks).reshape(-1, several)
    busiest: Offsets = np.arange(len(total)) * several + total.argmax(axis=1)
    occupies = computes & (busiest[messages.source // several] == messages.source)
    return np.where(occupies, messages.source // several, NONE).astype(np.int32)
