"""Readers of captures: each file is imported, inspected and replayed."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from damaged.reader import ROOT, SHARED, TRACES, Files, Reader, content, shared

GPU_RATES: dict[Any, float] = {"float64": 9.7e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}


def use(paths: list[Path]) -> None:
    """Do what ``topoflow capture import``, ``inspect`` and ``compare workload=captured`` do with the files."""
    from topoflow.capture import jsonl
    from topoflow.capture.load import load
    from topoflow.capture.summary import summarize
    from topoflow.engine.bound import Bound
    from topoflow.engine.fluid import Fluid
    from topoflow.engine.lowering.placement import place
    from topoflow.fabric.ideal_switch import IdealSwitch
    from topoflow.strategy.as_captured import AsCaptured
    from topoflow.traffic.captured.job import lower_captured
    from topoflow.workload.captured import Captured
    from topoflow.workload.gpu import Gpu

    trace = load(paths, sizes_required=False)
    summary = summarize(trace)
    json.dumps(summary.as_json(), allow_nan=False)
    written = paths[0].with_name("written.jsonl")
    jsonl.write(trace if summary.replayable else load(paths), written)
    job = Captured(str(written), Gpu("A100", GPU_RATES, 1555e9, 300e9, 40e9)).build()
    strategy = AsCaptured(1).place(job, None)
    traffic = lower_captured(job, strategy)
    world = place(traffic, IdealSwitch(1e9, 1, 1e-6).build(strategy.servers, traffic.demand()), name="job")
    Bound().simulate([world])
    if len(world.graph.delay) < 2000:
        Fluid().simulate([world])


def _kineto(scratch: Path) -> Iterator[Files]:
    from tests.capture.hosts import prefetching, profile_of, write_profiles
    from tests.capture.test_import_damage import shrunk_kineto

    for waits in ("rows", "numbers", "events"):
        write_profiles(scratch, [prefetching([200, 300], 1000, waits, steps=2) for _ in range(2)])
        yield content(*sorted(scratch.glob("rank*.json")))
    yield {"rank0.json": _json(profile_of(0, prefetching([100], 10, "rows", steps=1)))}
    for case in ("negative_duration", "zero_timestamps", "ring_attention_waits", "xpu_profile", "fp8_fnuz"):
        paths = shared(f"field_cases/{case}/*.json")
        if paths and sum(path.stat().st_size for path in paths) < 60_000:
            yield content(*paths)
    megatron = SHARED / "megatron_tp2" / "kineto_rank0.pt.trace.json.gz"
    if megatron.exists():
        yield {"rank0.json": _json(shrunk_kineto(megatron))}


def _execution_trace(scratch: Path) -> Iterator[Files]:
    from tests.capture.test_import_damage import shrunk_execution_trace

    yield {
        f"rank{rank}.json": _json(shrunk_execution_trace(TRACES / f"pytorch_et_rank{rank}.json.gz")) for rank in (0, 1)
    }
    megatron = shared("megatron_tp2/pytorch_et_*.json.gz")
    if megatron:
        yield {f"rank{rank}.json": _json(shrunk_execution_trace(path)) for rank, path in enumerate(megatron)}


def _chakra(scratch: Path) -> Iterator[Files]:
    yield content(TRACES / "chakra.0.et", TRACES / "chakra.1.et")
    if paths := shared("field_cases/chakra_comm_group/*.*"):
        yield content(*paths)
    from tests.traffic.test_captured_as_chakra import mixed, written

    yield content(*sorted(written(mixed(), scratch / "mixed").iterdir()))


def _comm_group(scratch: Path) -> Iterator[Files]:
    yield content(TRACES / "chakra.0.et", TRACES / "chakra.1.et", TRACES / "comm_group.json")
    if paths := shared("field_cases/chakra_comm_group/*.*"):
        yield content(*paths)


def _flight_recorder(scratch: Path) -> Iterator[Files]:
    yield content(TRACES / "flight_recorder_0", TRACES / "flight_recorder_1")
    for case in ("flight_recorder_hang", "flight_recorder_names", "flight_recorder_windows"):
        if paths := shared(f"field_cases/{case}/nccl_trace_rank_*"):
            yield content(*paths)


def _flight_recorder_json(scratch: Path) -> Iterator[Files]:
    from tests.capture.test_import_flight_recorder import as_json, example

    yield {f"nccl_trace_rank_{rank}": as_json(example(rank)) for rank in (0, 1)}


def _inspector(scratch: Path) -> Iterator[Files]:
    from tests.capture.test_import_inspector import lines_of, write

    yield content(TRACES / "inspector-s0-pid7.log", TRACES / "inspector-s1-pid7.log")
    write(scratch, [lines_of(rank) for rank in range(4)])
    yield content(*sorted(scratch.glob("host-pid*.log")))
    if paths := shared("field_cases/inspector_v43/*.log"):
        yield content(*paths)


def _inspector_parquet(scratch: Path) -> Iterator[Files]:
    import pyarrow
    from pyarrow import parquet

    from tests.capture.test_import_inspector import lines_of

    files = {}
    for rank in range(4):
        lines = lines_of(rank)
        rows = [{**line["header"], "comm_type": "mixed", **line["coll_perf"], **line["metadata"]} for line in lines]
        file = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
        files[f"host-pid{rank}.parquet"] = file.getvalue()
    yield files


def _nccl_calls(scratch: Path) -> Iterator[Files]:
    from tests.capture.test_import_nccl import write

    yield content(TRACES / "nccl-rank-0.jsonl", TRACES / "nccl-rank-1.jsonl")
    yield content(*sorted(write(scratch).glob("nccl-rank-*")))


def _nccl_log(scratch: Path) -> Iterator[Files]:
    from tests.capture.test_import_nccl_log import lines_of

    yield content(TRACES / "nccl-log.s0.7", TRACES / "nccl-log.s1.7")
    for is_shared in (True, False):
        yield {"all.log": "\n".join(line for rank in range(4) for line in lines_of(rank, is_shared)).encode()}
    yield {f"rank{rank}.log": "\n".join(lines_of(rank)).encode() for rank in range(4)}


def _recording(scratch: Path) -> Iterator[Files]:
    from tests.capture.recordings import text_of, training

    ending: list[Any] = [{"kind": "later", "event": 1, "end": 9}, {"kind": "ended"}]
    yield {f"rank{rank}.jsonl": text_of([*training(3), *ending], rank).encode() for rank in (0, 1)}
    yield {f"rank{rank}.jsonl": text_of(training(2), rank).encode() for rank in (0, 1)}


def _trace(scratch: Path) -> Iterator[Files]:
    from tests.traffic.test_captured_as_chakra import mixed
    from topoflow.capture import jsonl

    yield {"ddp.jsonl": gzip.decompress((ROOT / "examples" / "ddp_4_ranks.jsonl.gz").read_bytes())}
    jsonl.write(mixed(), scratch / "mixed.jsonl")
    yield content(scratch / "mixed.jsonl")


def _simgrid(scratch: Path) -> Iterator[Files]:
    yield content(TRACES / "simgrid_ring.txt")


def _task_graph(scratch: Path) -> Iterator[Files]:
    yield content(TRACES / "dlrm_4_servers.fbuf")


def _gzip(scratch: Path) -> Iterator[Files]:
    yield content(ROOT / "examples" / "ddp_4_ranks.jsonl.gz")
    yield content(*sorted((TRACES / "h100").iterdir()))
    for files in (*_flight_recorder(scratch), *_recording(scratch)):
        yield {name: gzip.compress(data, 1, mtime=0) for name, data in files.items()}


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


CAPTURES = {
    "kineto": Reader(use, _kineto),
    "execution_trace": Reader(use, _execution_trace),
    "chakra": Reader(use, _chakra),
    "comm_group": Reader(use, _comm_group, whole="*.et"),
    "flight_recorder": Reader(use, _flight_recorder),
    "flight_recorder_json": Reader(use, _flight_recorder_json),
    "inspector": Reader(use, _inspector),
    "inspector_parquet": Reader(use, _inspector_parquet),
    "nccl_calls": Reader(use, _nccl_calls),
    "nccl_log": Reader(use, _nccl_log),
    "recording": Reader(use, _recording),
    "trace": Reader(use, _trace),
    "simgrid": Reader(use, _simgrid),
    "task_graph": Reader(use, _task_graph),
    "gzip": Reader(use, _gzip),
}
