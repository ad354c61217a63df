"""Efficiency: the fraction of a GPU's peak rates that its kernels reach, by operation, precision and shape.

A file of measurements is one JSON object. All fractions are within 0 < fraction <= 1. They are interpolated between
the logarithms of the measured sizes; outside of these the nearest size counts.

    gpu         the GPU that was measured
    origin      where the numbers are from
    matmul      by rate of ``gpu.flops``: rows, inputs, outputs (ascending sizes), reached [rows][inputs][outputs]
    attention   by rate: size (of a head), sequence, heads (of a batch), reached [size][sequence][heads]
    flash2      the most that FlashAttention-2 reaches: sequence (ascending), forward, backward; null: not measured
    backward    inputs, parameters (gradients of a matrix multiplication), attention: relative to the forward kernels
    memory      of the memory bandwidth, for kernels with little arithmetic
    launch_us   additional time of such a kernel
    links       of the bandwidth to the other GPUs of a server, for collectives
    overlap     speed of matrix multiplications while collectives run beside them

``benchmarks/calibration/efficiency_tables.py`` makes the shipped files, one for each GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.arrays import Floats
from topoflow.fields import parse_json, shorten
from topoflow.files import read_bytes
from topoflow.units import is_finite, us

ROOFLINE, MEASURED = "roofline", "measured"
FIELDS = ("gpu", "origin", "matmul", "attention", "flash2", "backward", "memory", "launch_us", "links", "overlap")
MATMUL, ATTENTION = ("rows", "inputs", "outputs"), ("size", "sequence", "heads")
BACKWARD = ("inputs", "parameters", "attention")
ATTENTION_KERNELS = ("flash", "flash2", "flash1")  # the fastest that was measured, and versions of FlashAttention
# FlashAttention-2 is 1.3 to 1.5 times as fast as version 1 in Triton forward, and twice as fast backward (Dao,
# FlashAttention-2, 2023, section 4.1).
FLASH1_SLOWDOWN = {"forward": 1.4, "backward": 2.0}
LEAST_PART = 1e-9  # of the peak; the slowest kernel that was measured reaches 4e-5
EQUAL_RATES = {"float16": "bfloat16", "float8_e5m2": "float8_e4m3fn"}  # the same tensor cores compute both


@dataclass(frozen=True, eq=False)
class EfficiencyTable:
    """Reached fractions of the peak on a grid of sizes."""

    sizes: tuple[Floats, ...]  # logarithms, ascending, of each axis
    reached: Floats  # [sizes of each axis]

    def at(self, *sizes: float) -> float:
        """Return the fraction for ``sizes``, interpolated along each axis in turn."""
        values = self.reached
        for measured, size in zip(self.sizes, sizes, strict=True):
            position = float(np.interp(np.log(size), measured, np.arange(len(measured))))
            low = min(int(position), max(len(measured) - 2, 0))
            high = min(low + 1, len(measured) - 1)
            values = values[low] + (position - low) * (values[high] - values[low])
        return float(values)


@dataclass(frozen=True, eq=False)
class Efficiency:
    """The measured fractions of the peak rates of one GPU type."""

    file: str
    gpu: str
    origin: str
    tables: Mapping[str, Mapping[str, EfficiencyTable]]  # operation -> rate -> its table
    flash2: Mapping[str, EfficiencyTable] | None  # direction -> by length of the sequence
    backward: Mapping[str, float]
    memory: float
    launch: float  # s
    links: float
    overlap: float

    @staticmethod
    def load(file: str) -> Efficiency:
        """Read a file. Raises ``ValueError`` for a file that is no efficiency table, ``OSError`` if unreadable."""
        plain = _fields(file, parse_json(file, read_bytes(Path(file)), unique=True), FIELDS)
        for name in ("gpu", "origin"):
            if not isinstance(plain[name], str) or not plain[name]:
                raise ValueError(f"{file}.{name}: must be text, got {shorten(plain[name])}")
        backward = _fields(f"{file}.backward", plain["backward"], BACKWARD)
        return Efficiency(
            file=file,
            gpu=plain["gpu"],
            origin=plain["origin"],
            tables={
                "matmul": _tables(f"{file}.matmul", plain["matmul"], MATMUL),
                "attention": _tables(f"{file}.attention", plain["attention"], ATTENTION),
            },
            flash2=_flash2(f"{file}.flash2", plain["flash2"]),
            backward={name: _part(f"{file}.backward.{name}", backward[name]) for name in BACKWARD},
            memory=_part(f"{file}.memory", plain["memory"]),
            launch=us(_number(f"{file}.launch_us", plain["launch_us"], 0.0)),
            links=_part(f"{file}.links", plain["links"]),
            overlap=_part(f"{file}.overlap", plain["overlap"]),
        )

    def reached(self, operation: str, rate: str, *sizes: float) -> float:
        """Return the fraction of the peak ``rate`` that the forward kernel of ``operation`` reaches."""
        by_rate = self.tables[operation]
        table = by_rate.get(EQUAL_RATES.get(rate, rate))
        if table is None:
            rule = f"must have the rate {rate} (efficiency={ROOFLINE} needs none)"
            raise ValueError(f"{self.file}.{operation}: {rule}, got {', '.join(by_rate)}")
        return table.at(*sizes)

    def attention(self, kernel: str, rate: str, size: int, sequence: int, heads: float) -> tuple[float, float]:
        """Return the fractions of the peak that ``kernel`` reaches in the forward and in the backward pass."""
        fastest = self.reached("attention", rate, size, sequence, heads)
        reached = {"forward": fastest, "backward": fastest * self.backward["attention"]}
        if kernel != "flash":
            if self.flash2 is None:
                rule = f"must be flash, as FlashAttention-2 was not measured on {self.gpu}"
                raise ValueError(f"workload.attention: {rule}, got {kernel}")
            reached = {name: min(part, self.flash2[name].at(sequence)) for name, part in reached.items()}
        if kernel == "flash1":
            reached = {name: part / FLASH1_SLOWDOWN[name] for name, part in reached.items()}
        return reached["forward"], reached["backward"]


@cache
def measured_gpus() -> dict[str, Path]:
    """Return the shipped file of each GPU that has one, by its name in small letters."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.json"))}


def load_efficiency(efficiency: str, gpu: str) -> Efficiency | None:
    """Return the efficiencies of the GPU named ``gpu``; None for the roofline.

    ``efficiency`` is ``roofline``, ``measured`` (the shipped table of this GPU) or the path of a file.
    """
    if efficiency == ROOFLINE:
        return None
    if efficiency != MEASURED:
        return Efficiency.load(efficiency)
    shipped = measured_gpus()
    if gpu.lower() not in shipped:
        rule = f"must be {ROOFLINE} or a file for {gpu}, as only {', '.join(map(str.upper, shipped))} have measurements"
        raise ValueError(f"gpu.efficiency: {rule}, got {efficiency!r}")
    return Efficiency.load(str(shipped[gpu.lower()]))


def _tables(place: str, plain: object, axes: tuple[str, ...]) -> dict[str, EfficiencyTable]:
    if not isinstance(plain, dict) or not plain:
        raise ValueError(f"{place}: must be tables by rate, as bfloat16, got {shorten(plain)}")
    return {rate: _table(f"{place}.{rate}", table, axes) for rate, table in plain.items()}


def _flash2(place: str, plain: object) -> dict[str, EfficiencyTable] | None:
    if plain is None:
        return None
    table = _fields(place, plain, ("sequence", "forward", "backward"))
    return {
        name: _table(place, {"sequence": table["sequence"], "reached": table[name]}, ("sequence",))
        for name in ("forward", "backward")
    }


def _table(place: str, plain: object, axes: tuple[str, ...]) -> EfficiencyTable:
    table = _fields(place, plain, (*axes, "reached"))
    sizes = []
    for axis in axes:
        plain_sizes = table[axis]
        if not isinstance(plain_sizes, list) or not plain_sizes:
            raise ValueError(f"{place}.{axis}: must be a list of sizes, got {shorten(plain_sizes)}")
        checked = [_number(f"{place}.{axis}[{number}]", size, 1.0) for number, size in enumerate(plain_sizes)]
        if any(later <= earlier for earlier, later in pairwise(checked)):
            raise ValueError(f"{place}.{axis}: must be ascending, got {shorten(plain_sizes)}")
        sizes.append(np.log(np.array(checked)))
    reached = _grid(f"{place}.reached", table["reached"], [len(axis_sizes) for axis_sizes in sizes])
    return EfficiencyTable(tuple(sizes), np.array(reached, np.float64))


def _grid(place: str, plain: object, shape: list[int]) -> Any:
    if not shape:
        return _part(place, plain)
    if not isinstance(plain, list) or len(plain) != shape[0]:
        got = len(plain) if isinstance(plain, list) else shorten(plain)
        raise ValueError(f"{place}: must be a list of {shape[0]}, one for each size, got {got}")
    return [_grid(f"{place}[{number}]", row, shape[1:]) for number, row in enumerate(plain)]


def _fields(place: str, plain: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(plain, dict) or sorted(plain) != sorted(names):
        got = ", ".join(plain) if isinstance(plain, dict) else shorten(plain)
        raise ValueError(f"{place}: must have the fields {', '.join(names)}, got {got}")
    return plain


def _part(place: str, value: object) -> float:
    part = _number(place, value, 0.0)
    if not LEAST_PART <= part <= 1:
        raise ValueError(f"{place}: must be within {LEAST_PART:g}..1 of the peak, got {value}")
    return part


def _number(place: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value) or value < least:
        raise ValueError(f"{place}: must be a number of at least {least:g}, got {shorten(value)}")
    return float(value)
