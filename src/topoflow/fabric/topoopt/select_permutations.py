"""SelectPermutations: the choice of rings that together have a small diameter."""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.fabric.topoopt.totient_perms import totient_perms


def select_permutations(
    size: int, degree: int, primes_above: float = float("inf"), *, duplex: bool = False
) -> tuple[int, ...]:
    """Return the strides of the ``degree`` rings to build over ``size`` servers (TopoOpt 4.3, Algorithm 3).

    Strides near a geometric sequence of ratio size^(1/degree) let a server reach the others as fingers do in
    Chord (Theorem 1). The ratio is at least 2 (E.2). Each stride is the free candidate nearest to ratio times the
    previous stride, the smaller of two equally near. If there are fewer candidates than ``degree``, they repeat from
    the first, as parallel circuits. Candidates are those of ``totient_perms``.

    Any server reaches any other in at most degree * size^(1/degree) hops, for every size to 512 and degree to 8
    (tested; with prime strides only, 1.06 times as many).

        16 servers, degree 3: ratio 2.52; 1, near 2.52 -> 3, near 7.56 -> 7     the rings of TopoOpt's Fig. 7
         6 servers, degree 3: candidates 1 and 5 -> 1, 5, 1

    ``duplex``: half as many strides p, each with its reverse, size - p. The ratio is that of half the degree, and
    candidates are at most half of ``size``, since p and size - p are the same ring. An odd degree leaves one port.

       128 servers, degree 4, duplex: ratio 11.3; 1, near 11.3 -> 11             1, 127, 11, 117
    """
    candidates = totient_perms(size, primes_above)
    if duplex:
        forward = _select([stride for stride in candidates if 2 * stride <= size], size, degree // 2)
        return tuple(both for stride in forward for both in (stride, size - stride))
    return _select(candidates, size, degree)


def _select(candidates: Sequence[int], size: int, degree: int) -> tuple[int, ...]:
    if not candidates or degree < 1:
        return ()
    ratio = max(2.0, size ** (1 / degree))
    chosen = [candidates[0]]
    while len(chosen) < min(degree, len(candidates)):
        ideal = ratio * chosen[-1]
        free = (stride for stride in candidates if stride not in chosen)
        chosen.append(min(free, key=lambda stride: (abs(stride - ideal), stride)))
    return tuple(chosen[position % len(chosen)] for position in range(degree))
