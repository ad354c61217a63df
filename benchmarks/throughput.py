"""How fast and how right the fluid fidelity is, compared with SimGrid, in one run on one machine.

    python benchmarks/throughput.py cases=A,B
    python benchmarks/throughput.py cases=C,F fluid.merge=0.001
    python benchmarks/throughput.py cases=batch,curve

Prints ``path.metric value`` lines. Cases A to F (``worlds/`` says what they are) run one world
on one core, our kernel and SimGrid's engine in alternation; ``ratio_to_simgrid`` is SimGrid's CPU time over ours, of
the engines alone. Both have the world ready in memory: building a platform, packing a batch, files and Python are left
out. SimGrid runs with its own settings where it is timed; ends are also compared with SimGrid at its most precise
(``largest_difference``; a run of more than 30 s is not repeated for it). ``sensitivity`` is how much ends move when all
capacities grow by one unit in the last place.

Other cases: batch (256 C-worlds on one core and on two), curve (cost of an event as flows grow), merge (what
fluid.merge saves and costs), bound (DLRM worlds per second of the bound fidelity), gpu (4,096 C-worlds and the bound
of a million DLRM worlds on a GPU).
Without ``cases`` all but gpu run; on two cores C2 takes about five minutes, nearly all of them SimGrid's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from fluid_speed.batch import GPU_BATCH, batch, gpu
from fluid_speed.curve import curve
from fluid_speed.merging import merging, random_jobs
from fluid_speed.screening import bound, bound_on_gpu
from fluid_speed.speed import measure, progress, report
from peers.simgrid_peer import SimGrid
from worlds.cases import CASES, Case, many_c
from worlds.random_worlds import random_world

RANDOM_WORLDS = 200
FAMILIES: dict[str, Callable[[], Sequence[Case]]] = {
    **CASES,
    "F": lambda: [random_world(seed) for seed in range(RANDOM_WORLDS)],
}
EXTRA_PARTS = ("batch", "curve", "merge", "bound", "gpu")
DEFAULT = (*FAMILIES, *(name for name in EXTRA_PARTS if name != "gpu"))


def main() -> None:
    try:
        chosen, merge = settings(sys.argv[1:])
        with tempfile.TemporaryDirectory() as folder:
            run(chosen, merge, Path(folder))
    except ValueError as error:
        sys.exit(str(error))


def run(chosen: Sequence[str], merge: float, folder: Path) -> None:
    peer = build_peer(folder) if {*chosen} & {*FAMILIES, "gpu"} else None
    for name in chosen:
        if name in FAMILIES:
            family(name, peer, merge)
    if "batch" in chosen:
        batch(merge)
    if "curve" in chosen:
        curve(merge)
    if "merge" in chosen:
        for name, make in FAMILIES.items():
            for group, cases in grouped(name, make()):
                merging(group, cases)
        random_jobs()
    if "bound" in chosen:
        bound()
    if "gpu" in chosen:
        gpu(peer, merge, many_c(GPU_BATCH))
        gpu(None, merge, many_c(GPU_BATCH, 4), "fluid.gpu.16_hosts")
        bound_on_gpu(CASES["E"]())


def settings(arguments: Sequence[str]) -> tuple[list[str], float]:
    """The chosen cases and fluid.merge. Raises ``ValueError`` where an argument is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="cases=NAME,NAME or fluid.merge=NUMBER")
    chosen, merge = list(DEFAULT), "0"
    for override in parser.parse_args(arguments).overrides:
        key, _, value = override.partition("=")
        if key == "cases":
            chosen = value.split(",")
        elif key == "fluid.merge":
            merge = value
        else:
            raise ValueError(f"{key}: no such key; must be cases or fluid.merge")
    known = (*FAMILIES, *EXTRA_PARTS)
    for name in chosen:
        if name not in known:
            raise ValueError(f"cases: must be of {', '.join(known)}, got {name!r}")
    try:
        number = float(merge)
    except ValueError:
        number = float("nan")
    if not 0 <= number < 1:
        raise ValueError(f"fluid.merge: must be within 0 <= merge < 1, got {merge}")
    return chosen, number


def build_peer(folder: Path) -> SimGrid | None:
    missing = SimGrid.missing()
    if missing is None:
        return SimGrid.build(folder)
    progress(f"SimGrid is left out: {missing}")
    return None


def family(name: str, peer: SimGrid | None, merge: float) -> None:
    for group, cases in grouped(name, FAMILIES[name]()):
        progress(f"{group}: {len(cases)} worlds, {sum(case.world.graph.tasks for case in cases)} tasks")
        report(group, [measure(case, peer, merge) for case in cases])


def grouped(name: str, cases: Sequence[Case]) -> list[tuple[str, Sequence[Case]]]:
    """Random worlds are reported together, any other alone."""
    return [(name, cases)] if name == "F" else [(case.name, [case]) for case in cases]


if __name__ == "__main__":
    main()
