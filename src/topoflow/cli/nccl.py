"""``topoflow nccl``: what nccl-tests would print on a cluster, and what a run of it falls short of."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rich.table import Table

from topoflow.collectives.communicator import MAX_CHANNELS, Communicator
from topoflow.collectives.nccl import Overrides, estimates
from topoflow.collectives.nccl_flows import Nccl
from topoflow.collectives.nccl_tests_log import DTYPE_BYTES, NcclTestsLog, read
from topoflow.collectives.nccl_time import NETWORKS, NIC, Inside, NcclPrediction, NetworkCoefficients, predict
from topoflow.files import write_atomically
from topoflow.hardware.presets import load
from topoflow.report.output import Output
from topoflow.study.configure.options import options
from topoflow.study.nccl_network import NcclNetwork

SIZES = tuple(2**power for power in range(3, 34))  # 8 B to 8 GiB
DEFAULTS = {
    "node": "hgx_h100",
    "gpus": "8",
    "gpus_per_node": "0",
    "fabric": "rail_optimized",
    "network": "",
    "dtype": "float",
    "nccl.version": "",
    "calibration": "",
    "NCCL_PXN_DISABLE": "0",
    "NCCL_COLLNET_ENABLE": "0",
    "NCCL_ALGO": "",
    "NCCL_PROTO": "",
    "NCCL_MIN_NCHANNELS": "1",
    "NCCL_MAX_NCHANNELS": str(MAX_CHANNELS),
}
COLUMNS = ("bytes", "time_us", "algbw", "busbw", "algorithm", "protocol", "channels", "limit")
MIN_SLOWDOWN = 1.25  # times the predicted time: what takes longer falls short
CAUSES = {
    "launch": "starting the kernel: clocks of CPU and GPU, ranks that arrive late, CUDA graphs that are not used",
    "NVLink latency": "steps inside a node: clocks of the GPUs, NCCL_PROTO, NCCL_ALGO",
    "PCIe latency": "steps inside a node: clocks of the GPUs, NCCL_PROTO, NCCL_ALGO",
    "NVLink": "links that are down (nvidia-smi nvlink -s), NVLS that is off, fewer channels",
    "PCIe": "P2P that is off (ACS, a virtual machine), links of fewer lanes",
    "NIC latency": "steps between nodes: GPUDirect RDMA that is off, a network with more tiers, adaptive routing",
    "NIC": "ports that NCCL does not use (NCCL_IB_HCA), GPUDirect RDMA that is off, links that others share",
}
CABLES = "cables to these switches: oversubscription, hash collisions (ECMP), links that are down"


def run(arguments: argparse.Namespace) -> None:
    """Predict each size, print, compare with a log."""
    chosen = keys(arguments.settings)
    log = None if arguments.measured is None else read(arguments.measured)
    settings = DEFAULTS | ({"nccl.version": log.version, "dtype": log.dtype} if log else {}) | chosen
    comm = communicator(settings)
    if log is not None:
        check(log, arguments.operation, comm)
    nccl = Nccl(calibration=settings["calibration"] or None, network=settings["network"] or None)
    coefficients = nccl.coefficients(comm)
    rows = [
        prediction(comm, settings, arguments.operation, size, coefficients) for size in (log.times if log else SIZES)
    ]
    if comm.nodes > 1:
        network = NcclNetwork(settings["fabric"], comm, settings["NCCL_PXN_DISABLE"] == "0")
        rows = [network.on(row) for row in rows]
    console = Output(highlight=False)
    console.print(
        f"{arguments.operation} on {comm.ranks} {comm.node.gpu or 'GPUs'}, {comm.nodes} x {comm.node.name}, "
        f"{comm.channels} channels of rings, {'' if comm.ll128 else 'no '}LL128"
    )
    if nccl.loaded is not None:
        console.print(f"Note: {nccl.loaded.note}.")
    for note in comm.node.notes:
        console.print(f"Note: {settings['node']}: {note}.")
    console.print(table(rows, comm, settings, log))
    if log is not None:
        for line in shortfalls(rows, comm, log):
            console.print(line)
    if arguments.csv is not None:
        write_atomically(arguments.csv, csv_text(rows).encode())
        console.print(f"Written {arguments.csv}.")


def keys(words: Iterable[str]) -> dict[str, str]:
    """Return KEY=VALUE arguments; raise ``ValueError`` for keys that do not exist."""
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in DEFAULTS:
            raise ValueError(f"{key}: must be KEY=VALUE with one of the keys {', '.join(DEFAULTS)}, got {word!r}")
        if key in values:
            raise ValueError(f"{key}: must be given once, got {values[key]!r} and {value!r}")
        values[key] = value
    return values


def communicator(settings: Mapping[str, str]) -> Communicator:
    """Return the ranks that the keys describe."""
    for key, allowed in (
        ("fabric", options("fabric")),
        ("NCCL_PXN_DISABLE", ("0", "1")),
        ("NCCL_COLLNET_ENABLE", ("0", "1")),
        ("dtype", DTYPE_BYTES),
        ("network", {"": 0, **NETWORKS}),
    ):
        if settings[key] not in allowed:
            raise ValueError(f"{key}: must be one of {', '.join(filter(None, allowed))}, got {settings[key]!r}")
    return Communicator(
        load(settings["node"]),
        whole_number(settings, "gpus"),
        whole_number(settings, "gpus_per_node"),
        settings["nccl.version"],
        whole_number(settings, "NCCL_MIN_NCHANNELS"),
        whole_number(settings, "NCCL_MAX_NCHANNELS"),
        settings["NCCL_COLLNET_ENABLE"] == "1",
    )


def whole_number(settings: Mapping[str, str], key: str) -> int:
    """Return the value of a key as a whole number."""
    if not settings[key].isdecimal() or len(settings[key]) > 9:
        raise ValueError(f"{key}: must be a whole number, got {settings[key]!r}")
    return int(settings[key])


def prediction(
    comm: Communicator,
    settings: Mapping[str, str],
    op: str,
    size: int,
    coefficients: tuple[Inside, NetworkCoefficients],
) -> NcclPrediction:
    """Return the prediction for one size."""
    return predict(
        comm,
        op,
        size,
        rails=settings["NCCL_PXN_DISABLE"] == "0",
        dtype_bytes=DTYPE_BYTES[settings["dtype"]],
        overrides=Overrides(settings["NCCL_ALGO"], settings["NCCL_PROTO"]),
        coefficients=coefficients,
    )


def table(
    rows: Sequence[NcclPrediction], comm: Communicator, settings: Mapping[str, str], log: NcclTestsLog | None
) -> Table:
    """Return the table of nccl-tests with the choice of NCCL, what it would take next, and the limit that binds."""
    grid = Table("size (B)", "algorithm", "protocol", "channels", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "limit")
    grid.add_column("measured (us)" if log else "next best for NCCL")
    if log:
        grid.add_column("of predicted speed")
    for row in rows:
        choice = row.choice
        cells = [str(row.size), choice.algorithm, choice.protocol, str(choice.channels), f"{row.time * 1e6:.2f}"]
        cells += [f"{row.algbw / 1e9:.2f}", f"{row.busbw / 1e9:.2f}", row.limit]
        if log:
            measured = log.times[row.size]
            cells += [f"{measured * 1e6:.2f}", f"{row.time / measured:.0%}"]
        else:
            cells += [next_best(row, comm, settings)]
        grid.add_row(*cells)
    return grid


def next_best(row: NcclPrediction, comm: Communicator, settings: Mapping[str, str]) -> str:
    """Return what NCCL would choose next, and how much longer it expects that to take."""
    if row.op == "all_to_all":
        return "sends and receives"
    overrides = Overrides(settings["NCCL_ALGO"], settings["NCCL_PROTO"])
    choices = estimates(comm, row.op, row.size, DTYPE_BYTES[settings["dtype"]], overrides)
    best, *others = sorted(choices, key=lambda choice: choice.estimate)
    if not others:
        return "nothing else may run"
    return f"{others[0].algorithm}/{others[0].protocol} +{others[0].estimate / best.estimate - 1:.0%}"


def check(log: NcclTestsLog, op: str, comm: Communicator) -> None:
    """Raise ``ValueError`` where a log is of another operation or of other ranks."""
    if log.op and log.op != op:
        raise ValueError(f"{log.path}: is a run of {log.op}, got the operation {op}")
    if log.ranks and log.ranks != comm.ranks:
        raise ValueError(f"{log.path}: is a run of {log.ranks} ranks, got gpus={comm.ranks}")


def shortfalls(rows: Sequence[NcclPrediction], comm: Communicator, log: NcclTestsLog) -> list[str]:
    """Say for which sizes the cluster is slower than predicted, by which limit, and what could be wrong."""

    def limit_of(row: NcclPrediction) -> str:
        return row.limit if log.times[row.size] > MIN_SLOWDOWN * row.time else ""

    lines = []
    for limit, group in groupby(rows, key=limit_of):
        if not limit:
            continue
        slow = list(group)
        worst = max(slow, key=lambda row: log.times[row.size] / row.time)
        sizes = " to ".join(dict.fromkeys((str(slow[0].size), str(slow[-1].size))))
        measured = log.times[worst.size]
        cause = CAUSES.get(limit, CABLES)
        lines.append(f"{sizes} B: up to {measured / worst.time:.1f} times the predicted time. {limit}: {cause}.")
        for name in worst.bandwidths if limit in worst.bandwidths else ():
            part = worst.terms[name] / (measured - worst.time + worst.terms[limit])
            ports = len(comm.ports)
            working = f"{part * ports:.1f} of {ports} ports of a node" if name == NIC else f"{part:.0%} of its rate"
            lines.append(f"  {name} would explain {worst.size} B if {working} worked.")
    return lines or [f"No size takes more than {MIN_SLOWDOWN} times the predicted time."]


def csv_text(rows: Sequence[NcclPrediction]) -> str:
    """Return the rows as CSV; bandwidths are in GB/s."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        numbers = [row.size, f"{row.time * 1e6:.3f}", f"{row.algbw / 1e9:.4f}", f"{row.busbw / 1e9:.4f}"]
        writer.writerow([*numbers, row.choice.algorithm, row.choice.protocol, row.choice.channels, row.limit])
    return out.getvalue()
