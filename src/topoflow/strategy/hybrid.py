"""Hybrid: embedding tables on chosen servers (model parallel), the rest replicated (data parallel)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoflow.strategy.placement import Placement, servers_to_place, whole_batch
from topoflow.units import mib
from topoflow.workload.base import Workload


@dataclass(frozen=True)
class Hybrid:
    """The rule that places each ``table`` layer on one server, in turn, all others on every server (TopoOpt 2.1).

    ``placement`` overrides this for any layer: one server, or a list of servers that each hold a copy. A holder
    computes the samples of a server without a copy; holders share equally, so their number divides ``servers``.
    """

    placement: Mapping[str, int | Sequence[int]] | None = None
    bucket_bytes: int = mib(25)
    first_bucket_bytes: int = mib(1)

    def place(self, workload: Workload, servers: int | None) -> Placement:
        job, servers = servers_to_place("hybrid", workload, servers)
        whole_batch(job)
        chosen = self.placement or {}
        known = {layer.name for layer in job.layers}
        for layer in chosen:
            if layer not in known:
                raise ValueError(f"hybrid.placement: must name layers of {job.name}, got {layer!r}")
        everyone = tuple(range(servers))
        tables = [layer.name for layer in job.layers if layer.kind == "table"]
        placement = {layer.name: everyone for layer in job.layers}
        placement |= {name: (position % servers,) for position, name in enumerate(tables)}
        placement |= {name: _holders(name, holders, servers) for name, holders in chosen.items()}
        return Placement(
            name="hybrid",
            servers=servers,
            placement=placement,
            bucket_bytes=self.bucket_bytes,
            first_bucket_bytes=self.first_bucket_bytes,
        )


def _holders(layer: str, chosen: object, servers: int) -> tuple[int, ...]:
    """Return the servers chosen for a layer, ascending."""
    where = f"hybrid.placement.{layer}"
    named = list(chosen) if isinstance(chosen, Sequence) and not isinstance(chosen, str) else [chosen]
    holders: list[int] = []
    for holder in named:
        if not isinstance(holder, int) or isinstance(holder, bool) or not 0 <= holder < servers:
            raise ValueError(f"{where}: must be servers within 0..{servers - 1}, got {holder!r}")
        holders.append(holder)
    if not holders or len(set(holders)) != len(holders):
        raise ValueError(f"{where}: must name each server once and at least one, got {holders}")
    if servers % len(holders):
        raise ValueError(f"{where}: the number of holders must divide the {servers} servers, got {len(holders)}")
    return tuple(sorted(holders))
