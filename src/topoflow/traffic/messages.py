"""Rows and messages of a placement: the computations of servers, and the bytes that servers send to each other.

A *row* is a layer and one of its holders, which computes the layer for its own samples and for those of other servers.
A *message* has all bytes from one server to another for a layer: activations of its inputs in the forward pass, their
gradients in the backward pass. A message from a server to itself is not sent.

Shapes: N servers, Y layers, R rows, E edges (a layer and one of its inputs), M messages, I contents of messages (a
message and a row whose activations are in it).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoflow.arrays import Floats, Mask, Offsets, distinct
from topoflow.strategy.placement import places
from topoflow.workload.base import LayerGraph


class LayerEdges(NamedTuple):
    """The pairs of a layer and one of its inputs."""

    consumer: Offsets  # [E] layer
    input: Offsets  # [E] layer
    bytes: Floats  # [E] for the samples of one server


def edges_of(workload: LayerGraph) -> LayerEdges:
    """Return the edges of all layers, which are numbered in the order of ``workload``."""
    number = {layer.name: index for index, layer in enumerate(workload.layers)}
    ends = [(number[layer.name], number[earlier]) for layer in workload.layers for earlier in layer.after]
    consumer, earlier = np.array(ends, np.int64).reshape(-1, 2).T
    outputs = np.array([layer.output_elements for layer in workload.layers], np.float64)
    return LayerEdges(consumer, earlier, outputs[earlier] * (workload.batch_per_server * workload.element_bytes))


class HolderSpread(NamedTuple):
    """The distribution of the samples of all servers over one set of H holders (``strategy.placement.places``)."""

    holder: Offsets  # [H] server
    samples: Offsets  # [H] number of servers whose samples the holder computes
    place: Offsets  # [N] index of the holder that has the samples of each server


def spread(servers: int, holders: tuple[int, ...]) -> HolderSpread:
    """Distribute the samples of all servers over the ``holders``."""
    place = places(servers, holders)
    return HolderSpread(np.array(holders), np.bincount(place), place)


class LayerRows(NamedTuple):
    """Rows by layer, then by server."""

    servers: int
    first: Offsets  # [Y+1] first row of each layer
    layer: Offsets  # [R]
    server: Offsets  # [R]
    samples: Offsets  # [R] number of servers whose samples the row computes
    of: Offsets  # [Y, N] row that computes the samples of each server

    @property
    def is_replicated(self) -> Mask:
        """Return [R] whether the layer has several holders."""
        return np.greater(np.diff(self.first)[self.layer], 1)


class LayerMessages(NamedTuple):
    """Messages by layer, source and target."""

    layer: Offsets  # [M] layer that reads it
    source: Offsets  # [M] server
    target: Offsets  # [M] server
    row: Offsets  # [M] row that reads it
    bytes: Floats  # [M]
    contents: tuple[Offsets, Offsets]  # [I] message, [I] row whose activations it contains

    @property
    def is_sent(self) -> Mask:
        """Return [M] whether source and target differ."""
        return np.not_equal(self.source, self.target)


def messages_of(rows: LayerRows, edges: LayerEdges) -> LayerMessages:
    """Return the messages of every layer that reads another, including those that stay on a server."""
    producer, consumer = rows.of[edges.input].ravel(), rows.of[edges.consumer].ravel()  # [E N] rows
    ends = rows.server[producer] * rows.servers + rows.server[consumer]
    key = np.repeat(edges.consumer, rows.servers) * rows.servers**2 + ends
    message, message_of = np.unique(key, return_inverse=True)
    message_of = message_of.reshape(-1)
    row = np.zeros(len(message), np.int64)
    row[message_of] = consumer
    return LayerMessages(
        layer=message // rows.servers**2,
        source=message // rows.servers % rows.servers,
        target=message % rows.servers,
        row=row,
        bytes=np.bincount(message_of, weights=np.repeat(edges.bytes, rows.servers), minlength=len(message)).astype(
            np.float64
        ),
        contents=np.divmod(distinct(message_of * len(rows.layer) + producer), len(rows.layer)),
    )
