"""Damaged input: random bytes and random mutations of real traces end in a Trace or a ValueError, never otherwise."""

from __future__ import annotations

import copy
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.capture.hosts import prefetching, profile_of
from tests.capture.recordings import text_of, training
from tests.capture.test_import_nccl_log import lines_of
from topoflow import files
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.jsonl import write
from topoflow.capture.load import known_formats, load
from topoflow.capture.merge.parts import InputFile

# The deadline is what "never a hang" means here; an import of these shrunk traces takes a few milliseconds.
damage = settings(
    max_examples=120,
    deadline=timedelta(seconds=20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# What a damaged or hostile JSON document may hold where a number, text, list or object was.
HOSTILE_VALUES: list[Any] = [
    *(None, True, -1, 0, 3, 2**31, 2**63, 10**400, -(2**64), 1.5, 1e308),
    *("", "x", "13", "wait", "[", "[1, ...]", "Float", "é" * 40),
    *([], [[]], {}, [0], [-1], [0, 0], [[1, 2]], ["a"], [None], {"rank": 7}, [2**62] * 3, [[[[]]]]),
]
HOSTILE = st.sampled_from(HOSTILE_VALUES)


def outcome(paths: list[Path]) -> Trace | str:
    """The trace, or the message of the ValueError; whatever else is raised fails the test."""
    try:
        return load(paths)
    except ValueError as error:
        return str(error)


def must_be_trace_or_value_error(paths: list[Path]) -> Trace | str:
    result = outcome(paths)
    if isinstance(result, str):
        assert "\n" not in result
        assert str(paths[0].parent) in result or "rank" in result
    else:
        assert isinstance(result, Trace)
    return result


def read_json(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files.read_bytes(path))
    return document


def shrunk_kineto(path: Path) -> dict[str, Any]:
    """The collectives of a profile with their launches and kernels, and every 20th other row."""
    document = read_json(path)
    events = document["traceEvents"]
    prefixes = ("record_param_comms", "c10d::", "nccl", "ProfilerStep")
    selected = [event for event in events if str(event.get("name")).startswith(prefixes)][:30]
    correlations = {event["args"].get("correlation") for event in selected if event.get("cat") == "kernel"}
    selected += [e for e in events if e.get("cat") == "cuda_runtime" and e["args"].get("correlation") in correlations]
    return {**document, "traceEvents": selected + events[::20][:20], "deviceProperties": []}


def shrunk_execution_trace(path: Path) -> dict[str, Any]:
    document = read_json(path)
    prefixes = ("record_param_comms", "## process_group", "ProfilerStep")
    nodes = [node for node in document["nodes"] if node["name"].startswith(prefixes)]
    return {**document, "nodes": nodes[:14]}


# A rank that reduces with itself.
NCCL = b"""{"event":"start","format":"topoflow-nccl","version":1,"process":1,"time":5,"rank":0,"ranks":1,"host":"h"}
{"event":"comm","id":0,"start":6,"comm":1,"hash":"01","nodes":1,"ranks":1,"rank":0,"name":""}
{"event":"coll","id":7,"start":7,"comm":1,"count":9,"root":0,"function":"Broadcast","type":"ncclInt8"}
{"event":"proxy","id":8,"start":8,"comm":1,"stop":9,"parent":7,"peer":0,"send":true,"bytes":9}
"""


class Samples(dict[str, Any]):
    """Good inputs by name; a failing example does not print them."""

    def __repr__(self) -> str:
        return f"Samples({', '.join(self)})"


@pytest.fixture(scope="module")
def documents(shared_data: Path, dlrm_traces: tuple[Path, Path]) -> Samples:
    """Small copies of real traces: profiles of two generations, execution traces of two schemas."""
    profiles, executions = dlrm_traces
    megatron = shared_data / "megatron_tp2"
    return Samples(
        {
            "old profile": shrunk_kineto(next(profiles.glob("worker0_*"))),
            "old execution trace": shrunk_execution_trace(executions / "dlrm_eg_0.json"),
            "profile": shrunk_kineto(megatron / "kineto_rank0.pt.trace.json.gz"),
            "execution trace": shrunk_execution_trace(megatron / "pytorch_et_0.json.gz"),
            "stream events": profile_of(0, prefetching([200, 300], 1000, "events", steps=1)),
        }
    )


@pytest.fixture(scope="module")
def samples(documents: Samples, task_graphs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Bytes of a good file of every format."""
    folder = tmp_path_factory.mktemp("samples")
    all_reduce = Communication("all_reduce", (0, 1), "float32", 64, 64, group_name="0", after=(0,))
    trace = Trace("toy", 2, 1, {r: (ComputeSpan("f", 0.0, 0.1, 0.1), all_reduce) for r in (0, 1)}, {"0": (0, 1)})
    write(trace, folder / "toy.jsonl")
    contents = Samples((name, json.dumps(document).encode()) for name, document in documents.items())
    contents["task graph"] = task_graphs["100vgg_16"].read_bytes()
    contents["nccl"] = NCCL
    contents["nccl log"] = "\n".join(line for rank in range(4) for line in lines_of(rank)).encode()
    contents["recording"] = text_of([*training(3), {"kind": "later", "event": 1, "end": 9}, {"kind": "ended"}]).encode()
    contents["jsonl"] = (folder / "toy.jsonl").read_bytes()
    examples = Path(__file__).resolve().parents[2] / "examples" / "traces"
    contents["flight recorder"] = (examples / "flight_recorder_0").read_bytes()
    contents["inspector"] = (examples / "inspector-s0-pid7.log").read_bytes()
    contents["chakra"] = (examples / "chakra.0.et").read_bytes()
    contents["simgrid"] = (examples / "simgrid_ring.txt").read_bytes()
    contents["groups"] = (examples / "comm_group.json").read_bytes()
    return contents


def test_every_format_has_a_sample_here(samples: Samples, tmp_path: Path) -> None:
    read = set()
    for name, data in samples.items():
        path = tmp_path / name
        path.write_bytes(data)
        source = InputFile(name, files.read_bytes(path))
        read |= {key for key, module in known_formats().items() if module.matches(source)}
    assert read == set(known_formats())


@damage
@given(data=st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    assert isinstance(must_be_trace_or_value_error([path]), str)


@pytest.mark.parametrize(
    "name",
    [
        *("old profile", "old execution trace", "profile", "execution trace", "task graph", "jsonl"),
        *("flight recorder", "inspector", "chakra", "simgrid", "nccl", "nccl log", "recording"),
    ],
)
@damage
@given(choose=st.data(), packed=st.booleans())
def test_flipped_and_cut_bytes_are_refused_or_harmless(
    name: str, choose: st.DataObject, packed: bool, samples: Samples, tmp_path: Path
) -> None:
    data = bytearray(gzip.compress(samples[name], 1, mtime=0) if packed else samples[name])
    for _ in range(choose.draw(st.integers(1, 6))):
        # small positions as often as large: heads and offset tables are where damage hurts
        limit = choose.draw(st.sampled_from([min(64, len(data)), len(data)]))
        at = choose.draw(st.integers(0, max(limit - 1, 0)))
        match choose.draw(st.sampled_from(["flip", "cut", "set", "drop", "repeat"])):
            case "flip":
                data[at : at + 1] = bytes(byte ^ (1 << choose.draw(st.integers(0, 7))) for byte in data[at : at + 1])
            case "cut" if choose.draw(st.booleans()):
                del data[at:]
            case "set":
                value = choose.draw(st.binary(min_size=1, max_size=8))
                data[at : at + len(value)] = value
            case "drop":
                del data[at : at + choose.draw(st.integers(1, 40))]
            case "repeat":
                data[at:at] = data[at : at + choose.draw(st.integers(1, 40))]
    path = tmp_path / "trace.0"
    path.write_bytes(data)
    must_be_trace_or_value_error([path])


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a document."""
    every: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        container = stack.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            every.append((container, key))
            if isinstance(container[key], (dict, list)):
                stack.append(container[key])
    return every


def mutate(document: Any, choose: st.DataObject) -> None:
    for _ in range(choose.draw(st.integers(1, 3))):
        all_places = places(document)
        container, key = all_places[choose.draw(st.integers(0, len(all_places) - 1))]
        if choose.draw(st.booleans()):
            container[key] = copy.deepcopy(choose.draw(HOSTILE))
        else:
            del container[key]


@pytest.mark.parametrize("name", ["old profile", "old execution trace", "profile", "execution trace", "stream events"])
@damage
@given(choose=st.data())
def test_fields_that_are_gone_or_replaced_are_refused_or_harmless(
    name: str, choose: st.DataObject, documents: Samples, tmp_path: Path
) -> None:
    document = copy.deepcopy(documents[name])
    mutate(document, choose)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    must_be_trace_or_value_error([path])


@pytest.mark.parametrize(("times", "sizes"), [("old profile", "old execution trace"), ("profile", "execution trace")])
@damage
@given(choose=st.data())
def test_damaged_pairs_of_profile_and_execution_trace_are_refused_or_harmless(
    times: str, sizes: str, choose: st.DataObject, documents: Samples, tmp_path: Path
) -> None:
    pair = [copy.deepcopy(documents[name]) for name in (times, sizes)]
    mutate(pair[choose.draw(st.integers(0, 1))], choose)
    paths = [tmp_path / "times.json", tmp_path / "sizes.json"]
    for path, document in zip(paths, pair, strict=True):
        path.write_text(json.dumps(document))
    must_be_trace_or_value_error(paths)


@pytest.mark.parametrize("name", ["jsonl", "recording"])
@damage
@given(choose=st.data())
def test_damaged_lines_of_our_own_formats_are_refused_or_harmless(
    name: str, choose: st.DataObject, samples: Samples, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in samples[name].splitlines()]
    mutate(lines, choose)
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    must_be_trace_or_value_error([path])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"traceEvents": [], "distributedInfo": {"rank": 0, "world_size": NaN}}',
        '{"traceEvents": [], "distributedInfo": {"rank": 0, "world_size": Infinity}}',
        '{"traceEvents": [], "distributedInfo": {"rank": 0, "world_size": 1e999}}',
        '{"traceEvents": [], "distributedInfo": {"rank": 0, "world_size": ' + "9" * 5000 + "}}",
        '{"traceEvents": {}, "distributedInfo": {"rank": 0, "world_size": 2}}',
        '{"schema": "1.1", "nodes": [{"name": "## process_group:init ##", "id": 1, "inputs": ["' + "[" * 5000 + '"],'
        '"input_types": ["String"], "outputs": []}]}',
        "",
        "{",
        "null",
        "\x00" * 64,
    ],
    ids=[
        "deep",
        "deeper",
        "nan",
        "infinity",
        "overflow",
        "digits",
        "no list",
        "deep inside",
        "empty",
        "cut",
        "null",
        "zeros",
    ],
)
def test_hostile_json_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=str(path)) as caught:
        load([path])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_text_that_is_not_utf8_is_refused_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": "\xff\xfe"}')
    with pytest.raises(ValueError, match="must be UTF-8, got byte 0xff at 17"):
        load([path])


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}' * 50)[:-12])
    with pytest.raises(ValueError, match="must be a complete gzip file"):
        load([path])


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b" " * 10**8, 9))  # 97 kB
    with pytest.raises(ValueError, match=f"must unpack to at most {200 * path.stat().st_size} bytes"):
        load([path])
    monkeypatch.setattr(files, "LARGEST_FILE", 10**6)
    with pytest.raises(ValueError, match="must unpack to at most 1000000 bytes"):
        load([path])


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load([tmp_path / "nothing.json"])


def test_ten_thousand_operations_all_alike_are_no_hang(tmp_path: Path) -> None:
    sizes = {"In msg nelems": 1, "Out msg nelems": 1, "dtype": "Float", "Process Group Name": "0"}
    row = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "dur": 1}
    rows = [{**row, "ts": ts, "args": {**sizes, "Collective name": "allreduce"}} for ts in range(10_000)]
    info = {"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": rows}))
    assert load([path]).iterations == 10_000  # each looks like an iteration of one all-reduce


def test_a_job_of_too_many_ranks_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [], "distributedInfo": {"rank": 0, "world_size": 2147483647}}')
    with pytest.raises(ValueError, match=r"distributedInfo.world_size: must be a whole number within 1..131072"):
        load([path])
