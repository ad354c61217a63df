"""Profiles of a job that gathers the parameters of a layer while it computes the one before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECORDED = 100  # Gb/s


class Host:
    """A host that launches kernels and all-gathers of two ranks, and the rows that a profiler writes of them (us).

    ``waits``: how rows say what waits for an all-gather: "rows", "numbers" if they name it, or "events" of streams.
    """

    def __init__(self, waits: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self.waits, self.now, self.calls, self.gathers = waits, 0.0, 0, 0

    def row(self, category: str, name: str, start: float, duration: float, lane: int = 1, **args: Any) -> None:
        process = 0 if category in ("kernel", "cuda_sync") else 1
        row = {"ph": "X", "cat": category, "name": name, "pid": process, "tid": lane, "ts": start, "dur": duration}
        self.rows.append({**row, "args": args})

    def described(self, name: str, elements: int, number: int) -> None:
        self.now += 1
        described = {
            "Collective name": name,
            "dtype": "Byte",
            "In msg nelems": elements,
            "Out msg nelems": 2 * elements,
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
            **({"Seq": number} if self.waits == "numbers" else {}),
        }
        self.row("cpu_op", "record_param_comms", self.now, 0.5, **described)

    def call(self, name: str) -> int:
        """Call CUDA; return the correlation."""
        self.calls += 1
        self.row("cuda_runtime", name, self.now + 0.1, 0.1, correlation=self.calls)
        self.now += 0.5
        return self.calls

    def launch(self, name: str, start: float, duration: float, stream: int) -> None:
        self.row("kernel", name, start, duration, stream, correlation=self.call("cudaLaunchKernel"))

    def gather(self, start: float, duration: float, elements: int) -> int:
        self.gathers += 1
        self.described("_allgather_base", elements, self.gathers)
        self.launch("ncclDevKernel_AllGather_RING_LL", start, duration, 20)
        return self.call("cudaEventRecord") if self.waits == "events" else self.gathers

    def wait(self, pending: int) -> None:
        """Let the compute stream wait for an all-gather; in FSDP2 another stream passes its end on."""
        if self.waits != "events":
            return self.described("wait", 0, pending)
        self.wait_for_event(15, 20, pending)
        return self.wait_for_event(7, 15, self.call("cudaEventRecord"))

    def wait_for_event(self, stream: int, source: int, recorded: int) -> None:
        described = {"wait_on_stream": source, "wait_on_cuda_event_record_corr_id": recorded}
        correlation = self.call("cudaStreamWaitEvent")
        self.row("cuda_sync", "Stream Wait Event", self.now, 0, stream, correlation=correlation, **described)


def prefetching(layers: list[int], elements: int, waits: str, steps: int = 3) -> list[dict[str, Any]]:
    """Each layer computes for its us while the parameters of the next are gathered, which it waits for."""
    host, device = Host(waits), 100.0
    transfer = elements * 8 / RECORDED / 1e3
    for step in range(steps):
        host.now = device - 99.0
        begin = host.now
        pending = host.gather(device, transfer, elements)
        device += transfer
        for number, seconds in enumerate(layers):
            host.wait(pending)
            if number + 1 < len(layers):
                pending = host.gather(device, transfer, elements)
            host.launch("gemm", device, seconds, 7)
            device += max(seconds, transfer) if number + 1 < len(layers) else seconds
        host.row("user_annotation", f"ProfilerStep#{step}", begin - 0.5, device - begin - 1)
        device += 100.0  # the host is idle
    return host.rows


def write_profiles(folder: Path, ranks: Sequence[list[dict[str, Any]]]) -> None:
    """Write the rows of each rank of a job of two as a profile."""
    for rank, rows in enumerate(ranks):
        (folder / f"rank{rank}.json").write_text(json.dumps(profile_of(rank, rows)))


def profile_of(rank: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    info = {"rank": rank, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    return {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": info, "traceEvents": rows}
