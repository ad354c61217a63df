"""Chakra's protobuf: published files of every schema, graphs of our own, and what is wrong with them in one line."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.formats.chakra import messages
from topoflow.capture.load import load

HEAD: dict[str, Any] = {"version": "0.0.4"}


def node(number: int, kind: int, *after: int, micros: int = 0, **attributes: tuple[str, Any]) -> Any:
    """A node of the graph; attributes are (kind, value)."""
    attrs = [messages.attribute(name, *value) for name, value in attributes.items()]
    described = {"id": number, "name": f"n{number}", "type": kind, "data_deps": after, "duration_micros": micros}
    return messages.message_classes()["Node"](**described, attr=attrs)


def write(path: Path, *nodes: Any) -> Path:
    path.write_bytes(messages.write([messages.message_classes()["GlobalMetadata"](**HEAD), *nodes]))
    return path


def reduce(number: int, *after: int, size: int = 64, **more: tuple[str, Any]) -> Any:
    sized = {"comm_type": ("int64", 0), "comm_size": ("int64", size)}
    return node(number, messages.COLLECTIVE, *after, **{**sized, **more})


def sizes(trace: Trace) -> set[tuple[str, int, int, int]]:
    return {
        (event.op, len(event.group), event.bytes_in, event.bytes_out)
        for rank in trace.ranks
        for event in trace.communications(rank)
    }


@pytest.fixture(scope="module")
def astra(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workloads that ASTRA-sim publishes."""
    folder = tmp_path_factory.mktemp("astra")
    with tarfile.open(shared_data / "chakra_et" / "astra_sim_microbench.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "examples"


@pytest.mark.parametrize("ranks", [4, 8, 16])
@pytest.mark.parametrize(
    ("op", "into", "out"),
    [("all_gather", 1, None), ("all_reduce", 1, 1), ("all_to_all", 1, 1), ("reduce_scatter", 1, 0)],
)
def test_collectives_of_astra_sim_are_of_all_ranks(
    op: str, into: int, out: int | None, ranks: int, astra: Path
) -> None:
    trace = load([astra / "workload" / "microbenchmarks" / op / f"{ranks}npus_1MB"])
    size = 2**20
    assert sizes(trace) == {(op, ranks, into * size, size * ranks if out is None else size if out else size // ranks)}
    assert sorted(trace.ranks) == list(range(ranks))


def test_a_ring_of_sends_depends_as_its_file_says(astra: Path) -> None:
    trace = load(sorted((astra / "system" / "custom_collectives").glob("custom_ring*/*.et")))
    for rank in range(8):
        sent = [event for event in trace.communications(rank) if event.op == "send"]
        assert {event.peer for event in sent} == {(rank + 1) % 8}
        assert sum(event.bytes for event in sent) == 2 * 7 * 2**20 // 8
        seconds = [event.seconds for event in trace.ranks[rank] if isinstance(event, ComputeSpan)]
        assert seconds == [7e-6] * 7
        assert all(event.after for event in trace.ranks[rank][1:])


def test_traces_of_jobs_agree_with_what_pytorch_recorded(shared_data: Path) -> None:
    folder = shared_data / "megatron_tp2"
    converted, recorded = load(sorted(folder.glob("*.et"))), load(sorted(folder.glob("pytorch_et_*")))
    for rank in (0, 1):
        pairs = zip(converted.communications(rank), recorded.communications(rank), strict=True)
        assert all((a.op, a.group, a.bytes, a.dtype) == (b.op, b.group, b.bytes, b.dtype) for a, b in pairs)


def test_groups_that_no_file_lists_are_an_error_or_the_users_word(shared_data: Path) -> None:
    paths = sorted((shared_data / "chakra_et").glob("*.et"))
    with pytest.raises(ValueError, match="must record the world size"):
        load(paths)
    assert sizes(load(paths, one_group=True)) == {("all_reduce", 2, 2**32, 2**32)}


def test_the_oldest_schema_is_read(shared_data: Path, tmp_path: Path) -> None:
    """One rank of some, whose graph has a circle; what the host says is left out, and what kernels took is kept."""
    with tarfile.open(shared_data / "chakra_et" / "mlcommons_feeder_2024-06.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    trace = load(sorted(tmp_path.rglob("*.et")))
    assert (trace.world_size, trace.source) == (1, "Chakra 1.0.1")
    assert any(note.startswith("7 collectives are of an unknown number of ranks") for note in trace.notes)
    waits = [event for event in trace.ranks[0] if isinstance(event, ComputeSpan) and event.communicates]
    assert sum(event.seconds for event in waits) == pytest.approx(36.715e-3)
    assert any("14 operations of the host" in note for note in trace.notes)


def test_one_rank_of_an_unknown_number_that_took_no_time_is_refused(astra: Path) -> None:
    (file,) = astra.rglob("4npus_1MB/all_reduce.0.et")
    with pytest.raises(
        ValueError, match=r"all_reduce\.0\.et: node \d+: must say the number of ranks, or give the files"
    ):
        load([file])


def test_what_a_node_depends_on_is_what_it_follows_through_nodes_that_do_nothing(tmp_path: Path) -> None:
    for rank in (0, 1):
        compute, empty = node(5, messages.COMPUTE, micros=3), node(4, messages.COMPUTE, 5)
        write(tmp_path / f"x.{rank}.et", reduce(1, 4), compute, empty, reduce(2))
    events = load([tmp_path]).ranks[0]
    assert [type(event) for event in events] == [Communication, ComputeSpan, Communication]
    assert [event.after for event in events] == [(), (), (1,)], "in an order in which they can run"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([reduce(1, 2), reduce(2, 1)], "node 1: dependencies must have no circle"),
        ([reduce(1), reduce(1)], "node 1: id must be given once"),
        ([reduce(1, comm_size=("string", "x"))], "node 1.comm_size: must be a whole number"),
        ([reduce(1, involved_dim=("bool", True))], "node 1.involved_dim: must be a list"),
        ([reduce(1, comm_type=("int64", 10))], "node 1.comm_type: must be a whole number within 0..9"),
        ([node(1, messages.COLLECTIVE, comm_type=("int64", 0))], "node 1.comm_size: must be given"),
        ([node(1, messages.SEND, comm_size=("int64", 8))], "node 1.comm_dst: must be given"),
        ([node(1, messages.SEND, comm_size=("int64", 8), comm_dst=("int32", 0))], "another rank than 0"),
        ([node(1, messages.COMPUTE, micros=1)], "must hold a communication"),
    ],
)
def test_what_is_wrong_is_one_line(nodes: list[Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.0.et", *nodes)
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load([path])
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_without_a_rank_in_its_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be named NAME\.RANK\.et"):
        load([write(tmp_path / "x.et", reduce(1))])


def test_some_dimensions_of_a_network_name_no_ranks(tmp_path: Path) -> None:
    partly = messages.message_classes()["AttributeProto"](name="involved_dim")
    partly.bool_list.values.extend([True, False])
    one = reduce(1)
    one.attr.append(partly)
    with pytest.raises(ValueError, match=r"involved_dim: must be all dimensions.*got \[True, False\]"):
        load([write(tmp_path / "x.0.et", one)])
