"""What a comparison says of a recorded job: how long it took, what is assumed, and what nobody recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.capture.base import Communication, ComputeSpan, OperatorWork, Trace
from topoflow.capture.jsonl import write
from topoflow.capture.merge import NO_COMPUTE
from topoflow.cli import main

pytestmark = pytest.mark.usefixtures("without_pixels")


def job(size: int = 0, unsized: float = 0.0) -> Trace:
    """Two ranks that compute 2 s, communicate without a size, and all-reduce; a first iteration of 31 s."""

    def iteration(number: int, start: float, length: float) -> tuple[ComputeSpan | Communication, ...]:
        end = start + length
        reduced = Communication("all_reduce", (0, 1), "int8", size, size, number, start=end - 0.5, end=end)
        dispatch = ComputeSpan("deep_ep::dispatch", end - 0.5 - unsized, end - 0.5, unsized, number, communicates=True)
        first = (ComputeSpan("f", start, end - 0.5 - unsized, 2.0, number),)
        return (*first, *([dispatch] if unsized else []), *([reduced] if size else []))

    events = (*iteration(0, 0.0, 31.0), *iteration(1, 31.0, 6.0), *iteration(2, 37.0, 6.0))
    return Trace("toy", 2, 3, {0: events, 1: events}, notes=("3 rows are no collectives",))


def compared(trace: Trace, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str, str]:
    """``result.json``, what was printed, and the page."""
    write(trace, folder / "toy.jsonl.gz")
    keys = ["workload=captured", f"workload.trace={folder / 'toy.jsonl.gz'}", "fabric=ring,ideal_switch"]
    assert main(["compare", *keys, f"out={folder / 'out'}"]) == 0
    result: dict[str, Any] = json.loads((folder / "out" / "result.json").read_text())
    return result, " ".join(capsys.readouterr().out.split()), (folder / "out" / "report.html").read_text()


def simulated(trace: Trace, folder: Path) -> tuple[topoflow.Results, str]:
    """The same without files: results, and what would be printed."""
    write(trace, folder / "toy.jsonl.gz")
    trace_key = f"workload.trace={folder / 'toy.jsonl.gz'}"
    results = topoflow.compare("workload=captured", trace_key, fabric=["ring", "ideal_switch"])
    return results, " ".join(repr(results).split())


def test_what_is_assumed_and_how_long_it_took_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded_job = job(size=1000)
    result, printed, page = compared(replace(recorded_job, ranks={1: recorded_job.ranks[1]}), tmp_path, capsys)
    assert {row["recorded_time"] for row in result["rows"]} == {6.0}
    for note in (
        "captured on 2 servers: iteration 1 (of 3, the first is 0) is replayed, which took 6 s when it was recorded",
        "captured on 2 servers: 1 of 2 ranks were not recorded: they do as rank 1 did, "
        "so it waits for none that is slower, and an iteration takes at least what is said",
        "captured on 2 servers: 3 rows are no collectives",
    ):
        assert note in result["notes"]
        assert note in printed
        assert note in page
    assert "recorded" in page


def test_inspect_says_the_same_as_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, printed = simulated(job(size=1000), tmp_path)
    assert main(["inspect", str(tmp_path / "toy.jsonl.gz"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["iteration_time"] == results[0].row.recorded_time
    assert [line["bytes_per_iteration"] for line in summary["collectives"]] == [1000]
    assert summary["notes"]
    assert all(f"captured on 2 servers: {note}" in printed for note in summary["notes"])


@pytest.mark.parametrize("size", [0, 1000])
def test_the_network_is_not_said_to_be_unimportant_where_communication_has_no_size(size: int, tmp_path: Path) -> None:
    results, printed = simulated(job(size, unsized=3.0), tmp_path)
    assert "any network, as nothing goes between servers" not in printed
    assert "Communication of 3 s per step has no recorded size" in printed
    assert "6 kernels deep_ep::dispatch communicate, seen but not sized: 18 s over all ranks" in printed
    for result in results:  # its time is kept, and is no compute; gaps are of the host, one more without an all-reduce
        assert result.row.iteration_time >= 5.5
        assert (result.row.compute_time, result.row.host_time) == pytest.approx((2.0, 0.5 if size else 1.0))


def test_a_job_that_sends_nothing_says_so(tmp_path: Path) -> None:
    assert "on any network, as nothing goes between servers" in simulated(job(), tmp_path)[1]


def test_compute_that_nobody_recorded_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded_job = job(size=1000)
    reduces = {
        rank: tuple(e for e in events if isinstance(e, Communication)) for rank, events in recorded_job.ranks.items()
    }
    result, printed, page = compared(replace(recorded_job, ranks=reduces), tmp_path, capsys)
    assert {(row["compute_time"], row["network_time"]) for row in result["rows"]} == {(None, None)}
    assert sum(NO_COMPUTE in note for note in result["notes"]) == 1
    assert NO_COMPUTE in printed
    assert NO_COMPUTE in page


def test_a_cpu_recording_takes_as_long_as_the_chosen_gpu_or_says_that_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H100 and A100 as of configs/gpu: 1e12 FLOP at 67 and 19.5 TFLOP/s."""
    reduce = Communication("all_reduce", (0, 1), "float32", 1000, 1000, after=(0,))
    for work, times in (((OperatorWork("float32", 1e12, 1e9),), [1e12 / 67e12, 1e12 / 19.5e12]), (None, [0.7, 0.7])):
        events = (ComputeSpan("forward", 0.0, 0.7, 0.7, after=(), work=work), reduce)
        write(Trace("toy", 2, 1, {0: events, 1: events}, source="recorder (torch)"), tmp_path / "toy.jsonl.gz")
        keys = ["workload=captured", f"workload.trace={tmp_path / 'toy.jsonl.gz'}", "fabric=ring", "gpu=h100,a100"]
        assert main(["compare", *keys, f"out={tmp_path / str(work is None)}"]) == 0
        rows = json.loads((tmp_path / str(work is None) / "result.json").read_text())["rows"]
        assert sorted(row["compute_time"] for row in rows) == pytest.approx(times)
        printed = " ".join(capsys.readouterr().out.split())
        expected = (
            "compute is that of the CPU that ran the script" if work is None else "compute is the roofline of A100"
        )
        assert expected in printed
