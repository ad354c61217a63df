"""A motif on servers: its messages as transfers, which all may begin at once, in the order in which NICs get them."""

from __future__ import annotations

from topoflow.strategy.ranks import RankPerServer
from topoflow.traffic.base import Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.lower import Lowerer, lowering
from topoflow.traffic.tasks import Label
from topoflow.workload.base import Motif


@lowering.register
def _(strategy: RankPerServer, lowerer: Lowerer) -> Traffic:
    motif = lowerer.workload
    if not isinstance(motif, Motif):
        raise ValueError(f"workload: must be a motif of messages, got {motif.name}")
    messages = motif.messages(strategy.servers)
    columns = Columns()
    columns.transfer(Label("message", ends=True), messages.source, messages.target, messages.bytes)
    return columns.traffic(motif.name, strategy.servers, motif.gpu.local_bandwidth)
