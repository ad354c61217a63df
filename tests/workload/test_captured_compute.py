"""Compute of a recorded job: the roofline of the chosen GPU for its operators, or a note says whose times they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture import jsonl
from topoflow.capture.base import Communication, ComputeSpan, OperatorWork, Trace
from topoflow.capture.periods import representative
from topoflow.capture.record.recording import Recording
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic import base
from topoflow.traffic.captured.job import lower_captured
from topoflow.workload.captured import Captured
from topoflow.workload.gpu import Gpu

SLOW = Gpu("slow", {"float32": 10e12, "bfloat16": 100e12}, 1e12, 1e11, 1e10)
FAST = Gpu("fast", {"float32": 40e12, "bfloat16": 400e12}, 2e12, 1e11, 1e10)
MATMUL = OperatorWork("float32", 40e9, 1e9)  # 40 FLOP/B: limited by arithmetic on both
COPY = OperatorWork("", 0.0, 4e9)


def written(folder: Path, *work: OperatorWork, source: str = "recorder (torch 2.13.0, gloo)") -> str:
    """A trace of two ranks that compute 0.7 s on a CPU and reduce 1 kB."""
    reduce = Communication("all_reduce", (0, 1), "float32", 1000, 1000, after=(0,), issue=0.7, start=0.7, end=0.8)
    compute = ComputeSpan("forward", 0.0, 0.7, 0.7, after=(), work=work or None)
    path = folder / "trace.jsonl"
    jsonl.write(Trace("job", 2, 1, dict.fromkeys((0, 1), (compute, reduce)), {}, source), path)
    return str(path)


def computing(path: str, gpu: Gpu, compute: str = "auto") -> float:
    """Seconds of compute of the first server, one rank on each."""
    workload = Captured(path, gpu, compute).build()
    traffic = lower_captured(workload, AsCaptured(1).place(workload, None))
    return sum(task.seconds for task in traffic.tasks if isinstance(task, base.Compute) and task.server == 0)


def test_the_compute_of_recorded_operators_is_the_roofline_of_each_gpu(tmp_path: Path) -> None:
    path = written(tmp_path, MATMUL, COPY)
    assert computing(path, SLOW) == pytest.approx(40e9 / 10e12 + 4e9 / 1e12)  # 4 ms + 4 ms
    assert computing(path, FAST) == pytest.approx(40e9 / 40e12 + 4e9 / 2e12)  # 1 ms + 2 ms
    assert computing(path, SLOW, "recorded") == computing(path, FAST, "recorded") == 0.7


def test_the_answer_says_which_device_its_compute_is_of(tmp_path: Path) -> None:
    def note(
        gpu: Gpu, *work: OperatorWork, compute: str = "auto", source: str = "recorder (torch 2.13.0, gloo)"
    ) -> str:
        return Captured(written(tmp_path, *work, source=source), gpu, compute).build().trace.notes[-1]

    assert "roofline of slow" in note(SLOW, MATMUL)
    assert "roofline of fast" in note(FAST, MATMUL)
    assert "CPU that ran the script, whatever gpu is" in note(FAST)
    assert "CPU that ran the script, whatever gpu is" in note(FAST, MATMUL, compute="recorded")
    assert "device that was recorded, whatever gpu is" in note(FAST, source="Kineto")


@given(seconds=st.lists(st.floats(0.1, 9.0), min_size=1, max_size=6))
def test_the_same_iteration_is_replayed_whosever_compute_it_has(seconds: list[float]) -> None:
    """It is chosen by the recorded times, as an inspection chooses it; on a GPU all of them take the same."""
    events = tuple(
        ComputeSpan("forward", None, None, duration, number, after=(), work=(MATMUL,))
        for number, duration in enumerate(seconds)
    )
    trace = Trace("job", 1, len(seconds), {0: events})
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "trace.jsonl")
        jsonl.write(trace, Path(path))
        numbers = {Captured(path, FAST, compute).build().period.number for compute in ("recorded", "roofline")}
    assert numbers == {representative(trace).number}
    with pytest.raises(ValueError, match=r"chosen: must be within 0\.\.\d, got 6"):
        replace(trace, chosen=6)


def test_a_roofline_needs_operators(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"workload\.compute: must be recorded, as \w+ has no operators"):
        Captured(written(tmp_path), FAST, "roofline").build()
    with pytest.raises(ValueError, match=r"workload\.compute: must be one of auto, recorded, roofline, got 'guessed'"):
        Captured(written(tmp_path), FAST, "guessed")


def test_a_dtype_that_the_gpu_cannot_compute_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="slow has no rate for 'float64'"):
        Captured(written(tmp_path, OperatorWork("float64", 1.0, 1.0)), SLOW).build()


OPERATOR = st.builds(
    lambda flops, moved: OperatorWork("float32" if flops else "", flops, moved),
    st.sampled_from([0.0, 1e6, 3e9]) | st.floats(1, 1e15),
    st.sampled_from([1e3, 1e6]) | st.floats(1, 1e12),
)


@given(operators=st.lists(OPERATOR, max_size=20))
def test_a_span_takes_as_long_as_its_operators_one_by_one(operators: list[OperatorWork]) -> None:
    """Adding operators up by arithmetic intensity loses nothing, on any GPU."""
    rows: list[Any] = []
    recording = Recording(rows.append, clock=lambda: 0, busy=lambda: 0)
    for work in operators:
        recording.work.operator(work)
    recording.pause()
    merged = [OperatorWork(*work) for row in rows for work in row["work"]]
    for gpu in (SLOW, FAST):
        one_by_one = sum(
            max(work.flops / gpu.flops["float32"], work.moved / gpu.memory_bandwidth) for work in operators
        )
        together = sum(max(work.flops / gpu.flops["float32"], work.moved / gpu.memory_bandwidth) for work in merged)
        assert together == pytest.approx(one_by_one)


def test_traces_keep_the_work_of_their_operators(tmp_path: Path) -> None:
    path = Path(written(tmp_path, MATMUL, COPY))
    (compute, _) = jsonl.read(path).ranks[1]
    assert isinstance(compute, ComputeSpan)
    assert compute.work == (MATMUL, COPY)
    path.write_text(path.read_text().replace("40000000000.0", "-1"))
    with pytest.raises(ValueError, match=r"trace.jsonl:2: work: must be dtype, FLOP and bytes, not negative"):
        jsonl.read(path)


def test_measured_rates_of_kernels_are_those_of_their_sizes(tmp_path: Path) -> None:
    h100 = Gpu("H100", {"bfloat16": 989e12}, 3.35e12, 4.5e11, 8e10, efficiency="measured")
    assert h100.measured is not None
    product = OperatorWork("bfloat16", 2.0 * 4096**3, 3 * 2.0 * 4096**2, "matmul", (4096, 4096, 4096))
    reached = h100.measured.reached("matmul", "bfloat16", 4096, 4096, 4096)
    assert computing(written(tmp_path, product), h100) == pytest.approx(product.flops / 989e12 / reached)
    backward = OperatorWork("bfloat16", 1e12, 1.0, "attention_backward", (128, 4096, 32))
    rate = h100.measured.reached("attention", "bfloat16", 128, 4096, 32) * h100.measured.backward["attention"]
    assert computing(written(tmp_path, backward), h100) == pytest.approx(1e12 / 989e12 / rate)
    both = computing(written(tmp_path, product, COPY), h100)
    assert both == pytest.approx(product.flops / 989e12 / reached + 4e9 / 3.35e12 / h100.measured.memory)


def test_measured_rates_need_sizes(tmp_path: Path) -> None:
    h100 = Gpu("H100", {"float32": 67e12}, 3.35e12, 4.5e11, 8e10, efficiency="measured")
    with pytest.raises(ValueError, match=r"^gpu\.efficiency: must be roofline, as job was recorded without the sizes"):
        Captured(written(tmp_path, MATMUL), h100).build()
