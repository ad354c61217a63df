"""Profiles of a job that gathers the parameters of a layer while it computes the one before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECORDED = 100  # Gb/s


class Host:
    """A host that launches kernels and all-gathers of two ranks, and the rows that a profiler writes of them (us)."""

    def __init__(self, numbered: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.numbered, self.now, self.launches, self.gathers = numbered, 0.0, 0, 0

    def row(self, category: str, name: str, start: float, duration: float, lane: int = 1, **args: Any) -> None:
        row = {"ph": "X", "cat": category, "name": name, "pid": lane, "tid": lane, "ts": start, "dur": duration}
        self.rows.append({**row, "args": args})

    def call(self, name: str, elements: int, number: int) -> None:
        self.now += 1
        described = {
            "Collective name": name,
            "dtype": "Byte",
            "In msg nelems": elements,
            "Out msg nelems": 2 * elements,
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
            **({"Seq": number} if self.numbered else {}),
        }
        self.row("cpu_op", "record_param_comms", self.now, 0.5, **described)

    def launch(self, name: str, start: float, duration: float, stream: int) -> None:
        self.launches += 1
        self.row("cuda_runtime", "cudaLaunchKernel", self.now + 0.1, 0.1, correlation=self.launches)
        self.row("kernel", name, start, duration, stream, correlation=self.launches)
        self.now += 0.5

    def gather(self, start: float, duration: float, elements: int) -> int:
        self.gathers += 1
        self.call("_allgather_base", elements, self.gathers)
        self.launch("ncclDevKernel_AllGather_RING_LL", start, duration, 20)
        return self.gathers

    def wait(self, number: int) -> None:
        self.call("wait", 0, number)


def prefetching(layers: list[int], elements: int, numbered: bool, steps: int = 3) -> list[dict[str, Any]]:
    """Each layer computes for its us while the parameters of the next are gathered, which it waits for."""
    host, device = Host(numbered), 100.0
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
        info = {"rank": rank, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
        (folder / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": info, "traceEvents": rows}))
