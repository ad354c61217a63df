"""What each kernel takes of a multiprocessor, as nvcc compiles it: no GPU is needed. gpu_counts.py prints it, too.

    python benchmarks/gpu/gpu_resources.py [architecture=sm_90] [files=fluid,screen]      # of csrc/cuda, without .cu

``occupancy`` is the share of a multiprocessor's warps that a kernel can fill by its registers and threads; shared
memory, which kernels ask for as they start, may leave fewer. Instructions have 16 B each; those that fill the end of a
kernel are counted.
Source: CUDA C++ Programming Guide, technical specifications of compute capability 9.0; registers are allocated to a
warp in units of 256.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CSRC = Path(__file__).resolve().parents[2] / "csrc"
# As csrc/CMakeLists.txt.
FLAGS = ("-std=c++20", "-O3", "-DNDEBUG", "-DTOPOFLOW_CUDA", "--fmad=false", f"-I{CSRC}")
REGISTERS, THREADS, BLOCKS, WARP = 65_536, 2_048, 32, 32  # of a multiprocessor; threads of a warp
REGISTER_UNIT = 256
INSTRUCTION = 16  # B

ENTRY = re.compile(r"\.entry (\w*run_(?:warps|blocks)\w*)\([^)]*\)\s*\.maxntid (\d+)")
SECTION = re.compile(r"\.text\.(\w+)\s+PROGBITS\s+\w+\s+\w+\s+(\w+)")


def resources(file: str, architecture: str) -> Iterator[tuple[str, float]]:
    """(``resources.FILE.KERNEL.WHAT``, value) of the kernels of csrc/cuda/``file``.cu."""
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = f"{folder}/kernel.ptx", f"{folder}/kernel.cubin"
        _run("nvcc", *FLAGS, f"-arch={architecture}", "-ptx", str(CSRC / "cuda" / f"{file}.cu"), "-o", ptx)
        threads = dict(ENTRY.findall(Path(ptx).read_text()))
        report = _run("nvcc", f"-arch={architecture}", "-Xptxas=-v", "-cubin", ptx, "-o", cubin)
        sizes = dict(SECTION.findall(_run("readelf", "--sections", "--wide", cubin)))
    for symbol, usage in taken(report).items():
        if symbol in threads:
            usage |= {
                "instructions": int(sizes[symbol], 16) // INSTRUCTION,
                "threads": int(threads[symbol]),
                "occupancy": occupancy(int(usage["registers"]), int(threads[symbol])),
            }
            yield from ((f"resources.{file}.{_kernel(symbol)}.{metric}", value) for metric, value in usage.items())


def taken(report: str) -> dict[str, dict[str, float]]:
    """By kernel, what ptxas says of it and of the functions that it calls: those come after it, and have own spills."""
    _, *parts = re.split(r"Compiling entry function '(\w+)'", report)
    return {
        symbol: {
            "registers": int(re.findall(r"Used (\d+) registers", text)[0]),
            "stack_bytes": max(map(int, re.findall(r"(\d+) bytes (?:stack frame|cumulative stack size)", text))),
            "spill_store_bytes": sum(map(int, re.findall(r"(\d+) bytes spill stores", text))),
            "spill_load_bytes": sum(map(int, re.findall(r"(\d+) bytes spill loads", text))),
        }
        for symbol, text in zip(parts[::2], parts[1::2], strict=True)
    }


def occupancy(registers: int, threads: int) -> float:
    """The share of warps that blocks of ``threads``, with ``registers`` each, can fill."""
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    blocks = min(REGISTERS // of_warp * WARP // threads, THREADS // threads, BLOCKS)
    return blocks * threads / THREADS


def _kernel(symbol: str) -> str:
    """``RunBound`` of ``run_blocks<topoflow::cuda::RunBound>(...)``, ``Ideal`` of ``run_blocks<Run<Ideal> >(...)``."""
    return _run("c++filt", symbol).partition("<")[2].rpartition(">(")[0].rstrip("> ").rpartition("::")[2]


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def write(architecture: str = "sm_90", files: str = "") -> None:
    """Print the resources of all kernels, or of some files of csrc/cuda separated by commas."""
    if shutil.which("nvcc") is None:
        sys.exit("nvcc: must be on the path, got none")
    for file in files.split(",") if files else sorted(path.stem for path in (CSRC / "cuda").glob("*.cu")):
        for name, value in resources(file, architecture):
            print(name, f"{value:g}", flush=True)


if __name__ == "__main__":
    write(**dict(one.partition("=")[::2] for one in sys.argv[1:]))
