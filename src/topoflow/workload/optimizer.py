"""Optimizer: its state per parameter in addition to the weight and the gradient, and the cost of one step.

State per parameter, bytes:

    sgd        0     w -= lr g                         (FlexFlow's DLRM: SGDOptimizer(&ff, 0.01f), no momentum)
    momentum   4     one average in float32
    adam       8     two averages in float32; 12 if weights are narrower than float32, because of a float32 copy;
                     with weights and gradients of 16 bits, 2 + 2 + 12 = 16 bytes in all

Source: Rajbhandari et al., "ZeRO", SC 2020, section 3.1 (K = 12 for mixed-precision Adam, 16 bytes per parameter).
"""

from __future__ import annotations

from topoflow.units import DTYPE_BYTES, check_among

AVERAGES = {"sgd": 0, "momentum": 1, "adam": 2}  # kept in float32
FLOPS = {"sgd": 2, "momentum": 4, "adam": 12}  # per parameter: multiply-adds, and Adam's division and root
FLOAT32 = DTYPE_BYTES["float32"]


def check_optimizer(field: str, optimizer: str) -> None:
    """Raise ``ValueError`` for an unknown optimizer."""
    check_among(field, optimizer, AVERAGES)


def state_bytes(optimizer: str, dtype: str) -> int:
    """Return the bytes of state per parameter whose weight is a ``dtype``."""
    return FLOAT32 * (AVERAGES[optimizer] + _has_copy(optimizer, dtype))


def update_bytes(optimizer: str, dtype: str) -> int:
    """Return the bytes that a step moves per parameter.

    It reads the gradient and the state, and writes the state and the weight. The weight is read too, unless a wider
    copy of it is part of the state.
    """
    weights = 2 if _has_copy(optimizer, dtype) else 3
    return weights * DTYPE_BYTES[dtype] + 2 * state_bytes(optimizer, dtype)


def _has_copy(optimizer: str, dtype: str) -> bool:
    return optimizer == "adam" and DTYPE_BYTES[dtype] < FLOAT32
