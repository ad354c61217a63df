"""Recorded jobs as Chakra's graphs: they say the same when they are read again, and keep ASTRA-sim's rules."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.formats.chakra import messages
from topoflow.capture.load import load
from topoflow.cli import main
from topoflow.traffic.captured.as_chakra import SUPPORTED, chakra_files

TRACES = Path(__file__).resolve().parents[2] / "examples" / "traces"
EXAMPLES = {
    "recorder": [TRACES.parent / "ddp_4_ranks.jsonl.gz"],
    "kineto": sorted(TRACES.glob("kineto_*")),
    "nccl, permuted rings": sorted((TRACES / "h100").iterdir()),
    "chakra": sorted(TRACES.glob("chakra.*")),
    "flight_recorder": sorted(TRACES.glob("flight_recorder_*")),
}


def mixed() -> Trace:
    """Two groups of tensor parallelism, two of data parallelism, messages both ways, barriers and a late rank."""
    ranks: dict[int, tuple[Event, ...]] = {}
    for rank in range(4):
        tensor, data = ((0, 1), (2, 3))[rank // 2], ((2, 0), (3, 1))[rank % 2]
        peer = (rank + 2) % 4
        ends: list[Event] = [
            Communication(
                "send", tuple(sorted((rank, peer))), "bfloat16", 100 + size, 100 + size, peer=peer, after=(0,)
            )
            for size in (0, 2)
        ]
        ends += [replace(event, op="recv", after=()) for event in ends if isinstance(event, Communication)]
        events: list[Event] = [
            ComputeSpan("forward", None, None, 1.25e-5 * (rank + 1), after=()),
            Communication("all_gather", tensor, "float32", 400, 800, after=(0,)),
            Communication("reduce_scatter", data, "float32", 800, 400, after=(0,), delay=3e-6 * rank),
            *ends,
            Communication("barrier", (0, 1, 2, 3), "uint8", 0, 0, after=(1, 2, 5, 6)),
            ComputeSpan("backward", None, None, 2.2e-6, after=(7,)),
            Communication("all_to_all", (0, 1, 2, 3), "int8", 64, 64, after=(8,)),
            Communication("broadcast", (3, 2, 1, 0), "float64", 64, 64, root=3, after=(8,)),
        ]
        ranks[rank] = tuple(events)
    return Trace("mixed", 4, 1, ranks)


def written(trace: Trace, folder: Path) -> Path:
    folder.mkdir()
    for name, content in chakra_files(trace).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(params=[*EXAMPLES, "mixed"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return mixed() if request.param == "mixed" else load(EXAMPLES[request.param])


def test_what_is_read_again_is_written_again_to_the_last_byte(trace: Trace, tmp_path: Path) -> None:
    """The first time barriers go, and durations become whole microseconds."""
    once = load(sorted(written(trace, tmp_path / "once").glob("*.et")))
    twice = load(sorted(written(once, tmp_path / "twice").glob("*.et")))
    assert chakra_files(replace(twice, name=once.name)) == chakra_files(once)


def test_every_rank_communicates_and_computes_as_before(tmp_path: Path) -> None:
    before, after = mixed(), load(sorted(written(mixed(), tmp_path / "mixed").glob("*.et")))
    for rank, events in before.ranks.items():
        expected = [event for event in events if not isinstance(event, ComputeSpan) and event.op != "barrier"]
        keys = [
            sorted((e.op, e.group, e.bytes, e.dtype, str(e.peer), round(e.delay, 6)) for e in rank_events)
            for rank_events in (expected, after.communications(rank))
        ]
        assert keys[0] == keys[1]
        seconds = [
            sum(e.seconds for e in rank_events if isinstance(e, ComputeSpan))
            for rank_events in (events, after.ranks[rank])
        ]
        assert seconds[0] == pytest.approx(seconds[1], abs=1.1e-6), "whole microseconds"


class Rank:
    """A rank of ASTRA-sim and what it may issue with its resources, as of its Workload.cc and HardwareResource.cc."""

    def __init__(self, number: int, path: Path) -> None:
        _, *nodes = messages.read(path.name, path.read_bytes())
        self.number = number
        self.nodes = {node.id: node for node in nodes}
        self.waits = {node.id: set(node.data_deps) for node in nodes}
        self.issued: set[int] = set()
        self.done: set[int] = set()
        self.groups: dict[int, list[int]] = {}
        assert len(self.nodes) == len(nodes)
        assert all(parents <= self.nodes.keys() for parents in self.waits.values())

    def resource(self, node: Any) -> str | None:
        """What it occupies; receives do not."""
        if messages.attributes(node)["is_cpu_op"]:
            return "cpu"
        kinds = {messages.COMPUTE: "compute", messages.RECEIVE: None}
        return kinds.get(node.type, "communicates")

    def issue(self) -> list[Any]:
        """The nodes that start now, smallest id first."""
        busy = {self.resource(self.nodes[number]) for number in self.issued - self.done} - {None}
        started = []
        for number in sorted(self.waits.keys() - self.issued):
            resource = self.resource(self.nodes[number])
            if self.waits[number] <= self.done and resource not in busy:
                busy |= {resource} - {None}
                self.issued.add(number)
                started.append(self.nodes[number])
        return started

    def read_groups(self, node: Any, ranks: int) -> None:
        """issue_pytorch_pg_metadata"""
        text = node.inputs.values
        for entry in json.loads(text[2 : len(text) - 2]):
            self.groups[int(entry["pg_name"])] = entry["ranks"] or list(range(ranks))


def test_astra_sim_runs_it_to_its_end(trace: Trace, tmp_path: Path) -> None:
    """No rank waits for ever; every attribute that its code reads is there and of the type that it takes."""
    folder = written(trace, tmp_path / "x")
    ranks = [Rank(rank, next(folder.glob(f"*.{rank}.et"))) for rank in range(trace.world_size)]
    listed = json.loads(next(folder.glob("*.groups.json")).read_text())
    waiting: dict[Hashable, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    sent: dict[Hashable, int] = {}
    received: dict[Hashable, tuple[Rank, int, int]] = {}
    while any(len(rank.done) < len(rank.nodes) for rank in ranks):
        started = [(rank, node) for rank in ranks for node in rank.issue()]
        assert started, "a deadlock"
        for rank, node in started:
            attributes = messages.attributes(node)
            if node.type == messages.COLLECTIVE:
                assert messages.COLLECTIVES[attributes["comm_type"]] in SUPPORTED
                number = int(attributes["pg_name"])
                members = rank.groups[number]
                assert rank.number in members
                assert number == 0 or listed[str(number)] == members
                waiting[number, tuple(members), attributes["comm_type"], attributes["comm_size"]][rank.number].append(
                    node.id
                )
            elif node.type == messages.SEND:
                assert attributes["comm_src"] == rank.number
                sent[attributes["comm_src"], attributes["comm_dst"], attributes["comm_tag"]] = attributes["comm_size"]
                rank.done.add(node.id)
            elif node.type == messages.RECEIVE:
                assert attributes["comm_dst"] == rank.number
                key = (attributes["comm_src"], attributes["comm_dst"], attributes["comm_tag"])
                assert key not in received
                received[key] = (rank, node.id, attributes["comm_size"])
            else:
                if node.type == messages.METADATA:
                    rank.read_groups(node, trace.world_size)
                rank.done.add(node.id)
        for key, by_rank in waiting.items():
            assert isinstance(key, tuple)
            while all(by_rank[member] for member in key[1]):
                for member in key[1]:
                    ranks[member].done.add(by_rank[member].pop(0))
        for key, (rank, number, size) in received.items():
            if sent.get(key) == size:
                rank.done.add(number)
    assert sent.keys() == received.keys()


def test_what_astra_sim_does_not_have_is_refused_in_one_line(tmp_path: Path) -> None:
    reduce = Communication("reduce", (0, 1), "int8", 4, 4, root=0)
    uneven = Communication("all_to_all", (0, 1), "int8", 4, 4, splits_in=(1, 3), splits_out=(1, 3))
    for event, message in ((reduce, "got reduce of rank 0"), (uneven, "got an uneven all_to_all of rank 0")):
        other = replace(event, splits_in=event.splits_in[::-1], splits_out=event.splits_out[::-1])
        with pytest.raises(ValueError, match=message):
            chakra_files(Trace("t", 2, 1, {0: (event,), 1: (other,)}))


def test_the_command_writes_all_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["capture", "export", str(EXAMPLES["recorder"][0]), "--out", str(out)]) == 0
    names = {f"train_ddp.{rank}.et" for rank in range(4)} | {"train_ddp.groups.json"}
    assert {path.name for path in out.iterdir()} == names
    other = tmp_path / "other"
    assert main(["capture", "export", str(EXAMPLES["flight_recorder"][0]), "--out", str(other)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not other.exists()
