"""Parquet tables of links, tasks, ports and failures. They need pyarrow (170 MB), an extra of the package."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from topoflow.case.base import Result
from topoflow.engine.base import Histogram, PacketCounts, Ports, Queues
from topoflow.report.base import Report
from topoflow.report.tables import failures

LINKS = pa.schema(
    [
        ("world", pa.string()),
        ("link", pa.int32()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("bandwidth", pa.float64()),  # B/s
        ("latency", pa.float64()),  # s
        ("bytes", pa.float64()),  # B carried in the step
        ("utilization", pa.float64()),  # bytes / (bandwidth * iteration time)
    ]
)
TASKS = pa.schema(
    [
        ("world", pa.string()),
        ("task", pa.int32()),  # position in the traffic
        ("name", pa.string()),
        ("kind", pa.string()),  # compute, transfer, all_reduce, ...
        ("server", pa.int32()),  # of a computation
        ("source", pa.int32()),  # of a transfer
        ("target", pa.int32()),
        ("group", pa.list_(pa.int32())),  # of a collective
        ("bytes", pa.float64()),  # B; of a collective: one member's full buffer
        ("start", pa.float64()),  # s
        ("finish", pa.float64()),  # s
    ]
)
PORTS = pa.schema(
    [
        ("world", pa.string()),
        ("link", pa.int32()),  # that the port sends on
        ("src", pa.string()),
        ("dst", pa.string()),
        ("active", pa.float64()),  # s that it sent
        ("stalled", pa.float64()),  # s that packets waited for nothing but room in the next buffer
        ("idle", pa.float64()),  # s, the rest of the iteration
        ("bytes", pa.float64()),  # B
        ("packets", pa.int64()),
        ("idle_intervals", pa.int64()),  # how often it was idle
        ("idle_1us", pa.int64()),  # how often for more than 1 us
        ("idle_1ms", pa.int64()),  # how often for more than 1 ms
        ("fullest", pa.float64()),  # B, largest use of the buffer at the end of the link
        ("lost", pa.int64()),  # packets that it dropped or trimmed
        ("marked", pa.int64()),  # packets that it marked (ECN)
    ]
)
QUEUES = pa.schema(
    [
        ("world", pa.string()),
        ("link", pa.int32()),  # link of the port; the 64 fullest ports of a world
        ("start", pa.float64()),  # s, of the interval
        ("finish", pa.float64()),  # s
        ("depth", pa.float64()),  # B, the largest in the interval, as ``fullest`` of ports.parquet
    ]
)
LATENCIES = pa.schema(
    [
        ("world", pa.string()),
        ("of", pa.string()),  # packet: from the start of its sending; message: from when it was ready to be sent
        ("low", pa.float64()),  # s
        ("high", pa.float64()),  # s
        ("count", pa.int64()),  # of those whose latency is within low..high
    ]
)
MESSAGES = pa.schema(
    [
        ("world", pa.string()),
        ("task", pa.int32()),  # of tasks.parquet that the message is part of
        ("source", pa.int32()),  # server
        ("target", pa.int32()),
        ("bytes", pa.float64()),  # B
        ("start", pa.float64()),  # s, when it was ready to be sent
        ("finish", pa.float64()),  # s, when its last byte had arrived
        ("sent", pa.int64()),  # packets of the message that left their NIC; null where nothing can be lost
        ("lost", pa.int64()),  # packets of the message that ports dropped or trimmed
    ]
)
FAILURES = pa.schema(
    [
        ("world", pa.string()),
        ("what", pa.string()),  # fiber, server
        ("number", pa.int32()),  # of the link in links.parquet, or of the server
        ("name", pa.string()),
        ("count", pa.int32()),  # equivalent fibers of the link
        ("iteration_time", pa.float64()),  # s, after the failure; null: the job cannot continue
        ("slowdown", pa.float64()),  # times as long as when nothing has failed
    ]
)


def write_tables(report: Report, folder: Path) -> None:
    """Write ``links.parquet``, ``tasks.parquet``, and the tables of ports and failures if the report has any."""
    _write(folder / "links.parquet", LINKS, map(_links, report.outcomes))
    _write(folder / "tasks.parquet", TASKS, map(_tasks, report.outcomes))
    worlds = [(outcome, ports) for outcome in report.outcomes if (ports := outcome.timeline.ports) is not None]
    if worlds:
        histograms = ((outcome, *of) for outcome, ports in worlds for of in ports.latencies())
        queues = ((outcome, ports.queues) for outcome, ports in worlds if ports.queues is not None)
        _write(folder / "ports.parquet", PORTS, starmap(_ports, worlds))
        _write(folder / "latencies.parquet", LATENCIES, starmap(_latencies, histograms))
        _write(folder / "queues.parquet", QUEUES, starmap(_queues, queues))
        _write(folder / "messages.parquet", MESSAGES, (_messages(outcome, ports.flows) for outcome, ports in worlds))
    if report.failures:
        _write(folder / "failures.parquet", FAILURES, [pa.Table.from_pylist(failures(report), schema=FAILURES)])


def _write(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    """Write the tables of the worlds as one file; only one of them is in memory at a time."""
    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            writer.write_table(part)


def _link_names(outcome: Result) -> dict[str, Any]:
    """Return the world and the link of each record, and the bytes that the link carried."""
    fabric = outcome.fabric
    return {
        "world": [outcome.settings.world] * fabric.links,
        "link": range(fabric.links),
        "src": [fabric.nodes[node] for node in fabric.source],
        "dst": [fabric.nodes[node] for node in fabric.target],
        "bytes": outcome.timeline.link_bytes,
    }


def _links(outcome: Result) -> pa.Table:
    return pa.table(
        {
            **_link_names(outcome),
            "bandwidth": outcome.fabric.bandwidth,
            "latency": outcome.fabric.latency,
            "utilization": outcome.utilization,
        },
        schema=LINKS,
    )


def _ports(outcome: Result, ports: Ports) -> pa.Table:
    return pa.table(
        {
            **_link_names(outcome),
            "active": ports.active,
            "stalled": ports.stalled,
            "idle": np.maximum(outcome.timeline.makespan - ports.active - ports.stalled, 0.0),  # to rounding
            "packets": ports.packets,
            "idle_intervals": ports.idle_intervals,
            "idle_1us": ports.idle_1us,
            "idle_1ms": ports.idle_1ms,
            "fullest": ports.fullest,
            "lost": ports.lost,
            "marked": ports.marked,
        },
        schema=PORTS,
    )


def _queues(outcome: Result, queues: Queues) -> pa.Table:
    ports, intervals = queues.depth.shape
    start = queues.interval * np.arange(intervals)
    return pa.table(
        {
            "world": [outcome.settings.world] * (ports * intervals),
            "link": np.repeat(queues.link, intervals),
            "start": np.tile(start, ports),
            "finish": np.tile(start + queues.interval, ports),
            "depth": queues.depth.ravel(),
        },
        schema=QUEUES,
    )


def _latencies(outcome: Result, kind: str, latency: Histogram) -> pa.Table:
    names = {"world": [outcome.settings.world] * len(latency.count), "of": [kind] * len(latency.count)}
    return pa.table({**names, "low": latency.low, "high": latency.high, "count": latency.count}, schema=LATENCIES)


def _messages(outcome: Result, flows: PacketCounts | None) -> pa.Table:
    graph = outcome.timeline.world.graph
    (sent,) = np.nonzero(graph.bytes > 0)
    source, target = (np.full(graph.tasks, -1), np.full(graph.tasks, -1)) if graph.ends is None else graph.ends[:2]
    return pa.table(
        {
            "world": [outcome.settings.world] * len(sent),
            "task": graph.owner[sent],
            "source": _or_null(source[sent]),
            "target": _or_null(target[sent]),
            "bytes": graph.bytes[sent],
            "start": outcome.timeline.start[sent],
            "finish": outcome.timeline.finish[sent],
            "sent": pa.nulls(len(sent), pa.int64()) if flows is None else flows.sent[sent],
            "lost": pa.nulls(len(sent), pa.int64()) if flows is None else flows.lost[sent],
        },
        schema=MESSAGES,
    )


def _tasks(outcome: Result) -> pa.Table:
    traffic = outcome.traffic
    kinds, kind = traffic.kind_numbers()
    groups = pa.array([list(operation.group) for operation in traffic.operations], TASKS.field("group").type)
    return pa.table(
        {
            "world": pa.repeat(outcome.settings.world, len(traffic)),
            "task": np.arange(len(traffic)),
            "name": traffic.names(),
            "kind": pa.array(kinds).take(pa.array(kind)),
            "server": _or_null(traffic.server),
            "source": _or_null(traffic.source),
            "target": _or_null(traffic.target),
            "group": groups.take(_or_null(traffic.operation)),
            "bytes": traffic.bytes,
            "start": outcome.timeline.task_start,
            "finish": outcome.timeline.task_finish,
        },
        schema=TASKS,
    )


def _or_null(servers: NDArray[np.int32]) -> pa.Array:
    return pa.array(servers, mask=servers < 0)
