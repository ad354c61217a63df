"""TopoOpt's task graphs: published sums, dependencies, and every law of the file format."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load

Graphs = dict[str, Path]


def all_reduces(trace: Trace) -> dict[int, list[Communication]]:
    return {rank: [e for e in trace.communications(rank) if e.op == "all_reduce"] for rank in trace.ranks}


def test_vgg16_on_16_servers_all_reduces_1157409952_bytes(task_graphs: Graphs) -> None:
    trace = load([task_graphs["100vgg_16"]])
    assert (trace.world_size, trace.iterations, sorted(trace.ranks)) == (16, 1, list(range(16)))
    for events in all_reduces(trace).values():
        assert len(events) == 32  # 13 convolutions and 3 dense layers, weight and bias each
        assert sum(event.bytes for event in events) == 1_157_409_952
        assert {(event.group, event.dtype) for event in events} == {(tuple(range(16)), "float32")}


def test_embedding_tables_on_one_server_are_no_traffic(task_graphs: Graphs) -> None:
    trace = load([task_graphs["100dlrm_16"]])
    assert "16 all-reduces of a single server move nothing and are left out" in trace.notes
    groups = {event.group for events in all_reduces(trace).values() for event in events}
    assert groups == {tuple(range(16)), tuple(range(0, 16, 2))}
    # the file: 36 all-reduces of all 16 servers, 10 of the 8 with even numbers
    assert [len(events) for events in all_reduces(trace).values()] == [36 + 10, 36] * 8


def test_every_send_has_its_recv_of_the_same_size_in_the_same_order(task_graphs: Graphs) -> None:
    for name in ("100dlrm_16", "100candle_16"):
        trace = load([task_graphs[name]])
        sends: dict[tuple[int, int | None], list[int]] = {}
        recvs: dict[tuple[int, int | None], list[int]] = {}
        for rank in trace.ranks:
            for event in trace.communications(rank):
                if event.op == "send":
                    sends.setdefault((rank, event.peer), []).append(event.bytes)
                elif event.op == "recv":
                    assert event.peer is not None
                    recvs.setdefault((event.peer, rank), []).append(event.bytes)
        assert sends == recvs
        assert sends


def test_dependencies_are_known_and_point_back(task_graphs: Graphs) -> None:
    for name in (name for name in task_graphs if name.startswith("100")):
        trace = load([task_graphs[name]])
        for events in trace.ranks.values():
            assert all(event.after is not None for event in events)  # Trace itself checks that they point back
            computes = [event for event in events if isinstance(event, ComputeSpan)]
            assert {event.name for event in computes} == {"forward", "backward"}
            assert all(event.seconds > 0 for event in computes)
            # every gradient all-reduce waits for a backward task of this server
            for event in events:
                if isinstance(event, Communication) and event.op == "all_reduce":
                    assert event.after
                    assert all(isinstance(earlier := events[at], ComputeSpan) for at in event.after), earlier


def test_all_reduces_come_in_one_order_on_all_members(task_graphs: Graphs) -> None:
    trace = load([task_graphs["100candle_16"]])
    by_group: dict[tuple[int, ...], list[list[int]]] = {}
    for events in all_reduces(trace).values():
        for group in {event.group for event in events}:
            by_group.setdefault(group, []).append([event.bytes for event in events if event.group == group])
    assert {len(group): len(orders) // len(group) for group, orders in by_group.items()} == {4: 1, 8: 1, 16: 1}
    assert all(order == orders[0] for orders in by_group.values() for order in orders)


def test_runtimes_are_milliseconds(task_graphs: Graphs) -> None:
    first = load([task_graphs["100vgg_16"]]).ranks[0][0]
    assert isinstance(first, ComputeSpan)
    assert first.seconds == pytest.approx(1.91386e-3, rel=1e-5)  # the file: 1.9138599634170532 ms


# A hand-made graph: tables back to back, each with its own vtable, vectors behind their table.


def table(fields: dict[int, tuple[str, object]]) -> bytes:
    """A vtable and its table; vectors of 8-byte numbers follow the table. Field: slot -> (struct code, value)."""
    slots = max(fields) // 2 - 1
    offsets, body, tail = [0] * slots, bytearray(4), bytearray()
    inline = {slot: struct.calcsize(f"<{code}") if code != "v" else 4 for slot, (code, _) in fields.items()}
    size = 4 + sum(inline.values())
    for slot, (code, value) in fields.items():
        offsets[slot // 2 - 2] = len(body)
        if code == "v":
            assert isinstance(value, (list, tuple))
            body += struct.pack("<I", size + len(tail) - len(body))
            tail += struct.pack(f"<I{len(value)}Q", len(value), *value)
        else:
            body += struct.pack(f"<{code}", value)
    vtable = struct.pack(f"<{2 + slots}H", 4 + 2 * slots, size, *offsets)
    struct.pack_into("<i", body, 0, len(vtable))
    return vtable + bytes(body) + bytes(tail)


def graph(
    servers: int, devices: list[dict[int, tuple[str, object]]], tasks: list[dict[int, tuple[str, object]]]
) -> bytes:
    """A TaskGraph: root offset, root vtable and table, the two vectors of offsets, then the tables."""
    vtable = struct.pack("<12H", 24, 20, 0, 4, 8, 0, 0, 0, 0, 0, 12, 16)
    start = 4 + len(vtable)
    lists = start + 20
    tables = [table(fields) for fields in (*tasks, *devices)]
    first = lists + 8 + 4 * len(tables)
    at = [first + sum(map(len, tables[:index])) + struct.unpack("<H", one[:2])[0] for index, one in enumerate(tables)]
    second = lists + 4 + 4 * len(tasks)
    out = struct.pack("<I", start) + vtable
    out += struct.pack("<iIIII", len(vtable), servers, 1, lists - (start + 12), second - (start + 16))
    out += struct.pack(f"<I{len(tasks)}I", len(tasks), *(at[i] - (lists + 4 + 4 * i) for i in range(len(tasks))))
    out += struct.pack(
        f"<I{len(devices)}I", len(devices), *(at[len(tasks) + i] - (second + 4 + 4 * i) for i in range(len(devices)))
    )
    return out + b"".join(tables)


GPUS = [{4: ("h", 0), 6: ("Q", 100 + node), 8: ("Q", node)} for node in range(2)]
LINK = {4: ("h", 14), 6: ("Q", 200), 10: ("Q", 0 * 3 + 1)}  # from server 0 to server 1, of 2 servers and 1 switch


def task(
    number: int, kind: int, device: int = 100, following: tuple[int, ...] = (), size: int = 0
) -> dict[int, tuple[str, object]]:
    return {
        4: ("h", kind), 6: ("Q", number), 8: ("Q", device), 10: ("f", 2.0), 12: ("Q", size), 14: ("v", following)
    }  # fmt: skip


def load_graph(tmp_path: Path, tasks: list[dict[int, tuple[str, object]]]) -> Trace:
    path = tmp_path / "toy.fbuf"
    path.write_bytes(graph(2, [*GPUS, LINK], tasks))
    return load([path])


def test_forward_transfer_backward_update_and_all_reduce_become_events(tmp_path: Path) -> None:
    trace = load_graph(
        tmp_path,
        [
            task(1, 0, 100, (2,)),
            task(2, 5, 200, (3,), 4096),
            task(3, 1, 101, (4, 5)),
            task(4, 6, 0, (0, 1), 64),
            task(5, 3, 101),
        ],
    )
    forward, send, reduced = trace.ranks[0]
    assert forward == ComputeSpan("forward", None, None, 2e-3, after=())
    assert send == Communication("send", (0, 1), "float32", 4096, 0, peer=1, after=(0,))
    assert reduced == Communication("all_reduce", (0, 1), "float32", 64, 64, after=(), delay=0.002)
    recv, backward, reduced, update = trace.ranks[1]
    assert recv == Communication("recv", (0, 1), "float32", 0, 4096, peer=0, after=())
    assert backward == ComputeSpan("backward", None, None, 2e-3, after=(0,))
    assert reduced == Communication("all_reduce", (0, 1), "float32", 64, 64, after=(1,), delay=0.002)
    assert update == ComputeSpan("update", None, None, 2e-3, after=(1,))


def test_a_barrier_holds_the_servers_around_it(tmp_path: Path) -> None:
    trace = load_graph(tmp_path, [task(1, 0, 100, (9,)), task(2, 0, 101, (9,)), task(9, 4, 0, (3,)), task(3, 1, 100)])
    _, barrier, backward = trace.ranks[0]
    assert barrier == Communication("barrier", (0, 1), "uint8", 0, 0, after=(0,))
    assert backward.after == (1,)


def test_a_barrier_of_one_server_is_left_out_and_counted(tmp_path: Path) -> None:
    trace = load_graph(tmp_path, [task(1, 0, 100, (9,)), task(9, 4, 0, (3,)), task(3, 1, 100)])
    forward, backward = trace.ranks[0]
    assert (forward.after, backward.after) == ((), (0,))
    assert "1 barriers of a single server only order its tasks and are left out" in trace.notes


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (
            [task(1, 0, 100, (2,)), task(2, 1, 100, (1,))],
            "tasks must not wait for each other in a circle, got 2 that do",
        ),
        ([task(1, 0, 100, (7,))], r"tasks\[0\].nexttasks: must be task ids, got 7"),
        ([task(1, 0), task(1, 1)], "tasks must have different ids, got 1 twice"),
        ([task(1, 9)], r"tasks\[0\].type: must be within 0..6, got 9"),
        ([task(1, 0, 200)], r"tasks\[0\].deviceid: must be a GPU, got 200"),
        ([task(1, 5, 100)], r"tasks\[0\].deviceid: must be a nominal link, got 100"),
        ([task(1, 6, 0, (0, 2))], r"tasks\[0\].nexttasks: must name each server below 2 once, got \[0, 2\]"),
        ([task(1, 0, size=2**63)], r"tasks\[0\].xfersize: must be below 2\*\*63"),
        ([{**task(1, 0), 10: ("f", float("nan"))}], r"tasks\[0\].runtime: must not be negative, got nan"),
    ],
)
def test_a_graph_that_breaks_a_law_is_refused(
    tmp_path: Path, tasks: list[dict[int, tuple[str, object]]], message: str
) -> None:
    with pytest.raises(ValueError, match=r"toy.fbuf: " + message):
        load_graph(tmp_path, tasks)


def test_a_graph_that_is_cut_is_refused(task_graphs: Graphs, tmp_path: Path) -> None:
    data = task_graphs["100vgg_16"].read_bytes()
    path = tmp_path / "cut.fbuf"
    for length in range(0, len(data), 3001):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut.fbuf"):
            load([path])
