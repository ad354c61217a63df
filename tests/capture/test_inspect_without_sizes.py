"""Profiles whose collectives have no sizes: an inspection says all that does not depend on sizes.

Laws: sizes change no share of time and no straggler; what is unknown is counted and named, and never becomes 0 bytes;
such a job is not replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topoflow import cli
from topoflow.capture.load import load
from topoflow.capture.summary import Summary, summarize

OPERATORS = ("c10d::allreduce_", "c10d::_allgather_base_", "c10d::alltoall_base_")
SHAPES = {"Input Dims": [[4096], [2048]], "Input type": ["float", "float"], "Concrete Inputs": ["", "", "", "[]", "[]"]}
DIMS = {"c10d::allreduce_": [[4096], []], "c10d::alltoall_base_": [[2048], [2048]]}


def row(category: str, name: str, start: float, duration: float, lane: int, **args: Any) -> dict[str, Any]:
    times = {"ts": start, "dur": duration, "pid": 0 if category == "kernel" else 1, "tid": lane}
    return {"ph": "X", "cat": category, "name": name, **times, "args": args}


def steps(rank: int, *, with_sizes: bool) -> list[dict[str, Any]]:
    """Return three steps of 10 ms: a kernel of 2 ms (rank 1: 3 ms) before each of three collectives.

    A collective runs from the end of the rank's kernel to 1 ms after that of the slower rank.
    """
    rows = []
    for step in range(3):
        begin = 10_000 * step
        rows.append(row("user_annotation", f"ProfilerStep#{step}", begin, 10_000, 1))
        for index, name in enumerate(OPERATORS):
            at, gemm_time = begin + 10 + 3_000 * index, 2_000 + 500 * rank
            for offset, stream, kernel, length in (
                (0, 7, "gemm", gemm_time),
                (5, 9, "ncclDevKernel", 2_900 - gemm_time),
            ):
                correlation = 100 * step + 10 * index + stream
                rows.append(row("cuda_runtime", "cudaLaunchKernel", at + offset + 1, 1, 1, correlation=correlation))
                started = at + 10 if stream == 7 else at + 10 + gemm_time
                rows.append(row("kernel", kernel, started, length, stream, correlation=correlation))
            shapes = {**SHAPES, "Input Dims": DIMS.get(name, SHAPES["Input Dims"])} if with_sizes else {}
            rows.append(row("cpu_op", name, at + 4, 5, 1, **shapes))
    return rows


def write(folder: Path, *, sized: tuple[int, ...], groups: int = 1) -> Path:
    folder.mkdir()
    config = [{"pg_name": str(number), "ranks": [0, 1]} for number in range(groups)]
    for rank in range(2):
        info = {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": config}
        rows = steps(rank, with_sizes=rank in sized)
        (folder / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": info, "traceEvents": rows}))
    return folder


def inspected(folder: Path) -> Summary:
    return summarize(load([folder], sizes_required=False))


def test_sizes_change_no_share_of_time_and_no_straggler(tmp_path: Path) -> None:
    sized = inspected(write(tmp_path / "known", sized=(0, 1)))
    unknown = inspected(write(tmp_path / "unknown", sized=()))
    assert unknown.shares == sized.shares
    assert unknown.stragglers == sized.stragglers == (1,)
    assert unknown.iteration_time == sized.iteration_time
    assert unknown.shares[1].waiting == 0
    assert unknown.shares[0].waiting == pytest.approx(3 * 500 / 10_000, rel=0.02)


def test_unknown_sizes_are_counted_and_never_zero(tmp_path: Path) -> None:
    sized = inspected(write(tmp_path / "known", sized=(0, 1)))
    unknown = inspected(write(tmp_path / "unknown", sized=()))
    assert sized.replayable
    assert not unknown.replayable
    assert {line.op: line.count for line in unknown.collectives} == {line.op: line.count for line in sized.collectives}
    assert {(line.bytes_per_iteration, line.bus_bandwidth) for line in unknown.collectives} == {(None, None)}
    assert any(note.startswith("18 operations record no size") for note in unknown.notes)
    assert None not in {line.bytes_per_iteration for line in sized.collectives}


def test_sizes_of_one_rank_are_kept(tmp_path: Path) -> None:
    summary = inspected(write(tmp_path / "some", sized=(0,)))
    all_known = inspected(write(tmp_path / "known", sized=(0, 1)))
    sizes = {line.op: line.bytes_per_iteration for line in summary.collectives if line.dtype}
    assert sizes == {line.op: line.bytes_per_iteration for line in all_known.collectives}
    assert summary.stragglers == (1,)


def test_operations_of_an_unknown_group_keep_their_time(tmp_path: Path) -> None:
    sized = inspected(write(tmp_path / "known", sized=(0, 1)))
    unknown = inspected(write(tmp_path / "unknown", sized=(), groups=2))
    assert [share.communication for share in unknown.shares] == [share.communication for share in sized.shares]
    assert [share.host_idle for share in unknown.shares] == [share.host_idle for share in sized.shares]
    assert {share.waiting for share in unknown.shares} == {None}
    assert not unknown.replayable
    assert sum(one.count for one in unknown.unsized) == 18
    assert any("18 operations do not name the ranks of their process group" in note for note in unknown.notes)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_job_without_sizes_is_not_imported(groups: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"traceEvents\[\d+\]: .* must (have a size|name its process group), got"):
        load([write(tmp_path / "unknown", sized=(), groups=groups)])


def test_inspect_prints_shares_and_a_dash_for_bandwidths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(write(tmp_path / "job", sized=())), "--out", str(tmp_path / "page")]) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.split()[:1] == ["all_reduce"])
    assert line.split() == ["all_reduce", "2", "-", "1", "-", "-"]
    assert "Straggler: rank 1" in out
    assert "topoflow compare" not in out
    assert "a replay simulates" not in out
    assert (tmp_path / "page" / "inspect.html").is_file()


@pytest.mark.parametrize("job", ["torchrec_2gpu", "hta_single_rank/df_index_resolver_df_index_resolver.json.gz"])
def test_real_profiles_without_sizes_have_shares(job: str, shared_data: Path) -> None:
    summary = inspected(shared_data / job)
    assert not summary.replayable
    for share in summary.shares:
        parts = [part for part in (share.compute, share.exposed, share.host_idle) if part is not None]
        assert sum(parts) == pytest.approx(1, abs=1e-6)


def test_one_group_gives_an_inspection_its_stragglers(unpacked: Callable[[str], Path]) -> None:
    folder = unpacked("dlrm_8gpu/dlrm_kineto.tar.gz") / "dlrm_kineto"
    assert {share.waiting for share in inspected(folder).shares} == {None}
    assert summarize(load([folder], one_group=True, sizes_required=False)).stragglers
