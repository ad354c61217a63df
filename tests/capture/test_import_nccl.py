"""The trace of NCCL's profiler plugin: groups in the order of their communicator, from the files of all ranks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.base import Communication
from topoflow.capture.load import load
from topoflow.capture.merge.windows import CUT

ORDERS = ((0, 1, 2, 3, 4), (0, 2, 4, 1, 3))  # ranks of two communicators, as rings of stride 1 and 2
EPOCH = 1_700_000_000_000_000_000


def lines_of(rank: int, iterations: int = 3) -> list[dict[str, Any]]:
    """What the plugin writes for a rank of 5: per iteration an all-reduce of 4,000 B on each ring, and a message."""
    started: dict[str, Any] = {"event": "start", "format": "topoflow-nccl", "version": 1, "process": 7, "time": EPOCH}
    lines = [started | {"rank": rank, "ranks": 5, "host": "h"}]
    for number, order in enumerate(ORDERS, start=1):
        comm = {"event": "comm", "id": 0, "start": EPOCH, "comm": number, "hash": f"{number:016x}", "nodes": 5}
        lines.append(comm | {"ranks": 5, "rank": order.index(rank), "name": ""})
    for step in range(iterations):
        for number in (1, 2):
            at = EPOCH + 1000 * (10 * step + number)
            call = {"event": "coll", "id": at, "start": at, "comm": number, "sequence": step, "count": 1000, "root": 0}
            how = {"function": "AllReduce", "type": "ncclFloat32", "algorithm": "RING", "protocol": "SIMPLE"}
            lines.append(call | {"channels": 2} | how)
            lines.append({"event": "queued", "id": at, "start": at + 1})
            for late in (3, 2):
                child = {"event": "proxy", "id": at + late, "start": at + 10 * late, "stop": at + 100 * late}
                transfer = {"peer": 1, "send": True, "channel": 0, "steps": 1, "chunk": 1, "bytes": 800}
                lines.append(child | {"comm": number, "parent": at} | transfer)
        if rank in (1, 3):
            at = EPOCH + 1000 * (10 * step + 5)
            message = {"event": "p2p", "id": at, "start": at, "comm": 2, "sequence": 0, "count": 16, "channels": 1}
            function, peer = ("Send", ORDERS[1].index(3)) if rank == 1 else ("Recv", ORDERS[1].index(1))
            lines.append(message | {"function": function, "type": "ncclBfloat16", "peer": peer})
    return lines


def write(folder: Path, changed: dict[int, list[dict[str, Any]]] | None = None, ranks: int = 5) -> Path:
    for rank in range(ranks):
        lines = (changed or {}).get(rank, lines_of(rank))
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / f"nccl-rank-{rank}.jsonl").write_text(text)
    return folder


def test_groups_are_in_ring_order_and_sizes_are_nccls(tmp_path: Path) -> None:
    trace = load([write(tmp_path)])
    assert (trace.world_size, trace.iterations) == (5, 3)
    for rank, events in trace.ranks.items():
        reduced = [e for e in events if isinstance(e, Communication) and e.op == "all_reduce"]
        assert [e.group for e in reduced] == [*ORDERS] * 3
        assert {(e.bytes_in, e.bytes_out, e.dtype) for e in reduced} == {(4000, 4000, "float32")}
        assert [e.iteration for e in reduced] == [0, 0, 1, 1, 2, 2]
        first = reduced[0]
        assert first.start is not None
        assert first.end is not None
        assert first.end - first.start == pytest.approx(280e-9), "from the first transfer to the end of the last"
        sent = [(e.op, e.peer, e.bytes) for e in events if isinstance(e, Communication) and e.peer is not None]
        assert sent == {1: [("send", 3, 32)] * 3, 3: [("recv", 1, 32)] * 3}.get(rank, [])


def test_what_is_lost_and_cut_is_counted(tmp_path: Path) -> None:
    lines = [*lines_of(2), {"event": "lost", "records": 12}]
    path = write(tmp_path, {2: lines}) / "nccl-rank-2.jsonl"
    path.write_text(path.read_text() + '{"event":"proxy","id":12')
    notes = " ".join(load([tmp_path]).notes)
    assert "12 records did not fit" in notes
    assert "1 lines are cut" in notes


@pytest.mark.parametrize("seed", range(40))
def test_logs_of_a_job_that_was_killed_are_cut_to_their_common_iterations(seed: int, tmp_path: Path) -> None:
    """Each file ends somewhere in the last iterations, as writing threads are not in step."""
    draw = random.Random(seed)
    write(tmp_path, {rank: lines_of(rank, iterations=12) for rank in range(5)})
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - draw.randrange(len(data) // 4)])
    trace = load([tmp_path])
    assert trace.iterations >= 7
    for rank, events in trace.ranks.items():
        for iteration in range(trace.iterations):
            of_it = [event for event in events if event.iteration == iteration]
            assert [event.group for event in of_it if event.op == "all_reduce"] == [*ORDERS]
            assert len(of_it) == 2 + (rank in (1, 3))


def changed(kind: str, **values: Any) -> list[dict[str, Any]]:
    """The lines of rank 0, of which the first of ``kind`` has other values; None drops one."""
    lines = lines_of(0)
    at = next(number for number, line in enumerate(lines) if line["event"] == kind)
    replaced = {name: value for name, value in (lines[at] | values).items() if value is not None}
    return [*lines[:at], replaced, *lines[at + 1 :]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (changed("start", version=2), "nccl-rank-0.jsonl:1: version: must be 1, got 2"),
        (changed("start", rank=None), "rank: must be given: the launcher"),
        (changed("comm", rank=5), "nccl-rank-0.jsonl:2: rank: must be a whole number within 0..4, got 5"),
        (changed("coll", comm=9), "nccl-rank-0.jsonl:4: comm: must be one that an earlier line opened"),
        (changed("coll", count=-1), "nccl-rank-0.jsonl:4: count: must be a whole number"),
        (changed("comm", hash="other"), "all ranks of communicator other must have a file, got those of 1 of 5"),
        (changed("comm", rank=1), "all ranks of communicator 0000000000000001 must have a file"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, lines: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load([write(tmp_path, {0: lines})])
    assert message in str(error.value)


def test_a_log_that_was_cut_in_its_first_line_says_so(tmp_path: Path) -> None:
    path = write(tmp_path) / "nccl-rank-0.jsonl"
    path.write_text(path.read_text().partition("\n")[0])
    with pytest.raises(ValueError, match=r"nccl-rank-0\.jsonl:1: must be a whole line, got one without its end"):
        load([path])


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must have a file, got those of 4 of 5"):
        load([write(tmp_path, ranks=4)])


def test_ranks_that_were_killed_are_cut_to_the_iterations_that_all_recorded(tmp_path: Path) -> None:
    """Each file ends at another line, or within one, as kill -9 leaves it."""
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    iterations = 12
    complete_lines = {rank: lines_of(rank, iterations) for rank in range(5)}
    (tmp_path / "whole").mkdir()
    complete = load([write(tmp_path / "whole", complete_lines)])
    for case in range(40):
        cut = {rank: lines[: draw.randint(len(lines) // 2, len(lines))] for rank, lines in complete_lines.items()}
        folder = tmp_path / str(case)
        folder.mkdir()
        write(folder, cut)
        with (folder / "nccl-rank-2.jsonl").open("a") as file:
            file.write(draw.choice(("", '{"event":"coll","id":12')))
        calls = {rank: sum(line["event"] in ("coll", "p2p") for line in lines) for rank, lines in cut.items()}
        common = min(number // (3 if rank in (1, 3) else 2) for rank, number in calls.items())
        trace = load([folder])
        assert trace.iterations == common, f"seed {seed}, case {case}: {calls}"
        left_out = sum(calls.values()) - common * 12
        assert (f"{left_out} {CUT}" in " ".join(trace.notes)) == (left_out > 0)
        for rank, events in trace.ranks.items():
            expected = [event for event in complete.ranks[rank] if event.iteration < common]
            assert [(e.op, e.iteration) for e in events] == [(e.op, e.iteration) for e in expected]


def test_communicators_of_unknown_size_need_the_files_of_all_ranks(tmp_path: Path) -> None:
    """NCCL before 2.27 does not say how many ranks a communicator has."""

    def without_sizes(rank: int) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in line.items() if line["event"] != "comm" or name not in ("ranks", "nodes")}
            for line in lines_of(rank)
        ]

    trace = load([write(tmp_path)])
    assert load([write(tmp_path, {rank: without_sizes(rank) for rank in range(5)})]).ranks == trace.ranks
    (tmp_path / "nccl-rank-4.jsonl").unlink()
    with pytest.raises(ValueError, match="all ranks of the job must have a file") as error:
        load([tmp_path])
    assert "got those of 4" in str(error.value)
