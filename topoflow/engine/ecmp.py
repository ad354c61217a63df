"""ECMP: which of several equally good paths a flow takes.

A switch hashes what identifies a connection (addresses and ports), and the region of the hash space into which the
value falls is the path: all packets of a connection keep one path, whatever else is in the network. A queue pair here
is (seed, source, target, channel), so the flows of one ring between two servers share a path, as they do with NCCL.

Source: Hopps, "Analysis of an equal-cost multi-path algorithm" (hash-threshold), RFC 2992; the mixer is SplitMix64
of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

PURPOSE = 0x45434D50  # "ECMP": another purpose with the same seed draws other numbers


def choose(seed: int, source: ArrayLike, target: ArrayLike, channel: ArrayLike, paths: ArrayLike) -> NDArray[np.int64]:
    """[F] which of the ``paths`` [F] paths each connection (``source``, ``target``, ``channel`` [F]) takes."""
    state = _mix(np.array([(seed & 0xFFFFFFFFFFFFFFFF) ^ PURPOSE], np.uint64))
    for field in (source, target, channel):
        state = _mix(state ^ np.asarray(field).astype(np.uint64))
    uniform = (state >> np.uint64(11)).astype(np.float64) * 2.0**-53  # [0, 1)
    chosen: NDArray[np.int64] = (uniform * np.asarray(paths)).astype(np.int64)
    return chosen


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: add the golden ratio, then finalize; modulo 2^64."""
    z: NDArray[np.uint64] = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z
