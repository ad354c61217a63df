"""Write what other tools record of a small job: Flight Recorder, NCCL Inspector, NCCL's log and Chakra.

    python examples/write_records.py examples/traces

Two ranks reduce 4,000 B three times on a group of both, and rank 0 sends 16,384 B to rank 1.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from topoflow.capture.formats.chakra import messages

RANKS, STEPS, EPOCH = 2, 3, 1_700_000_000_000_000  # us


def flight_recorder(rank: int) -> dict[str, Any]:
    """A dump of ``TORCH_NCCL_DUMP_ON_TIMEOUT``, without stacks."""
    entries = []
    for step in range(STEPS):
        names = ("nccl:all_reduce", ("nccl:send 0->1", "nccl:recv 1<-0")[rank])
        for number, (name, elements) in enumerate(zip(names, (1000, 4096), strict=True)):
            entries.append(
                {
                    "record_id": 2 * step + number,
                    "pg_id": 0,
                    "process_group": ("0", "default_pg"),
                    "collective_seq_id": step + 1,
                    "p2p_seq_id": step * number,
                    "op_id": 2 * step + number,
                    "profiling_name": name,
                    "time_created_ns": 1000 * (EPOCH + 100 * step + number),
                    "input_sizes": [[elements]],
                    "input_dtypes": ["Float"],
                    "output_sizes": [[elements]],
                    "output_dtypes": ["Float"],
                    "state": "completed",
                    "retired": True,
                    "timeout_ms": 600_000,
                    "is_p2p": number == 1,
                }
            )
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(RANKS)))}}
    return {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": entries}


def inspector(rank: int) -> list[dict[str, Any]]:
    """The lines of a verbose log."""
    lines = []
    for step in range(STEPS):
        at = EPOCH + 100 * step
        kernels = [
            {"channel_id": 0, "kernel_start_ts": at + 10, "kernel_stop_ts": at + 30, "kernel_record_ts": at + 30}
        ]
        call = {"coll": "AllReduce", "coll_sn": step, "coll_msg_size_bytes": 4000, "coll_exec_time_us": 20}
        times = {"coll_start_ts": at, "coll_stop_ts": at + 1, "kernel_events": kernels}
        lines.append({"coll_perf": {**call, "event_trace_ts": times}})
        name, peer = ("Send", "Recv")[rank], 1 - rank
        call = {"p2p": name, "p2p_sn": step, "p2p_peer": peer, "p2p_msg_size_bytes": 16_384, "p2p_exec_time_us": 5}
        times = {"p2p_start_ts": at + 40, "p2p_stop_ts": at + 41, "kernel_events": []}
        lines.append({"p2p_perf": {**call, "event_trace_ts": times}})
    header = {"id": "0x7f8c496ae9f661", "comm_name": "unknown", "rank": rank, "n_ranks": RANKS, "nnodes": RANKS}
    metadata = {"inspector_output_format_version": "v4.0", "hostname": f"s{rank}", "pid": 7, "dump_timestamp_us": EPOCH}
    return [{"header": header, "metadata": metadata, **line} for line in lines]


def nccl_log(rank: int) -> list[str]:
    """The lines of ``NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL NCCL_DEBUG_FILE=nccl-log.%h.%p``."""
    prefix, comm = f"s{rank}:7:7 [0] NCCL INFO", "comm 0x55d0a8"
    opened = f"rank {rank} nranks {RANKS} cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7f8c496ae9f661 - Init COMPLETE"
    lines = [f"{prefix} ncclCommInitRank {comm} {opened}"]
    for step in range(STEPS):
        calls = (("AllReduce", 1000, 0), (("Send", "Recv")[rank], 4096, 1 - rank))
        for function, elements, root in calls:
            buffers = "sendbuff 0x7fb201e00400 recvbuff 0x7fb201e00400"
            call = f"opCount {step:x} {buffers} count {elements} datatype 7 op 0 root {root}"
            lines.append(f"{prefix} {function}: {call} {comm} [nranks={RANKS}] stream 0x558f83")
    return lines


def chakra(rank: int) -> bytes:
    """A graph as ASTRA-sim's generators write it: compute, an all-reduce after it, and a message next to that."""
    node = messages.message_classes()["Node"]
    on_device = messages.attribute("is_cpu_op", "bool", False)
    compute = node(id=0, name="backward", type=messages.COMPUTE, duration_micros=50, attr=[on_device])
    reduced = [messages.attribute("comm_type", "int64", 0), messages.attribute("comm_size", "int64", 4000)]
    reduce = node(id=1, name="reduce", type=messages.COLLECTIVE, data_deps=[0], attr=[on_device, *reduced])
    end = messages.attribute(("comm_dst", "comm_src")[rank], "int32", 1 - rank)
    size = messages.attribute("comm_size", "int64", 16_384)
    kind = (messages.SEND, messages.RECEIVE)[rank]
    message = node(id=2, name="message", type=kind, data_deps=[0], attr=[on_device, end, size])
    head = messages.message_classes()["GlobalMetadata"](version="0.0.4")
    return messages.write([head, compute, reduce, message])


def main(folder: Path) -> None:
    """Write the files of all ranks."""
    for rank in range(RANKS):
        (folder / f"flight_recorder_{rank}").write_bytes(pickle.dumps(flight_recorder(rank), protocol=2))
        lines = (json.dumps(line, separators=(",", ":")) for line in inspector(rank))
        (folder / f"inspector-s{rank}-pid7.log").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"nccl-log.s{rank}.7").write_text("".join(f"{line}\n" for line in nccl_log(rank)))
        (folder / f"chakra.{rank}.et").write_bytes(chakra(rank))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
