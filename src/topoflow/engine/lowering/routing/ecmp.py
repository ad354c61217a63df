"""ECMP: a connection keeps one of several equally good paths, drawn by a hash.

A switch hashes what identifies a connection (addresses and ports), and the region of the hash space into which the
value falls is the path: all packets of a connection keep one path, whatever else is in the network. A queue pair here
is (seed, source, target, channel), so the flows of one ring between two servers share a path, as they do with NCCL.

Source: Hopps, "Analysis of an equal-cost multi-path algorithm" (hash-threshold), RFC 2992; the mixer is SplitMix64
of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.lowering.routing import Connections, Index, Split, one_path

PURPOSE = 0x45434D50  # "ECMP": another purpose with the same seed draws other numbers
WORD = 2**64 - 1

Words = NDArray[np.uint64]


def split(choices: Index, connections: Connections, seed: int) -> Split:
    return one_path(choose(choices.prod(axis=1), connections, seed))


def choose(paths: Index, connections: Connections, seed: int) -> Index:
    """[F] which of as many ``paths`` [F] each connection takes."""
    state = np.array((seed & WORD) ^ PURPOSE, np.uint64)
    for field in connections:
        state = _mix(state) ^ field.astype(np.uint64)
    region = (_mix(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53  # in [0, 1), as many equal ones as paths
    chosen: Index = (region * paths).astype(np.int64)
    return chosen


def _mix(state: Words) -> Words:
    """SplitMix64: add the golden ratio, then finalize; modulo 2^64."""
    with np.errstate(over="ignore"):  # a number without dimensions would warn of what is meant here
        z = state + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = z ^ (z >> np.uint64(31))
    return mixed
