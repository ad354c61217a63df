"""Lowering of a motif: its messages as transfers, in the order in which NICs get them.

Messages between ranks of one server take their time at the GPU's exchange bandwidth and do not use the network, as for
a recorded job (``captured.job``). The rank that computes longest occupies its server; the other ranks have their own
processors and compute concurrently.

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
from topoflow.workload.base import NO_TARGET, MessagePattern, Messages


@lowering.register
def _(strategy: RankPerServer, lowerer: Lowerer) -> Traffic:
    motif = lowerer.workload
    if not isinstance(motif, MessagePattern):
        raise ValueError(f"workload: must be a motif of messages, got {motif.name}")
    messages, per_server = motif.messages(strategy.ranks), strategy.ranks_per_server
    columns, local_bandwidth = Columns(), motif.gpu.exchange_bandwidth
    source, target = messages.source // per_server, messages.target // per_server
    computes = messages.target == NO_TARGET
    sends = ~computes & (source != target)
    columns.run(
        Label("message", ends=True),
        len(sends),
        kind=np.where(sends, TRANSFER, COMPUTE),
        source=np.where(sends, source, NONE),
        target=np.where(sends, target, NONE),
        server=_occupied(messages, per_server),
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
    """Return [M] the seconds of compute."""
    return np.zeros(len(messages.source)) if messages.seconds is None else messages.seconds


def _occupied(messages: Messages, per_server: int) -> Ints:
    """Return [M] the server that each compute of a server's busiest rank occupies, otherwise NONE."""
    computes = messages.target == NO_TARGET
    ranks = -(-(int(messages.source.max(initial=0)) + 1) // per_server) * per_server
    total = np.bincount(messages.source[computes], _seconds(messages)[computes], ranks).reshape(-1, per_server)
    busiest: Offsets = np.arange(len(total)) * per_server + total.argmax(axis=1)
    occupies = computes & (busiest[messages.source // per_server] == messages.source)
    return np.where(occupies, messages.source // per_server, NONE).astype(np.int32)
