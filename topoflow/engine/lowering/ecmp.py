"""ECMP: which of several equally good paths a flow takes.

A switch hashes what identifies a connection (addresses and ports), and the region of the hash space into which the
value falls is the path: all packets of a connection keep one path, whatever else is in the network. A queue pair here
is (seed, source, target, channel), so the flows of one ring between two servers share a path, as they do with NCCL.

Source: Hopps, "Analysis of an equal-cost multi-path algorithm" (hash-threshold), RFC 2992; the mixer is SplitMix64
of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

from functools import lru_cache

PURPOSE = 0x45434D50  # "ECMP": another purpose with the same seed draws other numbers
WORD = 2**64 - 1


def choose(seed: int, source: int, target: int, channel: int, paths: int) -> int:
    """Which of ``paths`` paths the connection (``source``, ``target``, ``channel``) takes."""
    state = _mix(_mix(_begun(seed, source) ^ target) ^ channel)
    return int((state >> 11) * 2.0**-53 * paths)  # [0, 1) in as many equal regions as there are paths


@lru_cache(maxsize=2**12)
def _begun(seed: int, source: int) -> int:
    """The hash so far: all connections of a source begin alike."""
    return _mix(_mix((seed & WORD) ^ PURPOSE) ^ source)


def _mix(state: int) -> int:
    """SplitMix64: add the golden ratio, then finalize; modulo 2^64."""
    z = (state + 0x9E3779B97F4A7C15) & WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)
