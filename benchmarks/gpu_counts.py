"""What the device code costs that needs no GPU to be known; kept in benchmarks/results/gpu_counts.txt.

    python benchmarks/gpu_counts.py [radices=4,6]      # counts per event of cases.py's C on fat-trees of these radices

Counts are those of tests/cuda_emulation, of one block on one multiprocessor: barriers (of a block; of a warp),
exchanges of a warp (shuffles, ballots, reductions), and requests of warps to memory. ``chain`` is how many requests
that return something the slowest warp of an epoch makes, summed over epochs: an upper limit of the accesses that wait
for each other, from which latency follows. ``sectors`` are the 32 B that requests of global memory move.

An event is a time at which a flow ends; the bound has one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cuda_emulation" / "python"))

COUNT = """
import ctypes, os, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from cases import all_to_all
from topoflow.engine.base import Run
from topoflow.engine.bound import Bound
from topoflow.engine.device import Device
from topoflow.engine.fluid import Fluid
import torch
library = ctypes.CDLL(os.environ["TOPOFLOW_EMULATED"])
library.emulation_counts.restype = ctypes.c_char_p
run = Run(Device.named("cuda"))
for radix in map(int, sys.argv[2].split(",")):
    world = all_to_all("C", radix, ecmp=False, uneven=True).world
    for fidelity in (Fluid(), Bound()):
        library.emulation_counts()
        timeline = fidelity.simulate([world], run)[0]
        events = len(np.unique(timeline.finish)) if fidelity.name == "fluid" else 1
        name = f"{fidelity.name}.all_to_all_{radix**3 // 4}_hosts"
        print(f"{name}.events {events}")
        for line in library.emulation_counts().decode().splitlines():
            what, number = line.split()
            print(f"{name}.{what} {int(number) / events:.1f}" if what != "launches" else f"{name}.launches {number}")
"""


def counts(radices: str) -> None:
    """Print what the kernels do for each event."""
    import emulation

    settings = {"CUDA_EMULATION_COUNT": "1", "CUDA_EMULATION_PROCESSORS": "1", "CUDA_EMULATION_BLOCKS": "1"}
    library = emulation.build()
    command = [sys.executable, "-c", COUNT, str(ROOT / "benchmarks"), radices]
    subprocess.run(command, env={**emulation.environment(library), **settings}, check=True)


def main() -> None:
    arguments = dict(one.partition("=")[::2] for one in sys.argv[1:])
    counts(arguments.get("radices", "4"))


if __name__ == "__main__":
    main()
