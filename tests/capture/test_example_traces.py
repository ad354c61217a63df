"""Every importer reads a small trace in its real format; how each was recorded is in examples/README.md."""

from __future__ import annotations

import gzip
import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from topoflow.capture.base import ComputeSpan, Trace
from topoflow.capture.load import known_formats, load
from topoflow.capture.merge.parts import InputFile
from topoflow.files import read_bytes

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRACES = {
    "jsonl": [EXAMPLES / "ddp_4_ranks.jsonl.gz"],
    "kineto": [EXAMPLES / "traces" / f"kineto_rank{rank}.json.gz" for rank in (0, 1)],
    "execution_trace": [EXAMPLES / "traces" / f"pytorch_et_rank{rank}.json.gz" for rank in (0, 1)],
    "nccl_log": [EXAMPLES / "traces" / f"nccl-log.s{rank}.7" for rank in (0, 1)],
    "nccl": [EXAMPLES / "traces" / f"nccl-rank-{rank}.jsonl" for rank in (0, 1)],
    "chakra": [EXAMPLES / "traces" / f"chakra.{rank}.et" for rank in (0, 1)],
    "flight_recorder": [EXAMPLES / "traces" / f"flight_recorder_{rank}" for rank in (0, 1)],
    "comm_group": [EXAMPLES / "traces" / "comm_group.json"],
    "inspector": [EXAMPLES / "traces" / f"inspector-s{rank}-pid7.log" for rank in (0, 1)],
    "simgrid": [EXAMPLES / "traces" / "simgrid_ring.txt"],
    "taskgraph": [EXAMPLES / "traces" / "dlrm_4_servers.fbuf"],
}
WIDTH, CLASSES = 512, 10  # of record_formats.py
PARAMETERS = 2 * (WIDTH + 1) * WIDTH + (WIDTH + 1) * CLASSES  # weights and biases


def sent(trace: Trace, rank: int, op: str) -> list[tuple[int | None, int, str]]:
    return [(event.iteration, event.bytes, event.dtype) for event in trace.communications(rank) if event.op == op]


def test_every_format_has_an_example() -> None:
    recorded = {"recording"}  # which any job writes: tests/capture/recordings.py
    assert {*TRACES} == {*known_formats()} - recorded


@pytest.mark.parametrize("name", TRACES)
def test_only_the_importer_of_its_format_takes_a_file(name: str) -> None:
    for path in TRACES[name]:
        source = InputFile(str(path), read_bytes(path))
        assert [format_name for format_name, module in known_formats().items() if module.matches(source)] == [name]


@pytest.mark.parametrize("name", TRACES)
def test_a_damaged_file_is_one_line(name: str, tmp_path: Path) -> None:
    path = TRACES[name][0]
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    (tmp_path / path.name.removesuffix(".gz")).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError) as error:  # noqa: PT011 - each format says what is missing in its own words
        load([tmp_path / path.name.removesuffix(".gz")])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["kineto", "execution_trace"])
def test_every_gradient_is_reduced_once_in_every_step(name: str) -> None:
    trace = load(TRACES[name])
    assert (trace.world_size, trace.iterations, sorted(trace.ranks)) == (2, 2, [0, 1])
    for rank in trace.ranks:
        reduced = Counter[int | None]()
        for iteration, size, dtype in sent(trace, rank, "all_reduce"):
            assert dtype == "float32"
            reduced[iteration] += size
        assert reduced == {0: 4 * PARAMETERS, 1: 4 * PARAMETERS}


def test_the_profiler_plugins_trace_has_the_events_it_was_given() -> None:
    trace = load(TRACES["nccl"])
    assert (trace.world_size, trace.iterations) == (2, 2)
    for rank in trace.ranks:
        assert sent(trace, rank, "all_reduce") == [(0, 4000, "float32"), (1, 4000, "float32")]
    assert sent(trace, 0, "send") == sent(trace, 1, "recv") == [(0, 128, "bfloat16"), (1, 128, "bfloat16")]


def test_a_log_of_nccl_has_the_calls_that_were_written() -> None:
    trace = load(TRACES["nccl_log"])
    assert (trace.world_size, trace.iterations) == (2, 3)
    for rank in trace.ranks:
        assert sent(trace, rank, "all_reduce") == [(step, 4000, "float32") for step in range(3)]
    assert sent(trace, 0, "send") == sent(trace, 1, "recv") == [(step, 16_384, "float32") for step in range(3)]


def test_real_nccl_ran_the_ring_orders_that_it_was_given() -> None:
    """Three times an all-reduce of 4 MiB, one of 1,500,001 numbers, and one that is too small to be spread."""
    trace = load(sorted((EXAMPLES / "traces" / "h100").iterdir()))
    assert (trace.world_size, trace.iterations, sorted(trace.ranks)) == (5, 3, [0, 1, 2, 3, 4])
    stride_1, stride_2 = (0, 1, 2, 3, 4), (0, 2, 4, 1, 3)
    for rank in trace.ranks:
        carried = Counter[tuple[int | None, tuple[int, ...] | None]]()
        for event in trace.communications(rank):
            carried[event.iteration, event.group] += event.bytes
        for iteration in range(3):
            assert carried[iteration, stride_2] == 2**21 + 3_000_068
            assert carried[iteration, stride_1] == 2**21 + 4 * 1_500_001 - 3_000_068 + 4 * 4096


def test_a_profile_over_gloo_has_the_dtypes_that_its_threads_wrote() -> None:
    trace = load(TRACES["kineto"])
    assert sent(trace, 0, "broadcast")  # DDP's new order of buckets, after the first step
    assert {dtype for rank in trace.ranks for _, _, dtype in sent(trace, rank, "broadcast")} == {"int32"}


def test_a_task_graph_has_the_tasks_of_the_traffic_that_it_was_written_from() -> None:
    script = module(EXAMPLES / "write_task_graph.py")
    traffic, trace = script.iteration(), load(TRACES["taskgraph"])
    assert TRACES["taskgraph"][0].read_bytes() == script.task_graph(traffic)
    assert trace.world_size == traffic.servers
    busy, sends = Counter[int](), Counter[tuple[int, int]]()
    for task in traffic.tasks:
        if isinstance(task, script.Compute):
            busy[task.server] += task.seconds
        elif isinstance(task, script.Transfer):
            sends[task.source, task.target] += task.bytes
    for rank, events in trace.ranks.items():
        assert sum(e.seconds for e in events if isinstance(e, ComputeSpan)) == pytest.approx(busy[rank], rel=1e-6)
        received = Counter[int]()
        for event in trace.communications(rank):
            if event.op == "send":
                received[event.peer] += event.bytes
        assert received == {target: size for (source, target), size in sends.items() if source == rank}
    reduced = [task.bytes for task in traffic.tasks if isinstance(task, script.Collective)]
    assert [size for _, size, _ in sent(trace, 0, "all_reduce")] == reduced


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
