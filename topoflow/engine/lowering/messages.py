"""Rows and parcels: who computes what of a placement, and what servers owe each other for it.

A *row* is a layer and one of its holders, which computes it for its own samples and for those of others. A *parcel* is
all that one server owes another for a layer.

Shapes: N servers, Y layers, R rows, E edges (a layer and one of its inputs), M parcels, I inputs of parcels (a parcel
and a row whose activations are in it), X parcels that are sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoflow.engine.base import Floats, Offsets
from topoflow.strategy.placement import places
from topoflow.workload.base import LayerGraph


class Edges(NamedTuple):
    consumer: Offsets  # [E] layer
    input: Offsets  # [E] layer
    bytes: Floats  # [E] for the samples of one server


def edges_of(workload: LayerGraph, number: dict[str, int]) -> Edges:
    """Which layer reads which, by ``number``."""
    ends = [(number[layer.name], number[earlier]) for layer in workload.layers for earlier in layer.after]
    consumer, earlier = np.array(ends, np.int64).reshape(-1, 2).T
    outputs = np.array([layer.output_elements for layer in workload.layers], np.float64)
    return Edges(consumer, earlier, outputs[earlier] * (workload.batch_per_server * workload.element_bytes))


class Spread(NamedTuple):
    """What ``strategy.base.places`` says of one set of H holders."""

    holder: Offsets  # [H] server
    samples: Offsets  # [H] in those of one server
    place: Offsets  # [N] which of the holders has the samples of each server


def spread(servers: int, holders: tuple[int, ...]) -> Spread:
    """How the samples of all servers are spread over the ``holders``."""
    place = places(servers, holders)
    return Spread(np.array(holders), np.bincount(place), place)


class Rows(NamedTuple):
    """Layer by layer."""

    servers: int
    first: Offsets  # [Y+1] of each layer
    layer: Offsets  # [R]
    server: Offsets  # [R]
    samples: Offsets  # [R] in those of one server
    of: Offsets  # [Y, N] row in which the samples of each server are


class Parcels(NamedTuple):
    """By layer, source and target."""

    layer: Offsets  # [M] that reads it
    source: Offsets  # [M] server
    target: Offsets  # [M] server
    row: Offsets  # [M] that reads it
    bytes: Floats  # [M]
    sent: Offsets  # [X] those between two servers
    holds: tuple[Offsets, Offsets]  # [I] parcel, [I] row whose activations are in it

    def sent_for(self, layers: int) -> Offsets:
        """[Y] how many are sent for each layer."""
        return np.bincount(self.layer[self.sent], minlength=layers)


def parcels_of(rows: Rows, edges: Edges) -> Parcels:
    """What is sent, or stays where it is, for every layer that reads another."""
    made, read = rows.of[edges.input].ravel(), rows.of[edges.consumer].ravel()  # [E N] rows
    ends = rows.server[made] * rows.servers + rows.server[read]
    key = np.repeat(edges.consumer, rows.servers) * rows.servers**2 + ends
    parcel, of = np.unique(key, return_inverse=True)
    of = of.reshape(-1)
    row = np.zeros(len(parcel), np.int64)
    row[of] = read
    source, target = parcel // rows.servers % rows.servers, parcel % rows.servers
    return Parcels(
        layer=parcel // rows.servers**2,
        source=source,
        target=target,
        row=row,
        bytes=np.bincount(of, weights=np.repeat(edges.bytes, rows.servers), minlength=len(parcel)).astype(np.float64),
        sent=np.flatnonzero(source != target),
        holds=np.divmod(distinct(of * len(rows.layer) + made), len(rows.layer)),
    )


def distinct(keys: Offsets) -> Offsets:
    """``keys`` ascending, each once. They are runs that ascend, which a merge sort puts together fast."""
    ordered = np.sort(keys, kind="stable")
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(keys) else keys
