"""What ``fluid.merge`` saves and what it costs in accuracy: cases A to F with ends merged, against the exact answer."""

from __future__ import annotations

from collections.abc import Sequence

from measure import Kernel, difference, repeated, say
from worlds.cases import Case

MERGES = (0.001, 0.01)


def merging(name: str, cases: Sequence[Case]) -> None:
    """Lines of one case, or of a family: times are summed, errors are the largest over tasks and over makespans."""
    kernels = [Kernel.of([case.world]) for case in cases]
    exact = [kernel.run() for kernel in kernels]
    seconds = sum(repeated(lambda kernel=kernel: kernel.run().cpu) for kernel in kernels)
    for merge in MERGES:
        merged = [kernel.run(merge=merge) for kernel in kernels]
        taken = sum(repeated(lambda kernel=kernel, merge=merge: kernel.run(merge=merge).cpu) for kernel in kernels)
        pairs = list(zip(exact, merged, strict=True))
        path = f"fluid.merge.{merge}.{name}"
        say(f"{path}.times_faster", seconds / taken)
        say(f"{path}.largest_error", max(difference(one.finish, other.finish) for one, other in pairs))
        say(f"{path}.makespan_error", max(difference(one.finish.max(), other.finish.max()) for one, other in pairs))
