"""A motif on servers: its messages as transfers, in the order in which NICs get them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoflow.strategy.ranks import RankPerServer
from topoflow.traffic.base import Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.lower import Lowerer, lowering
from topoflow.traffic.tasks import COMPUTE, NONE, TRANSFER, Label
from topoflow.workload.base import NOBODY, Motif


@lowering.register
def _(strategy: RankPerServer, lowerer: Lowerer) -> Traffic:
    motif = lowerer.workload
    if not isinstance(motif, Motif):
        raise ValueError(f"workload: must be a motif of messages, got {motif.name}")
    messages = motif.messages(strategy.servers)
    columns = Columns()
    sends = messages.target != NOBODY
    columns.run(
        Label("message", ends=True),
        len(sends),
        kind=np.where(sends, TRANSFER, COMPUTE),
        source=np.where(sends, messages.source, NONE),
        target=np.where(sends, messages.target, NONE),
        server=np.where(sends, NONE, messages.source),
        bytes=messages.bytes,
        seconds=0.0 if messages.seconds is None else messages.seconds,
    )
    if messages.waits is not None:
        columns.wait(*messages.waits)
    traffic = columns.traffic(motif.name, strategy.servers, motif.gpu.local_bandwidth)
    return traffic if messages.release is None else replace(traffic, release=messages.release)
