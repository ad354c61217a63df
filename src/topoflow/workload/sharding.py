"""Sharding: how a layer of a transformer is cut by tensor, pipeline, context and expert parallelism.

A block of Megatron-LM cuts its first matrix by columns and its second by rows, so that one all-reduce per pair and
pass is enough; what is left whole (norms, the router) is computed for a part of the positions on each tensor rank.

    column    forward: nothing                         backward: the gradients of its inputs are summed over the ranks
    row       forward: its outputs are summed          backward: nothing
    expert    as these, and every token goes to its experts and comes back

Source: Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, section 4.2 (the parts of the positions; the bytes stay the same).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoflow.workload.base import Layer, Sharding


@dataclass(frozen=True)
class Cut:
    """Marks the layers of one block (``None``: before the first or after the last) with how they are cut."""

    block: int | None

    def whole(self, layer: Layer) -> Layer:
        """Every tensor rank holds all of it."""
        return replace(layer, sharding=Sharding(self.block))

    def column(self, layer: Layer, inputs: int, *, heads: int = 0, shares: str | None = None) -> Layer:
        """``inputs`` are the elements per sample that it reads; ``heads`` must divide evenly."""
        return replace(
            layer,
            sharding=Sharding(self.block, tensor=True, heads=heads, reduced_backward=inputs, shares=shares),
        )

    def row(self, layer: Layer) -> Layer:
        """Its outputs are the sum of what the tensor ranks computed."""
        return replace(layer, sharding=Sharding(self.block, tensor=True, reduced_forward=layer.output_elements))

    def heads(self, layer: Layer, *, positions: int, heads: int, key_values: int) -> Layer:
        """Attention: tensor ranks have heads, context ranks positions; each needs keys and values of all positions."""
        return replace(
            layer,
            sharding=Sharding(self.block, tensor=True, heads=heads, positions=positions, key_values=key_values),
        )

    def experts(self, up: Layer, down: Layer, experts: int, routed: int) -> list[Layer]:
        """The first matrices of all ``experts`` and the second; ``routed`` elements per sample go there and back."""
        sent = Sharding(self.block, tensor=True, experts=experts, routed=routed, reduced_backward=routed)
        returned = Sharding(self.block, tensor=True, experts=experts, routed=routed, reduced_forward=routed)
        return [replace(up, sharding=sent), replace(down, sharding=returned)]
