"""NCCL's own log: calls, groups and sizes, from one file of all ranks or one of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from topoflow.capture.base import Trace
from topoflow.capture.load import load

WORLD, PAIR = "0x5f0", "0x7a0"  # addresses; another on each rank


def opened(rank: int, comm: str, place: int, ranks: int, key: str) -> str:
    """Return the line of a communicator as NCCL 2.21 prints it; without ``key`` as 2.14 does."""
    comm_id = f" commId {key}" if key else ""
    description = (
        f"comm {comm}{rank} rank {place} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId 1{rank}000{comm_id}"
    )
    return f"gpu-0:{41 + rank}:{51 + rank} [{rank}] NCCL INFO ncclCommInitRank {description} - Init COMPLETE"


def called(rank: int, function: str, count: int, datatype: int, comm: str, ranks: int, root: int = 0) -> str:
    """Return the line of a call."""
    buffers = f"sendbuff 0x7fb201e00400 recvbuff 0x7fb201e00400 count {count} datatype {datatype} op 0 root {root}"
    prefix = f"gpu-0:{41 + rank}:{41 + rank} [{rank}] NCCL INFO {function}: opCount 1f {buffers}"
    return f"{prefix} comm {comm}{rank} [nranks={ranks}] stream 0x558f83fe3ca0 task 0 globalrank {rank}"


def lines_of(rank: int, shared: bool = True, steps: int = 3) -> list[str]:
    """Return the log of a rank of four, whose steps communicate in pairs (0, 2) and (1, 3), and in all."""
    keys = ("0x9f", f"0xa{rank % 2}") if shared else ("", "")
    lines = [
        f"gpu-0:{41 + rank}:{41 + rank} [{rank}] NCCL INFO cudaDriverVersion 12040",
        opened(rank, WORLD, rank, 4, keys[0]),
        opened(rank, PAIR, rank // 2, 2, keys[1]),
    ]
    for _ in range(steps):
        lines += [
            called(rank, "AllGather", 1000, 9, PAIR, 2),
            "step done, loss 2.31",
            called(rank, "ReduceScatter", 500, 9, PAIR, 2),
            called(rank, "AllReduce", 77, 7, WORLD, 4),
            called(rank, "Send" if rank < 2 else "Recv", 64, 0, PAIR, 2, root=1 - rank // 2),
        ]
    return lines


def check(trace: Trace) -> None:
    """Check that the trace is that of ``lines_of``."""
    assert (trace.world_size, trace.iterations, sorted(trace.ranks)) == (4, 3, [0, 1, 2, 3])
    for rank in trace.ranks:
        pair = (rank % 2, rank % 2 + 2)
        events = [event for event in trace.communications(rank) if event.iteration == 1]
        assert [(event.op, event.group, event.dtype, event.bytes_in, event.bytes_out) for event in events] == [
            ("all_gather", pair, "bfloat16", 2000, 4000),
            ("reduce_scatter", pair, "bfloat16", 2000, 1000),
            ("all_reduce", (0, 1, 2, 3), "float32", 308, 308),
            ("send", pair, "int8", 64, 0) if rank < 2 else ("recv", pair, "int8", 0, 64),
        ]
        assert events[-1].peer == (rank + 2) % 4


@pytest.mark.parametrize("shared", [True, False])
def test_a_log_of_all_ranks_is_their_calls(tmp_path: Path, shared: bool) -> None:
    rows = [line for lines in zip(*(lines_of(rank, shared) for rank in range(4)), strict=True) for line in lines]
    log = tmp_path / "slurm-7.out"
    log.write_text("\n".join(["(RayTrainWorker pid=5) " + row for row in rows]))
    check(load([log]))


def test_logs_of_each_rank_are_the_same_job(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"nccl.gpu-0.{41 + rank}").write_text("\n".join(lines_of(rank)))
    check(load([tmp_path]))


def test_a_torn_line_and_an_unknown_function_are_counted(tmp_path: Path) -> None:
    lines = [line for rank in range(4) for line in lines_of(rank)]
    torn = called(0, "AllReduce", 77, 7, WORLD, 4)[:70] + lines[0]
    log = tmp_path / "log"
    beyond = opened(0, WORLD, 7, 4, "0x9f")  # rank 7 of 4
    log.write_text("\n".join([*lines, torn, beyond, called(1, "AllReduceQuantized", 5, 7, WORLD, 4)]))
    trace = load([log])
    check(trace)
    notes = "\n".join(trace.notes)
    assert "2 lines of NCCL are damaged, and are left out" in notes
    assert "1 operations of other kinds than collectives and messages are left out" in notes


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "3: ", "[2026-11-27 17:00:00] ", '{"log": "'])
def test_what_a_launcher_writes_before_a_message_does_not_matter(tmp_path: Path, prefix: str) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(prefix + line for rank in range(4) for line in lines_of(rank)))
    check(load([log]))


def test_every_whole_message_of_a_line_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    rows = [[line for line in lines if "NCCL" in line] for lines in zip(*map(lines_of, range(4)), strict=True)]
    log.write_text("\n".join("".join(row) for row in rows))
    check(load([log]))


@pytest.mark.parametrize("rest", ["", "later"])
def test_a_message_within_another_is_read_and_the_broken_one_is_counted(tmp_path: Path, rest: str) -> None:
    lines = [line for rank in range(4) for line in lines_of(rank)]
    broken = called(0, "AllReduce", 77, 7, WORLD, 4)
    last = lines.pop()
    log = tmp_path / "log"
    log.write_text("\n".join([*lines, broken[:90] + last + (broken[90:] if rest else "")]))
    trace = load([log])
    check(trace)
    assert "1 lines of NCCL are damaged, and are left out" in trace.notes


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            lambda lines: [line for line in lines if "Init COMPLETE" not in line],
            r"\d+: comm: must be opened by an earlier line",
        ),
        (lambda lines: ["h:7:7 [0] NCCL INFO AllReduce: opCount 0"], "must record a rank of a job, got none"),
        (
            lambda lines: [*lines, called(0, "Broadcast", 1, 7, PAIR, 2, root=2)],
            r"\d+: root: must be within 0\.\.1, got 2",
        ),
    ],
)
def test_what_a_log_lacks_is_one_line(tmp_path: Path, change: Callable[[list[str]], list[str]], rule: str) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(change([line for rank in range(4) for line in lines_of(rank)])))
    with pytest.raises(ValueError, match=f"log: ?{rule}") as raised:
        load([log])
    assert "\n" not in str(raised.value)
