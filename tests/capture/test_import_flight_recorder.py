"""Dumps of Flight Recorder: sizes, groups and peers from JSON and pickle; a pickle of more than data is refused."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.load import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(rank: int) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("write_records", EXAMPLES / "write_records.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    record: dict[str, Any] = module.flight_recorder(rank)
    return record


def write(folder: Path, dumps: list[dict[str, Any]], pack: Callable[[Any], bytes]) -> Path:
    for rank, dump in enumerate(dumps):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pack(dump))
    return folder


def as_json(dump: Any) -> bytes:
    return json.dumps(dump).encode()


@pytest.mark.parametrize("pack", [as_json, *(lambda dump, p=p: pickle.dumps(dump, protocol=p) for p in (2, 4, 5))])
def test_json_and_pickles_say_the_same(pack: Callable[[Any], bytes], tmp_path: Path) -> None:
    trace = load([write(tmp_path, [example(0), example(1)], pack)])
    assert (trace.world_size, trace.iterations, trace.groups) == (2, 3, {"0": (0, 1)})
    for rank, (op, peer) in enumerate((("send", 1), ("recv", 0))):
        assert [(e.op, e.bytes, e.peer, e.iteration) for e in trace.communications(rank)] == [
            operation for step in range(3) for operation in (("all_reduce", 4000, None, step), (op, 16384, peer, step))
        ]


def test_a_permuted_group_keeps_its_order(tmp_path: Path) -> None:
    """Ends of a message are places in the group: place 0 is rank 1 here, which sends."""
    dumps = [example(1), example(0)]
    for dump in dumps:
        dump["pg_config"]["0"]["ranks"] = "[1, 0]"
    trace = load([write(tmp_path, dumps, as_json)])
    assert {event.group for event in trace.communications(0)} == {(1, 0)}
    assert [(event.op, event.peer) for event in trace.communications(1) if event.peer is not None] == [("send", 0)] * 3


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("touched_by_a_pickle"),))


@pytest.mark.parametrize(
    "hidden",
    [Harmful(), Path, {1, 2}, bytearray(b"x"), 2**70, print],
    ids=["call", "class", "set", "array", "int", "f"],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_of_more_than_plain_data_builds_nothing(
    hidden: Any, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dump = {**example(0), "extra": hidden}
    write(tmp_path, [dump], lambda dump: pickle.dumps(dump, protocol=protocol))
    if hidden == 2**70:  # a number is plain
        assert load([write(tmp_path, [dump, example(1)], lambda dump: pickle.dumps(dump, protocol=protocol))])
        return
    with pytest.raises(ValueError, match=r"must be a pickle of plain data, got [A-Z_0-9]+ at \d+$"):
        load([tmp_path / "nccl_trace_rank_0"])
    assert not Path("touched_by_a_pickle").exists()


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def by_hand(version: bytes, more: bytes = b"") -> bytes:
    """A pickle of a dump with this version, and further keys and values."""
    pairs = (text("pg_config"), b"}", text("entries"), b"]", text("version"), version, more)
    return b"\x80\x02}(" + b"".join(pairs) + b"u."


DEEP = b"N" + 200_000 * b"\x85"  # a tuple of a tuple of a tuple ..


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (by_hand(DEEP), "version: must be a string, got values within values without end"),
        (by_hand(b"]q\x00h\x00a"), r"version: must be a string, got \[\[...\]\]"),
        (by_hand(text("2.1"), DEEP + b"N"), "got SETITEMS at"),
        (by_hand(text("2.1"), b"N"), "got SETITEMS at"),
        (by_hand(b"Nr\xff\xff\xff\x7f"), "version: must be a string, got None"),
        (b"\x80\x02}(" + text("version") + text("2.1") + text("entries") + text("pg_config") + b"u.", "must be given"),
        (by_hand(b"h\x07"), "got BINGET at"),
        (by_hand(b"\x87"), "got TUPLE3 at|got SETITEMS at"),
        (by_hand(b"0"), "got POP at"),
        (by_hand(b"cbuiltins\nprint\n"), "got GLOBAL at"),
        (by_hand(text("2.1"))[:-1], "must be a pickle of plain data"),
    ],
)
def test_a_hostile_pickle_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    """Depth without end, a list that holds itself, keys that no stack can hash, places and names that are not there."""
    (tmp_path / "rank_0").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        load([tmp_path / "rank_0"])
    assert "\n" not in str(error.value)


def test_gloo_lists_no_ranks_which_the_user_may_say(tmp_path: Path) -> None:
    """As torch 2.13 dumps it over gloo."""
    dumps = []
    for rank in (0, 1):
        dump = example(rank)
        dump["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
        dump["entries"] = [entry for entry in dump["entries"] if not entry["is_p2p"]]
        for entry in dump["entries"]:
            entry["profiling_name"] = "gloo:all_reduce"
        dumps.append(dump)
    trace = load([write(tmp_path, dumps, as_json)])
    assert {event.group for event in trace.communications(0)} == {(0, 1)}, "the default group has all ranks"
    assert "Flight Recorder does not record sends and receives over gloo" in trace.notes


def changed(entry: int, **values: Any) -> dict[str, Any]:
    dump = copy.deepcopy(example(0))
    dump["entries"][entry] |= values
    return dump


@pytest.mark.parametrize(
    ("dump", "message"),
    [
        (changed(1, profiling_name="nccl:send"), "entries[1].profiling_name: must name both ends"),
        (changed(1, profiling_name="nccl:send 1->0"), "must begin with the place of rank 0"),
        (changed(1, profiling_name="nccl:send 0->9"), "must begin with the place of rank 0"),
        (changed(0, input_sizes=[[-1]]), "entries[0].input_sizes: must be a list of whole numbers"),
        (changed(0, input_sizes=[[2**62, 2**62]]), "entries[0].input_sizes: must be at most"),
        (changed(0, process_group=[]), "entries[0].process_group: must be a name"),
        (changed(0, process_group=[1]), "entries[0].process_group: must be a list of strings"),
        ({**example(0), "version": "1.0"}, "version: must begin with 2."),
        (
            {**example(0), "pg_config": {"0": {"name": "0", "desc": "", "ranks": "all"}}},
            "pg_config.0.ranks: must be JSON",
        ),
    ],
)
def test_what_is_wrong_is_one_line(dump: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load([write(tmp_path, [dump, example(1)], as_json)])
    assert message in str(error.value)


def test_a_file_without_a_rank_in_its_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(as_json(example(0)))
    with pytest.raises(ValueError, match="must have a name that ends with its rank"):
        load([path])


def test_a_dump_without_entries_says_that_its_rank_had_begun_nothing(tmp_path: Path) -> None:
    dumps = [example(0), {**example(1), "entries": []}]
    dumps[0]["entries"] = [{**entry, "state": "scheduled"} for entry in dumps[0]["entries"] if not entry["is_p2p"]]
    with pytest.raises(ValueError, match=r"rank 0 waits in number 1 of group '0', .*, which rank 1 had not begun$"):
        load([write(tmp_path, dumps, as_json)])
