"""Distil measured kernels to the tables of ``src/topoflow/workload/efficiency``: the part of the peak that they reach.

    pip download --no-deps aiconfigurator-core==0.12.0 && pip install pyarrow
    python benchmarks/calibration/efficiency_tables.py WHEEL SIMUMAX/configs/system src/topoflow/workload/efficiency

Forward kernels: aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), which measured them under three inference frameworks
on one GPU of each type; a value is the median over the frameworks. Backward kernels: SimuMax (MooreThreads,
Apache-2.0), whose configuration has the same matrix multiplications forward and backward; a factor is the median over
the shapes. Of a GPU that SimuMax measured itself (B200), its BF16 multiplications, as training runs them one after the
other, scale those of the inference frameworks, which ran for moments, and its share of the memory bandwidth and its
latency of memory-bound kernels count. The rates of the peak are those of ``configs/gpu``.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

ROWS = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
WIDTHS = (128, 512, 1024, 2048, 4096, 8192, 16384, 65536)
SEQUENCES = (512, 1024, 2048, 4096, 8192, 16384)
HEADS = (1, 4, 16, 64, 256, 1024)  # of all sequences of a batch
SIZES = (64, 128)  # of a head
ALL_GATHER = 2**28  # elements of the largest message
FLOAT4 = "float4_e2m1fn_x2"
FOLDER = "aiconfigurator_core/systems"
DTYPES = {"bfloat16": "bfloat16", "fp8": "float8_e4m3fn", "nvfp4": FLOAT4}
PEAKS = {  # FLOP/s, and B/s to other GPUs, of configs/gpu
    "a100": {"bfloat16": 312e12, "links": 300e9},
    "h100": {"bfloat16": 989.5e12, "float8_e4m3fn": 1979e12, "links": 450e9},
    "h200": {"bfloat16": 989.5e12, "float8_e4m3fn": 1979e12, "links": 450e9},
    "b200": {"bfloat16": 2250e12, "float8_e4m3fn": 4500e12, FLOAT4: 9000e12, "links": 900e9},
    "gb200": {"bfloat16": 2500e12, "float8_e4m3fn": 5000e12, FLOAT4: 10000e12, "links": 900e9},
    "gb300": {"bfloat16": 2500e12, "float8_e4m3fn": 5000e12, FLOAT4: 15000e12, "links": 900e9},
}
BLACKWELL = "b200_bf16_ceperm"
SIMUMAX = {
    **dict.fromkeys(("a100", "h100", "h200"), "a100_pcie"),
    **dict.fromkeys(("b200", "gb200", "gb300"), BLACKWELL),
}
# FlashAttention-2 on an H100 SXM5, heads of 128, 512 to 16,384 positions, TFLOP/s over the peak: Shah et al.,
# FlashAttention-3, 2024, figure 5 (forward, causal) and figure 6 (backward). The A100's own kernels are of its kind.
HOPPER_FLASH2 = {
    "sequence": SEQUENCES,
    "forward": [round(speed / 989.5, 3) for speed in (191, 260, 298, 319, 333, 335)],
    "backward": [round(speed / 989.5, 3) for speed in (214, 260, 291, 310, 318, 322)],
}
FLASH2 = {
    "a100": {"sequence": [512], "forward": [1.0], "backward": [1.0]},
    **dict.fromkeys(("h100", "h200"), HOPPER_FLASH2),
}
# Multiplications of cuBLAS on an H100 occupy all SMs, so that they take twice as long beside NCCL, which occupies some
# (pytorch/pytorch issue 143988). Of other GPUs no such measurement is known.
OVERLAP = {"h100": 0.5, "h200": 0.5}
FLASH2_ORIGIN = "; Shah et al., FlashAttention-3, 2024, figures 5 and 6: flash2; pytorch/pytorch issue 143988: overlap"
SAME_GPU = ("b200",)  # of which SimuMax has measurements, not of a card with other clocks


def main(wheel: str, simumax: str, out: str) -> None:
    archive = zipfile.ZipFile(wheel)
    for gpu, peaks in PEAKS.items():
        training = json.loads(Path(simumax, f"{SIMUMAX[gpu]}.json").read_text())["accelerator"]
        moving = training["bandwidth"]["default"]
        same_gpu = gpu in SAME_GPU
        table = {
            "gpu": gpu.upper(),
            "origin": (
                f"aiconfigurator-core 0.12.0 (Apache-2.0), {system(gpu)}: GEMM, causal attention, NCCL all-gather"
                + ("" if same_gpu else ", memory-bound kernels")
                + f"; SimuMax 4dcaae5 (Apache-2.0), configs/system/{SIMUMAX[gpu]}.json: backward kernels"
                + (", scale of BF16 GEMM, memory-bound kernels" if same_gpu else "")
                + (FLASH2_ORIGIN if gpu in OVERLAP else "")
                + "; made by benchmarks/calibration/efficiency_tables.py"
            ),
            "matmul": matmul(archive, gpu, peaks, forward_of(training) if same_gpu else {}),
            "attention": attention(archive, gpu, peaks),
            "flash2": FLASH2.get(gpu),
            "backward": backward(training),
            "memory": moving["efficient_factor"]
            if same_gpu
            else number(archive, gpu, "mem_bw_empirical_scaling_factor"),
            "launch_us": moving["latency_us"]
            if same_gpu
            else number(archive, gpu, "mem_empirical_constant_latency") * 1e6,
            "links": links(archive, gpu, peaks["links"]),
            "overlap": OVERLAP.get(gpu, 1.0),
        }
        Path(out, f"{gpu}.json").write_text(text(table))


def system(gpu: str) -> str:
    """Return the name that aiconfigurator-core has for a GPU."""
    return gpu if gpu.startswith("g") else f"{gpu}_sxm"


def text(table: dict[str, Any]) -> str:
    """JSON with one line for every list of numbers."""
    lines = json.dumps(table, indent=1)
    return re.sub(r"\[[\d\s.,]*\]", lambda match: re.sub(r"\s+", " ", match[0]), lines) + "\n"


def rows_of(archive: zipfile.ZipFile, gpu: str, kind: str, name: str) -> list[list[dict[str, Any]]]:
    """Return the measured points of each framework, of its latest version."""
    latest: dict[str, str] = {}
    for path in archive.namelist():
        match = re.fullmatch(rf"{FOLDER}/data/{system(gpu)}/{kind}/(\w+)/([\w.]+)/{name}_perf.parquet", path)
        if match and version(match[2]) >= version(latest.get(match[1], "/0/").split("/")[-2]):
            latest[match[1]] = path
    return [pq.read_table(io.BytesIO(archive.read(path))).to_pylist() for path in sorted(latest.values())]


def version(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def matmul(
    archive: zipfile.ZipFile, gpu: str, peaks: dict[str, float], training: dict[tuple[int, ...], float]
) -> dict[str, Any]:
    """Return the tables, scaled by what multiplications reach in ``training`` where these were measured."""
    reached: dict[str, dict[tuple[int, ...], list[float]]] = {dtype: defaultdict(list) for dtype in peaks}
    for rows in rows_of(archive, gpu, "gemm", "gemm"):
        for row in rows:
            dtype = DTYPES.get(row["gemm_dtype"])
            if dtype in peaks:
                m, n, k = row["m"], row["n"], row["k"]
                reached[dtype][m, k, n].append(2 * m * n * k / (row["latency"] * 1e-3) / peaks[dtype])
    shared = [
        part / median(reached["bfloat16"][shape]) for shape, part in training.items() if shape in reached["bfloat16"]
    ]
    scale = min(median(shared), 1.0) if shared else 1.0
    print(gpu, "training reaches", round(scale, 3), "of the inference frameworks, shapes", len(shared))
    return {
        dtype: {
            "rows": ROWS,
            "inputs": WIDTHS,
            "outputs": WIDTHS,
            "reached": grid(values, (ROWS, WIDTHS, WIDTHS), scale=scale if dtype == "bfloat16" else 1.0),
        }
        for dtype, values in reached.items()
        if values
    }


def attention(archive: zipfile.ZipFile, gpu: str, peaks: dict[str, float]) -> dict[str, Any]:
    """Half of the scores are computed, as attention is causal; key-value heads differ, which hardly counts."""
    reached: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for rows in rows_of(archive, gpu, "attention", "context_attention"):
        for row in rows:
            plain = row["attn_dtype"] == row["kv_cache_dtype"] == "bfloat16" and int(row["step"]) == 0
            if plain and not row.get("window_size"):
                heads, sequence, size = row["batch_size"] * row["num_heads"], row["isl"], row["head_dim"]
                flops = 2 * sequence**2 * size * heads
                reached[size, sequence, heads].append(flops / (row["latency"] * 1e-3) / peaks["bfloat16"])
    sizes = [size for size in SIZES if any(key[0] == size for key in reached)]
    axes = (sizes, SEQUENCES, HEADS)
    return {"bfloat16": {"size": sizes, "sequence": SEQUENCES, "heads": HEADS, "reached": grid(reached, axes)}}


def grid(
    reached: dict[tuple[int, ...], list[float]], axes: tuple[Any, ...], key: tuple[int, ...] = (), scale: float = 1.0
) -> Any:
    """The medians as nested lists; of a shape that was not measured, that of the nearest one, by the logarithms."""
    if len(key) < len(axes):
        return [grid(reached, axes, (*key, size), scale) for size in axes[len(key)]]
    if key not in reached:
        alike = [shape for shape in reached if all(size in axis for size, axis in zip(shape, axes, strict=True))]
        key = min(alike, key=lambda shape: sum(abs(math.log(a / b)) for a, b in zip(shape, key, strict=True)))
    return float(f"{min(median(reached[key]) * scale, 1.0):.3g}")


def multiplications(training: dict[str, Any]) -> dict[tuple[Any, ...], float]:
    """Return what SimuMax measured, by layout, rows, inputs and outputs."""
    shares: dict[tuple[Any, ...], float] = {}
    for name, share in training["op"]["matmul"]["accurate_efficient_factor"].items():
        m, k, n, layout = re.findall(r"m=(\d+), k=(\d+), n=(\d+), layout=(\w\w)", name)[0]
        shares[layout, int(m), int(k), int(n)] = share
    return shares


def forward_of(training: dict[str, Any]) -> dict[tuple[int, ...], float]:
    return {key[1:]: share for key, share in multiplications(training).items() if key[0] == "TN"}


def backward(training: dict[str, Any]) -> dict[str, float]:
    """Efficiencies of backward kernels as parts of those forward, which layouts TN, NN and NT tell apart."""
    shares = multiplications(training)
    factors: dict[str, list[float]] = defaultdict(list)
    for (layout, m, k, n), share in shares.items():
        if layout == "TN":  # m rows of k inputs to n outputs
            for field, key in (("inputs", ("NN", m, n, k)), ("parameters", ("NT", n, m, k))):
                if key in shares:
                    factors[field].append(shares[key] / share)
    forward, back = (training["op"][name]["accurate_efficient_factor"] for name in ("sdp_fwd", "sdp_bwd"))
    factors["attention"] = [back[shape] / forward[shape] for shape in forward if shape in back]
    return {name: round(min(median(values), 1.0), 3) for name, values in factors.items()}


def number(archive: zipfile.ZipFile, gpu: str, name: str) -> float:
    match = re.search(rf"{name}: ([\d.e-]+)", archive.read(f"{FOLDER}/{system(gpu)}.yaml").decode())
    assert match is not None
    return float(match[1])


def links(archive: zipfile.ZipFile, gpu: str, peak: float) -> float:
    """Bus bandwidth of the largest all-gather among the GPUs of a host; message sizes count elements of 2 bytes."""
    rows = [row for table in rows_of(archive, gpu, "comm", "nccl") for row in table]
    rows = [
        row for row in rows if (row["op_name"], row["nccl_dtype"]) == ("all_gather", "half") and row["num_gpus"] <= 8
    ]
    count, largest = max((row["num_gpus"], row["message_size"]) for row in rows)
    alike = [row for row in rows if (row["num_gpus"], row["message_size"]) == (count, largest)]
    rates = [2 * largest * (count - 1) / count / (row["latency"] * 1e-3) for row in alike]
    return round(median(rates) / peak, 3)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
