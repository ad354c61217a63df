"""SimGrid's time-independent traces: what MPI jobs do, on any network."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import topoflow
from topoflow.capture.base import Communication, ComputeSpan
from topoflow.capture.load import load
from topoflow.cli import main

RING = Path(__file__).resolve().parents[2] / "examples" / "traces" / "simgrid_ring.txt"


def trace_of(folder: Path, *lines: str, name: str = "trace.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_ring_is_read_line_by_line() -> None:
    trace = load([RING])
    assert trace.world_size == 4
    first, *messages, second, reduce, flops, exchange = trace.ranks[1]
    assert isinstance(first, ComputeSpan)
    assert first.work is not None
    assert first.work[0].flops == 2e9
    assert [
        (message.op, message.peer, message.tag, message.bytes)
        for message in messages
        if isinstance(message, Communication)
    ] == [
        ("recv", 0, 1, 64_000),  # 8,000 doubles
        ("recv", 2, 2, 64_000),
        ("send", 2, 1, 64_000),
        ("send", 0, 2, 64_000),
    ]
    assert all(message.after == (0,) for message in messages)
    assert second.after == (0,), "computes while messages are under way"
    assert isinstance(reduce, Communication)
    assert (reduce.op, reduce.bytes, sorted(reduce.after or ())) == ("all_reduce", 8000, [1, 2, 3, 4, 5])
    assert isinstance(exchange, Communication)
    assert (exchange.op, exchange.bytes_in, exchange.dtype) == ("all_to_all", 4 * 500, "uint8")
    assert flops.after == (6,)


def test_what_blocks_is_waited_for(tmp_path: Path) -> None:
    """A send of 64 KiB or more blocks, as in SMPI; a shorter one does not, and neither does a receive that is open."""
    path = trace_of(
        *(tmp_path, "0 init", "1 init"),
        *("0 send 1 0 65535", "0 compute 1", "0 send 1 1 65536", "0 compute 1", "0 recv 1 2 8", "0 compute 1"),
        *("1 recv 0 0 65535", "1 irecv 0 1 65536", "1 compute 1", "1 wait 0 1 1", "1 compute 1", "1 send 0 2 8"),
    )
    ranks = load([path]).ranks
    assert [event.after for event in ranks[0]] == [(), (), (1,), (2,), (3,), (3, 4)]
    assert [event.after for event in ranks[1]] == [(), (0,), (0,), (2, 1), (3,)]


def test_many_messages_are_joined(tmp_path: Path) -> None:
    count = 200
    sends = [f"0 isend 1 {tag} 8" for tag in range(count)] + ["0 waitall", "0 compute 1"]
    path = trace_of(tmp_path, *sends, *(f"1 recv 0 {tag} 8" for tag in range(count)), "1 compute 1")
    for events in load([path]).ranks.values():
        assert max(len(event.after or ()) for event in events) <= 17
        waited, todo = set(), [len(events) - 1]
        while todo:
            waited.add(event := todo.pop())
            todo += [earlier for earlier in events[event].after or () if earlier not in waited]
        assert waited == set(range(len(events)))


@pytest.mark.parametrize(
    ("more", "element"),
    [("", 8), ("6", 1), ("6 6", 1), ("0 3 6", 8), ("6 0 3 6", 1)],
    ids=["default", "type", "types", "displacements", "both"],
)
def test_an_uneven_all_gather_may_say_its_type(more: str, element: int, tmp_path: Path) -> None:
    """A rank gathers three of 10, 20 and 30 elements; displacements are no types."""
    sent = (10, 20, 30)
    lines = [f"{rank} init 1" for rank in range(3)]
    lines += [f"{rank} allgatherv {sent[rank]} 10 20 30 {more}" for rank in range(3)]
    (event,) = load([trace_of(tmp_path, *lines)]).communications(1)
    assert (event.op, event.bytes_in, event.bytes_out) == ("all_gather", 20 * element, 60 * element)


@pytest.mark.parametrize("fabric", ["fosquare", "sirius"])
def test_a_trace_runs_on_networks_of_slots(fabric: str) -> None:
    keys = {"workload.trace": str(RING), "fidelity": "slotted"}
    (result,) = topoflow.compare(workload="captured", fabric=fabric, gpu="a100", **keys)
    assert result.timeline.slots is not None
    assert result.timeline.slots.received == pytest.approx(result.world.graph.bytes.sum())
    assert result.iteration_time > 3e9 / 9.7e12  # 3 GFLOP at an A100's rate of doubles


def test_a_file_may_name_those_of_the_ranks(tmp_path: Path) -> None:
    text = RING.read_text().splitlines()
    (tmp_path / "ranks").mkdir()
    for rank in range(4):
        trace_of(tmp_path / "ranks", *(line for line in text if line.startswith(f"{rank} ")), name=f"{rank}.txt")
    names = trace_of(tmp_path, *(f"ranks/{rank}.txt" for rank in range(4)), name="names")
    assert load([names]).ranks == load([RING]).ranks


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0 init", "1 init", "0 init"], "trace.txt:3: must be of different ranks, got rank 0 twice"),
        (["0 init", "1 init", "0 jump 3"], "trace.txt:3: action must be one of init, finalize, "),
        (["0 init", "x compute 3"], "trace.txt:2: must be a rank and an action, got 'x compute 3'"),
        (["0 init", "1 init", "0 compute x"], "trace.txt:3: compute must have a number of at least 0 as argument 1"),
        (["0 init", "1 init", "0 send 1"], "trace.txt:3: send must have at least 2 arguments, got '1'"),
        (["0 init", "1 init", "0 send 1 0 8 77"], "trace.txt:3: send must have a type of 0, 1, "),
        (["0 init", "1 init", "0 send 5 0 8"], "trace.txt:3: "),
        (["0 init", "0 alltoall 1 1"], "trace.txt:2: alltoall must be in a file of all ranks, one of those"),
        (["0 init", "2 init", "0 barrier"], "trace.txt: rank must be within 0..1, got 2"),
    ],
)
def test_what_is_wrong_is_one_line(
    lines: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_of(tmp_path, *lines)
    assert main(["compare", "workload=captured", f"workload.trace={path}", "fabric=ring"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_two_files_of_one_rank_and_servers_for_other_ranks_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [trace_of(tmp_path, "0 init", "0 compute 1", name=name) for name in ("a", "b")]
    with pytest.raises(ValueError, match="must be of different ranks, got rank 0 twice"):
        load(files)
    arguments = ["workload=captured", f"workload.trace={RING}", "fabric=fosquare", "servers=3"]
    assert main(["compare", *arguments]) == 2
    assert "the trace has 4 ranks, 1 per server, so 4 servers, got 3" in capsys.readouterr().err
    assert main(["compare", *arguments[:3], "workload.compute=recorded"]) == 2
    assert "workload.compute: must be roofline, as simgrid_ring has no times" in capsys.readouterr().err


def test_the_traces_of_simgrid_are_read(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "mpi_simgrid_ti_32" / "replay_small_actions.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "examples" / "smpi" / "replay"
    traces = {path.name: load([path]) for path in [*folder.glob("actions_*.txt"), folder / "split_traces"]}
    assert len(traces) == 12
    assert {name: trace.world_size for name, trace in traces.items() if trace.world_size != 3} == {
        **dict.fromkeys(("actions_allgatherv.txt", "actions_gather.txt", "actions_reducescatter.txt"), 4),
        "split_traces": 2,
    }
    exchange = next(traces["actions_alltoallv.txt"].communications(1))
    assert exchange.splits_in == (80, 1, 40)


ROWS = {
    "alltoall": "100 100",
    "alltoallv": "60 20 20 20 60 20 20 20",
    "allgatherv": "10 10 20 30",
    "reducescatter": "10 20 30 0",
}


@pytest.mark.parametrize("action", ROWS)
def test_a_folder_of_files_of_ranks_says_the_same_as_a_file_of_all(action: str, tmp_path: Path) -> None:
    lines = {rank: [f"{rank} init", f"{rank} {action} {ROWS[action]}", f"{rank} finalize"] for rank in range(3)}
    from_one_file = load([trace_of(tmp_path, *(line for rank_lines in lines.values() for line in rank_lines))])
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank, rank_lines in lines.items():
        trace_of(folder, *rank_lines, name=f"rank-{rank}.txt")
    assert load([folder]).ranks == from_one_file.ranks
    assert load(sorted(folder.iterdir())).ranks == from_one_file.ranks
