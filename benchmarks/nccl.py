"""Compare predicted with measured times of NCCL's collectives, by type of GPU, number of nodes and size.

    python benchmarks/nccl.py rows=FILE [rows=FILE ...] [fit=FILE]

A file is a CSV, ``.gz`` or not, with the columns gpu, nodes, gpus_per_node, fabric, collective, bytes, time_us and
nccl_version, and optionally notes; or the table of boeschf/nccl-benchmark-on-alps-2025, of which the least time of the
settings counts. Rows that cannot be said are counted by reason. Prints ``path.metric value``: medians of
|predicted / measured - 1| from 16 MiB (large) and below (small), the latter also from and below 64 KiB; of all
rows, and apart of those on which something was calibrated and of the others, for all clusters and for each.

``fit`` is a table of latencies and rates that meta-pytorch/autoparallel fitted to 8 H100 per node (columns nodes,
gpus_per_node, collective, latency_us, peak_algbw_gb_s). Its time is latency + bytes / rate; its errors are printed
beside ours (``both``), on the rows that it has.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median

from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import OPERATIONS, Overrides
from topoflow.collectives.nccl_time import predict
from topoflow.hardware import presets
from topoflow.units import gbps

NODES = {  # the first that the name of a GPU contains
    "GB200": "gb200_nvl72",
    "GB300": "gb300_nvl72",
    "GH200": "gh200",
    "B200": "hgx_b200",
    "B300": "hgx_b300",
    "H100": "hgx_h100",
    "H200": "hgx_h200",
    "A100": "dgx_a100",
    "L40S": "l40s",
    "RTX PRO 6000": "rtx_pro_6000",
}
COLLECTIVES = {"alltoall": "all_to_all", **{op: op for op in OPERATIONS}}
RDMA = ("infiniband", "roce", "connectx", "cx-", "hdr", "ndr", "xdr", "quantum", "spectrum-x")  # words of ``fabric``
RATES = {"hdr": 200, "ndr": 400, "xdr": 800}  # Gb/s of a port
GPUS_OF_ALPS = 4  # per node
VERSION_OF_ALPS = "2.23"  # the data do not say; from 2.27.5 on LL128 would run over C2C
COLUMNS = ("gpu", "nodes", "gpus_per_node", "fabric", "collective", "bytes", "time_us", "nccl_version")
CLASSES = ("large", "small", "from_64KiB", "below_64KiB")
# What ``INSIDE`` and ``NETWORKS`` are calibrated on (``src/topoflow/collectives/nccl_time.py``).
CALIBRATED_NODES = ("dgx_a100", "hgx_h100", "hgx_b200", "rtx_pro_6000")


@dataclass(frozen=True)
class Row:
    """One measured collective."""

    node: str
    nodes: int
    per_node: int
    network: str
    port: int  # Gb/s, 0: as the preset
    op: str
    size: int  # B
    time: float  # s
    version: str
    dtype_bytes: int
    algo: str  # NCCL_ALGO, where the row says it

    @property
    def size_classes(self) -> tuple[str, ...]:
        """The classes of sizes that it counts for."""
        if self.size >= 16 * 2**20:
            return ("large",)
        return ("small", "from_64KiB" if self.size >= 64 * 2**10 else "below_64KiB")

    @property
    def held_out(self) -> bool:
        """Return whether no coefficient was calibrated on it."""
        if self.nodes > 1:
            return self.network != "slingshot" or self.nodes > 8
        calibrated = self.node in CALIBRATED_NODES or (self.node == "l40s" and self.per_node == 2)
        power = self.size.bit_length() - 1
        half = self.dtype_bytes == 2 and not self.version.startswith("2.23")
        return not (calibrated and half and self.size == 2**power and power % 2 == 0)


def rows_of(path: Path, unsaid: Counter[str]) -> Iterator[Row]:
    """Yield the rows of a file that can be said; count the others."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    reader = csv.DictReader(io.StringIO(data.decode()))
    if "setting" in (reader.fieldnames or ()):
        yield from alps(reader)
        return
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{path}: must have the columns {', '.join(COLUMNS)}, got none named {', '.join(missing)}")
    for line, row in enumerate(reader, start=2):
        try:
            parsed = row_of(row)
        except ValueError as error:
            raise ValueError(f"{path}:{line}: {error}") from None
        if isinstance(parsed, str):
            unsaid[parsed] += 1
        else:
            yield parsed


def row_of(row: dict[str, str]) -> Row | str:
    """Return a row, or why it cannot be said."""
    node = next((name for word, name in NODES.items() if word.lower() in row["gpu"].lower()), None)
    op, nodes = COLLECTIVES.get(row["collective"]), int(row["nodes"])
    if node is None:
        return f"no node with {row['gpu']}"
    if op is None:
        return f"no collective {row['collective']}"
    if "pcie" in row["gpu"].lower() and preset(node).nvlink_bandwidth(preset(node).gpus[0]):
        return f"no node with {row['gpu']}"
    if not row["time_us"] or not row["bytes"]:
        return "no time or no size"
    nodes, per_node = nvlink_domains(node, nodes, int(row["gpus_per_node"]))
    fabric = row["fabric"].lower()
    network = "slingshot" if "slingshot" in fabric else "infiniband"
    if nodes > 1 and ("misconfigured" in fabric or (network != "slingshot" and not any(w in fabric for w in RDMA))):
        return f"network: {row['fabric']}"
    notes = row.get("notes") or ""
    algo = re.search(r"NCCL_ALGO=(\w+)", notes)
    version = re.fullmatch(r"\d+\.\d+(\.\d+)?", row["nccl_version"])
    try:
        sizes = float(row["bytes"]), float(row["time_us"])
    except ValueError:
        sizes = 0.0, 0.0
    if not all(0 < size < float("inf") for size in sizes):
        raise ValueError(f"bytes, time_us: must be positive, got {row['bytes']} and {row['time_us']}")
    dtype_bytes = 1 if "dtype int8" in notes else 2 if "dtype half" in notes else 4
    version_or_newest = version[0] if version and version[0].startswith("2.") else ""
    size, time, named = int(sizes[0]), sizes[1] * 1e-6, algo[1] if algo else ""
    rate = next((rate for word, rate in RATES.items() if word in fabric), 0)
    stated = re.search(r"\b(?:ndr|hdr|xdr)?(100|200|400|800)\s*g?", fabric)
    port = int(stated[1]) if stated and nodes > 1 else rate * (nodes > 1)
    return Row(node, nodes, per_node, network, port, op, size, time, version_or_newest, dtype_bytes, named)


def nvlink_domains(node: str, nodes: int, per_node: int) -> tuple[int, int]:
    """Return the number of NVLink domains and the GPUs used in each: hosts of a rack are one."""
    size = len(preset(node).gpus)
    total = nodes * per_node
    domains = -(-total // size)
    if size <= 8 or total % domains:
        return nodes, per_node
    return domains, total // domains


def alps(reader: csv.DictReader[str]) -> Iterator[Row]:
    """Yield the least time of each size over the settings that use GDRCopy."""
    times: dict[tuple[int, int], float] = {}
    for row in reader:
        key = int(row["nodes"]), int(row["bytes"])
        if row["setting"] != "no_gdrcopy":
            times[key] = min(times.get(key, float("inf")), float(row["time_us"]) * 1e-6)
    for (nodes, size), time in times.items():
        yield Row("gh200", nodes, GPUS_OF_ALPS, "slingshot", 0, "all_reduce", size, time, VERSION_OF_ALPS, 4, "")


preset = cache(presets.preset)


@cache
def communicator(node: str, nodes: int, per_node: int, version: str, port: int) -> Communicator:
    """Return the ranks of a row; ``port`` replaces the rate of the preset's ports."""
    machine = preset(node)
    if port:
        machine = replace(machine, ports=tuple(replace(nic_port, bandwidth=gbps(port)) for nic_port in machine.ports))
    return Communicator(machine, nodes * per_node, per_node, version)


def error(row: Row) -> float:
    """Return |predicted / measured - 1|."""
    comm = communicator(row.node, row.nodes, row.per_node, row.version, row.port)
    prediction = predict(
        comm, row.op, row.size, network=row.network, dtype_bytes=row.dtype_bytes, overrides=Overrides(row.algo)
    )
    return abs(prediction.time / row.time - 1)


Fit = dict[tuple[int, int, str], tuple[float, float]]  # nodes, GPUs per node, collective -> s and B/s


def fit_of(path: Path) -> Fit:
    """Return the table of AutoParallel."""
    rows = csv.DictReader(io.StringIO(path.read_text()))
    return {
        (int(row["nodes"]), int(row["gpus_per_node"]), row["collective"]): (
            float(row["latency_us"]) * 1e-6,
            float(row["peak_algbw_gb_s"]) * 1e9,
        )
        for row in rows
    }


def line(name: str, errors: dict[str, list[float]]) -> None:
    for size_class in CLASSES:
        if errors[size_class]:
            count = f"  # {len(errors[size_class])} rows"
            print(f"nccl.{name}.median_error.{size_class} {median(errors[size_class]):.4f}{count}")


def main(paths: list[Path], fit: Fit) -> None:
    unsaid: Counter[str] = Counter()
    rows = [row for path in paths for row in rows_of(path, unsaid)]
    by_group: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    predicted = 0
    for row in rows:
        try:
            relative_error = error(row)
        except ValueError as refused:
            unsaid[str(refused)] += 1
            continue
        predicted += 1
        part, scope = "held_out" if row.held_out else "calibrated", "between" if row.nodes > 1 else "inside"
        cluster = f"{row.node}.{row.nodes}x{row.per_node}" if row.nodes > 1 else f"{row.node}.1"
        for kind in (
            "all",
            part,
            f"{part}.{scope}",
            f"{part}.{scope}.{row.op}",
            f"{part}.{cluster}",
            f"{part}.{cluster}.{row.op}",
        ):
            for size_class in row.size_classes:
                by_group[kind][size_class].append(relative_error)
        fitted = fit.get((row.nodes, row.per_node, row.op)) if row.node == "hgx_h100" else None
        for size_class in row.size_classes if fitted else ():
            latency, rate = fitted or (0.0, 1.0)
            by_group["both.ours"][size_class].append(relative_error)
            by_group["both.autoparallel"][size_class].append(abs((latency + row.size / rate) / row.time - 1))
    print(f"nccl.rows {predicted}")
    print(f"nccl.unsaid {unsaid.total()}")
    for reason, count in unsaid.most_common():
        print(f"# {count} rows cannot be said: {reason}")
    for size_class in CLASSES:
        if by_group["all"][size_class]:
            print(f"nccl.median_error.{size_class} {median(by_group['all'][size_class]):.4f}")
    for name in sorted(by_group):
        if name != "all":
            line(name, by_group[name])


if __name__ == "__main__":
    words = [word.removeprefix("rows=") for word in sys.argv[1:] if word.startswith("rows=")]
    fits = [word.removeprefix("fit=") for word in sys.argv[1:] if word.startswith("fit=")]
    if not words or len(fits) > 1 or len(words) + len(fits) != len(sys.argv) - 1:
        sys.exit(
            "benchmarks/nccl.py: must be called with rows=FILE and at most one fit=FILE, got " + " ".join(sys.argv[1:])
        )
    try:
        main([Path(word) for word in words], fit_of(Path(fits[0])) if fits else {})
    except (ValueError, OSError) as refused:
        sys.exit(f"benchmarks/nccl.py: {refused}")
