"""Real NCCL on one GPU: several processes, each with its own NCCL_HOSTID, so that NCCL sees as many servers.

``python nccl_on_one_gpu.py LIBRARIES OUT [RANKS] [STRIDES]`` runs all-reduces with the ring orders preloaded and the
profiler and the tuner plugged in (from the folder LIBRARIES), leaves traces and NCCL's log in OUT, and prints what was
found as JSON. It exits with 0 if all sums are right and NCCL's own proxy operations send to the peers that the strides
name, in equal shares. One rank per GPU is what NCCL supports; several, distinguished by NCCL_HOSTID, are an emulation.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

THRESHOLD = 1 << 20  # B
COUNTS = (1 << 20, 1_500_001, 4096)  # float32 elements; the last is below the threshold


def environment(libraries: Path, out: Path, rank: int, ranks: int, strides: str, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NCCL_HOSTID": f"server-{rank}",  # of its own: NCCL refuses two ranks of one host on one GPU
        "NCCL_IB_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_MAX_CTAS": "2",  # the kernels of all processes share one GPU
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_FILE": str(out / f"nccl-{rank}.log"),
        "NCCL_PROFILER_PLUGIN": str(libraries / "libnccl-profiler-topoflow.so"),
        "NCCL_TUNER_PLUGIN": str(libraries / "libnccl-tuner-topoflow.so"),
        "TOPOFLOW_NCCL_TRACE": str(out),
        "TOPOFLOW_NCCL_RINGS": strides,
        "TOPOFLOW_NCCL_THRESHOLD": str(THRESHOLD),
        "LD_PRELOAD": str(libraries / "libtopoflow_nccl.so"),
    }


def work() -> None:
    """One rank: sums of integers, which float32 holds exactly, plain and replayed from a CUDA graph."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def check(tensor: torch.Tensor, name: str) -> None:
        expected = torch.arange(tensor.numel(), device="cuda") % 101 * (ranks * (ranks + 1) // 2)
        wrong = int((tensor.long() != expected).sum())
        assert wrong == 0, f"{name}: {wrong} of {tensor.numel()} sums are wrong on rank {rank}"

    def fresh(count: int) -> torch.Tensor:
        return (torch.arange(count, device="cuda") % 101 * (rank + 1)).float()

    for repeat in range(3):
        for count in COUNTS:
            tensor = fresh(count)
            start = time.perf_counter()
            dist.all_reduce(tensor)
            torch.cuda.synchronize()
            print(f"rank {rank} all_reduce {count} {time.perf_counter() - start:.3f} s", file=sys.stderr)
            check(tensor, f"all_reduce of {count}, {repeat}")
    static = fresh(COUNTS[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(static)
    for repeat in range(2):
        static.copy_(fresh(COUNTS[0]))
        graph.replay()
        torch.cuda.synchronize()
        check(static, f"replay {repeat}")
    del graph  # NCCL's end of a communicator waits for the graphs that hold it (commDestroySync in its init.cc)
    dist.destroy_process_group()
    print("sums are right")


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def read_trace(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def sent_by_offset(traces: list[list[dict[str, Any]]]) -> tuple[Counter[int], Counter[str]]:
    """Bytes that proxies sent for large all-reduces, by the receiver's rank less the sender's; algorithms of these."""
    rank_of: dict[tuple[str, int], int] = {}
    for job_rank, events in enumerate(traces):
        rank_of |= {(e["hash"], e["rank"]): job_rank for e in events if e["event"] == "comm"}
    offsets: Counter[int] = Counter()
    algorithms: Counter[str] = Counter()
    for job_rank, events in enumerate(traces):
        hashes = {e["comm"]: e["hash"] for e in events if e["event"] == "comm"}
        calls = [e for e in events if e["event"] == "coll" and e["function"] == "AllReduce" and e["count"] > 100_000]
        large = {e["id"] for e in calls}
        algorithms.update(e["algorithm"] for e in calls)
        for e in events:
            if e["event"] == "proxy" and e["send"] and e.get("parent") in large:
                peer = rank_of[hashes[e["comm"]], e["peer"]]
                offsets[(peer - job_rank) % len(traces)] += e["bytes"]
    return offsets, algorithms


def main(libraries: Path, out: Path, ranks: int, strides: str) -> int:
    out.mkdir(parents=True, exist_ok=True)
    port = free_port()
    start = time.perf_counter()
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "work"],
            env=environment(libraries, out, rank, ranks, strides, port),
            stdout=(out / f"out-{rank}.txt").open("w"),
            stderr=subprocess.STDOUT,
        )
        for rank in range(ranks)
    ]
    deadline = time.monotonic() + 240
    for process in processes:
        try:
            process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    codes = [process.wait() for process in processes]
    summary: dict[str, Any] = {"exit": codes, "seconds": round(time.perf_counter() - start, 1)}
    summary["output"] = [(out / f"out-{rank}.txt").read_text()[-1500:] for rank in range(ranks) if codes[rank]]
    traces = [out / f"nccl-rank-{rank}.jsonl" for rank in range(ranks)]
    named = False
    if all(path.exists() for path in traces):
        offsets, algorithms = sent_by_offset([read_trace(path) for path in traces])
        expected = {int(stride) % ranks for stride in strides.split(",")}
        equal = sum(offsets.values()) / len(expected)
        named = set(offsets) == expected and all(abs(sent - equal) < 0.02 * equal for sent in offsets.values())
        summary |= {"bytes_by_offset": dict(offsets), "algorithms": dict(algorithms), "strides_are_the_peers": named}
    print(json.dumps(summary, indent=1))
    return 0 if named and not any(codes) else 1


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        libraries, out = (Path(argument).resolve() for argument in sys.argv[1:3])
        ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 5
        sys.exit(main(libraries, out, ranks, sys.argv[4] if len(sys.argv) > 4 else "1,2"))
