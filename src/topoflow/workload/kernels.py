"""Measured kernels: times of layers on one GPU, in FlexFlow's format (its ``--mfile``, JSON).

    {"batch_size": 32768, "ngpus": 128, "measurements": [
        {"name": "Dense_4096_4096", "pc_str": "2-1-128", "fw_time": 0.174, "bw_time": 0.300}, ...]}

``pc_str`` has the number of dimensions and the parts of each; the last is the number of servers that the batch was
divided among. A server had four A100, which took a quarter of the server's samples each. An embedding table is an
exception: one GPU looked up all samples of the server. So the kernel above took 0.174 ms for 32768 / 128 / 4 = 64
samples. Times are in ms. Source: FlexFlow of TopoOpt, https://github.com/hipersys-team/FlexFlow, commit b1526834,
src/runtime/model.cc, ``construct_candidates``; ``--big-gpu 4`` of its scripts; and its folder ``measures/``. Some of
the authors' files are shipped, in ``measured/``, without the memory of kernels.

Times are interpolated linearly between two measurements; outside of them they are proportional to the samples, as for
large kernels. Kernels are identified by name only: ``Conv2D_3_3_256`` is the first measured convolution to 256
channels, and FlexFlow used its time for all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from topoflow.fields import parse_json, shorten
from topoflow.files import read_bytes

SHIPPED = Path(__file__).with_name("measured")  # files with names: topoopt/dlrm128
GPUS = 4  # per server, in the authors' measurements
TABLE = "Embed_"  # kernels that one GPU runs for the whole server


class KernelTimes(NamedTuple):
    """The times (s) of a layer's passes; ``weights`` is the part of the backward pass for the gradients of weights."""

    forward: float
    backward: float
    weights: float = 0.0


@dataclass(frozen=True)
class Kernels:
    """Measured kernels: ``measured`` maps the name of a kernel to its times by the samples of one GPU."""

    name: str
    measured: Mapping[str, Mapping[float, KernelTimes]]

    @staticmethod
    def load(path: str) -> Kernels:
        """Read a file, or the shipped one of this name (``topoopt/dlrm128``).

        Raises ``ValueError`` for a file that has no measured kernels, ``OSError`` if it cannot be read.
        """
        shipped = {file.relative_to(SHIPPED).with_suffix("").as_posix(): file for file in SHIPPED.rglob("*.json")}
        graph = parse_json(path, read_bytes(shipped.get(path, Path(path))))
        rows = graph.get("measurements") if isinstance(graph, dict) else None
        if not isinstance(rows, list):
            raise ValueError(f"{path}.measurements: must be a list of measured kernels, got {shorten(rows)}")
        batch = _positive(f"{path}.batch_size", graph.get("batch_size"))
        measured: dict[str, dict[float, KernelTimes]] = {}
        for number, row in enumerate(rows):
            name, samples, times = _row(f"{path}.measurements[{number}]", row, batch)
            if samples in measured.setdefault(name, {}):
                rule = "must be of different kernels or numbers of servers"
                raise ValueError(f"{path}.measurements[{number}]: {rule}, got {name} twice for {samples:g} samples")
            measured[name][samples] = times
        return Kernels(path, measured)

    def has(self, kernel: str) -> bool:
        """Return whether this kernel was measured."""
        return kernel in self.measured

    @property
    def names(self) -> str:
        """Return some of the names, for messages."""
        return ", ".join(sorted(self.measured)[:4]) or "none"

    def times(self, kernel: str, samples: float, gpus: int) -> KernelTimes:
        """Return the times of ``samples`` that a server with ``gpus`` GPUs computes."""
        return _between(self.measured[kernel], samples if kernel.startswith(TABLE) else samples / gpus)


def _between(measured: Mapping[float, KernelTimes], samples: float) -> KernelTimes:
    sizes = sorted(measured)
    right = bisect_left(sizes, samples)  # index of the first measurement with as many samples or more
    if right in (0, len(sizes)):
        nearest = sizes[min(right, len(sizes) - 1)]
        return KernelTimes(*(seconds * samples / nearest for seconds in measured[nearest]))
    low, high = sizes[right - 1 : right + 1]
    share = (samples - low) / (high - low)
    pairs = zip(measured[low], measured[high], strict=True)
    return KernelTimes(*(below + share * (above - below) for below, above in pairs))


def _row(place: str, row: object, batch: float) -> tuple[str, float, KernelTimes]:
    """Return the name of a kernel, the samples of one GPU, and its times."""
    if not isinstance(row, dict):
        raise ValueError(f"{place}: must be a measured kernel, got {shorten(row)}")
    name, parts = row.get("name"), str(row.get("pc_str")).split("-")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{place}.name: must be the name of a kernel, got {shorten(name)}")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() and 0 < len(part) < 10 for part in parts):
        raise ValueError(f"{place}.pc_str: must be numbers as 2-1-128, got {shorten(row.get('pc_str'))}")
    servers = _positive(f"{place}.pc_str", int(parts[-1]))
    times = KernelTimes(*(_positive(f"{place}.{key}", row.get(key)) * 1e-3 for key in ("fw_time", "bw_time")))
    return name, batch / servers / (1 if name.startswith(TABLE) else GPUS), times


def _positive(place: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**63 or not isfinite(value):
        raise ValueError(f"{place}: must be a positive number, got {shorten(value)}")
    return float(value)
