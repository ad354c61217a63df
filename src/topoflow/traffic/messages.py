"""Rows and messages: who computes what of a placement, and what servers send each other for it.

A *row* is a layer and one of its holders, which computes it for its own samples and for those of others. A *message* is
all that one server owes another for a layer: activations of its inputs in the forward pass, their gradients in the
backward pass. A message from a server to itself is not sent.

Shapes: N servers, Y layers, R rows, E edges (a layer and one of its inputs), M messages, I contents of messages (a
message and a row whose activations are in it).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoflow.arrays import Floats, Mask, Offsets, distinct
from topoflow.strategy.placement import places
from topoflow.workload.base import LayerGraph


class Edges(NamedTuple):
    """Which layer reads which."""

    consumer: Offsets  # [E] layer
    input: Offsets  # [E] layer
    bytes: Floats  # [E] for the samples of one server


def edges_of(workload: LayerGraph) -> Edges:
    """Those of all layers, which are numbered in the order of ``workload``."""
    number = {layer.name: index for index, layer in enumerate(workload.layers)}
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
    """Layer by layer, in each by server."""

    servers: int
    first: Offsets  # [Y+1] of each layer
    layer: Offsets  # [R]
    server: Offsets  # [R]
    samples: Offsets  # [R] in those of one server
    of: Offsets  # [Y, N] row in which the samples of each server are

    @property
    def is_replicated(self) -> Mask:
        """[R] whether the layer has several holders."""
        return np.greater(np.diff(self.first)[self.layer], 1)


class Messages(NamedTuple):
    """By layer, source and target."""

    layer: Offsets  # [M] that reads it
    source: Offsets  # [M] server
    target: Offsets  # [M] server
    row: Offsets  # [M] that reads it
    bytes: Floats  # [M]
    contents: tuple[Offsets, Offsets]  # [I] message, [I] row whose activations are in it

    @property
    def is_sent(self) -> Mask:
        """[M] whether it is between two servers."""
        return np.not_equal(self.source, self.target)


def messages_of(rows: Rows, edges: Edges) -> Messages:
    """What is sent, or stays where it is, for every layer that reads another."""
    made, read = rows.of[edges.input].ravel(), rows.of[edges.consumer].ravel()  # [E N] rows
    ends = rows.server[made] * rows.servers + rows.server[read]
    key = np.repeat(edges.consumer, rows.servers) * rows.servers**2 + ends
    message, of = np.unique(key, return_inverse=True)
    of = of.reshape(-1)
    row = np.zeros(len(message), np.int64)
    row[of] = read
    return Messages(
        layer=message // rows.servers**2,
        source=message // rows.servers % rows.servers,
        target=message % rows.servers,
        row=row,
        bytes=np.bincount(of, weights=np.repeat(edges.bytes, rows.servers), minlength=len(message)).astype(np.float64),
        contents=np.divmod(distinct(of * len(rows.layer) + made), len(rows.layer)),
    )
