"""Sharding: the cut of a transformer's layers by tensor, pipeline, context and expert parallelism.

A block of Megatron-LM cuts its first matrix by columns and its second by rows, so that one all-reduce per pair and
pass is enough. With sequence parallelism, layers that are not cut (norms, the router) compute a part of the positions
on each tensor rank; without it, all of them (``repeated``).

    column    forward: nothing                         backward: the gradients of its inputs are summed over the ranks
    row       forward: its outputs are summed          backward: nothing
    expert    as above; in addition every token is sent to its experts and back

Source: Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, section 4.2 (the parts of the positions; the bytes stay the same).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from topoflow.workload.base import Layer, Sharding


def repeated(layer: Layer, ranks: int) -> Layer:
    """Return ``layer`` with ``ranks`` times the work and outputs per sample that each tensor rank has whole.

    Without sequence parallelism, these are all of a layer that is not cut, and of one that is cut by rows its outputs
    and what element-wise functions (dropout, residual additions) do to them.
    """
    cut = layer.sharding
    if ranks == 1 or cut is None or (cut.tensor and not cut.reduced_forward):
        return layer
    whole = () if cut.tensor else ("forward_flops", "memory_elements", "activation", "temporary")
    changed: dict[str, Any] = {
        name: ranks * getattr(layer, name) for name in ("output_elements", "elementwise", *whole)
    }
    return replace(layer, **changed)


@dataclass(frozen=True)
class Cut:
    """A builder that marks how the layers of one ``block`` are cut (None: before the first or after the last block)."""

    block: int | None

    def whole(self, layer: Layer) -> Layer:
        """Return a layer that every tensor rank holds completely."""
        return replace(layer, sharding=Sharding(self.block))

    def column(self, layer: Layer, inputs: int, *, heads: int = 0, shares: str | None = None) -> Layer:
        """Return a layer cut by columns; ``inputs`` are the elements read per sample, ``heads`` must divide evenly."""
        return replace(
            layer,
            sharding=Sharding(self.block, tensor=True, heads=heads, reduced_backward=inputs, shares=shares),
        )

    def row(self, layer: Layer) -> Layer:
        """Return a layer cut by rows: its outputs are the sum over the tensor ranks."""
        return replace(layer, sharding=Sharding(self.block, tensor=True, reduced_forward=layer.output_elements))

    def heads(self, layer: Layer, *, positions: int, heads: int, key_values: int) -> Layer:
        """Return an attention layer: tensor ranks divide the heads, context ranks the positions.

        Each rank needs the keys and values of all positions.
        """
        return replace(
            layer,
            sharding=Sharding(self.block, tensor=True, heads=heads, positions=positions, key_values=key_values),
        )

    def experts(
        self, up: Layer, down: Layer, experts: int, elements: int, *, top_k: int, node_limit: int
    ) -> list[Layer]:
        """Return the first and the second matrices of all ``experts``.

        Each of the ``elements`` per sample goes to ``top_k`` experts on at most ``node_limit`` nodes, and back.
        """
        routed = top_k * elements
        both = Sharding(self.block, tensor=True, experts=experts, routed=routed, top_k=top_k, node_limit=node_limit)
        sent, returned = replace(both, reduced_backward=routed), replace(both, reduced_forward=routed)
        return [replace(up, sharding=sent), replace(down, sharding=returned)]
