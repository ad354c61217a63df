"""What the device code costs that needs no GPU to be known; kept in benchmarks/results/gpu_counts.txt.

    python benchmarks/gpu/gpu_counts.py [radices=4,6]      # counts per event of case C on fat-trees of these radices
    python benchmarks/gpu/gpu_counts.py places=1           # also where in the source warps wait at barriers

It also prints what nvcc says of each kernel, where there is one (gpu_resources.py).

Counts are those of tests/cuda_emulation, of one block on one multiprocessor: barriers (of a block; of a warp),
exchanges of a warp (shuffles, ballots, reductions), and requests of warps to memory. ``chain`` is how many requests
that return something the slowest warp of an epoch makes, summed over epochs: an upper limit of the accesses that wait
for each other, from which latency follows. ``sectors`` are the 32 B that requests of global memory move.

An event is a time at which a flow ends; of a ladder it is a proposal (a DLRM on 16 servers), the bound has one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import gpu_resources

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cuda_emulation" / "python"))


def counts(radices: str, *options: str) -> None:
    """Print what the kernels do for each event; ``places``: also where in the source warps wait at barriers."""
    import emulation

    settings = {"CUDA_EMULATION_COUNT": "1", "CUDA_EMULATION_PROCESSORS": "1", "CUDA_EMULATION_BLOCKS": "1"}
    environment = emulation.environment(emulation.build())
    script = Path(__file__).with_name("gpu_kernels.py")
    command = [sys.executable, str(script), radices, *options]
    subprocess.run(command, env={**environment, **settings}, check=True)


def main() -> None:
    arguments = dict(one.partition("=")[::2] for one in sys.argv[1:])
    counts(arguments.get("radices", "4"), *(["places"] if "places" in arguments else []))
    if shutil.which("nvcc"):
        gpu_resources.write()


if __name__ == "__main__":
    main()
