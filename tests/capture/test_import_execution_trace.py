"""Execution traces of every schema: sizes and groups as the job had them, durations where there are any.

One small job, written down as each version of PyTorch does it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.assumptions import unsized
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load
from topoflow.capture.merge import NO_COMPUTE

WORLD = 8
TENSOR = [(0, 1), (2, 3), (4, 5), (6, 7)]
DATA = [(0, 2, 4, 6), (1, 3, 5, 7)]
ALL = [tuple(range(WORLD))]
ALONE = [(rank,) for rank in range(WORLD)]


@dataclass(frozen=True)
class Form:
    """How a version writes a row: "pointer", "name" or "pair" of name and description; what ends it; head and keys."""

    schema: str
    group: str
    layout: int = 0  # 0: nothing; 1: size; 3: start, stride, size
    head: bool = False  # process groups are listed
    nested: bool = True  # "inputs": {"values": ...}
    more: tuple[bool, ...] = ()  # whether the operation is asynchronous


FORMS = {
    "1.0.1 of torch 2.0": Form("1.0.1", "pointer", nested=False),
    "1.0.1 of torch 2.1": Form("1.0.1", "pointer", layout=1, nested=False),
    "1.0.2 with pointers": Form("1.0.2-chakra.0.0.4", "pointer", layout=1, head=True),
    "1.0.2 with a layout": Form("1.0.2-chakra.0.0.4", "pointer", layout=3),
    "1.0.2 with names": Form("1.0.2-chakra.0.0.4", "name", layout=3),
    "1.0.3": Form("1.0.3-chakra.0.0.4", "pair", layout=3),
    "1.1.1": Form("1.1.1-chakra.0.0.4", "pair", layout=3, head=True, more=(True,)),
}
Work = Sequence[tuple[str, str, Sequence[tuple[int, ...]]]]  # (collective, name of the group, all groups of that name)
MESH: Work = [
    ("allreduce", "tp", TENSOR),
    ("all_gather", "dp", DATA),
    ("allreduce", "dp", DATA),
    ("allreduce", "0", ALL),
    ("broadcast", "tp", TENSOR),
    ("allreduce", "alone", ALONE),
]


def tensor(elements: int) -> list[Any]:
    return [5, 6, 0, elements, 4, "cuda:0"]


def row(form: Form, rank: int, name: str, group_name: str, group: tuple[int, ...]) -> tuple[list[Any], list[str], Any]:
    """Inputs, their types and the outputs of ``record_param_comms``."""
    pointer = 94_000_000_000_000 + 64 * (1000 * rank + sum(map(ord, group_name)))
    written = {"pointer": pointer, "name": group_name, "pair": [group_name, "any"]}[form.group]
    kind = {"pointer": "Int", "name": "String", "pair": "Tuple[String,String]"}[form.group]
    stride = group[1] - group[0] if len(group) > 1 else 0
    layout = {0: [], 1: [len(group)], 3: [group[0], stride, len(group)]}[form.layout]
    place = len(group) - 1 if name == "broadcast" else group.index(rank)  # the root is the last
    inputs = [[tensor(24)], 7, written, place, name, [], [], *layout, *form.more]
    types = ["GenericList[Tensor(float)]", "Int", kind, "Int", "String", "GenericList[]", "GenericList[]"]
    types += ["Int"] * len(layout) + ["Bool"] * len(form.more)
    lists = [[[tensor(24) for _ in group]]] if name == "all_gather" else [[tensor(24)]]
    return inputs, types, lists


def node(form: Form, number: int, name: str, inputs: list[Any], types: list[str], outputs: Any) -> dict[str, Any]:
    if not form.nested:
        return {"id": number, "name": name, "inputs": inputs, "input_types": types, "outputs": outputs}
    into = {"values": inputs, "types": types}
    return {"id": number, "name": name, "inputs": into, "outputs": {"values": outputs}, "attrs": []}


def document(form: Form, rank: int, work: Work) -> dict[str, Any]:
    nodes, listed = [], {}
    for number, (name, group_name, groups) in enumerate(work):
        group = next(members for members in groups if rank in members)
        inputs, types, outputs = row(form, rank, name, group_name, group)
        nodes.append(node(form, 10 * number + 10, "record_param_comms", inputs, types, outputs))
        ranks = [] if len(group) == WORLD else list(group)
        listed[group_name] = {"pg_name": group_name, "ranks": ranks, "group_size": len(group)}
        if form.group == "pointer":
            listed[group_name]["backend_id"] = inputs[2]
    if form.head:
        head = [json.dumps(list(listed.values()))]
        nodes.append(node(form, 1, "## process_group:init ##", head, ["String"], []))
    return {"schema": form.schema, "nodes": nodes}


def write(folder: Path, documents: dict[int, dict[str, Any]], name: str = "rank{}.json") -> list[Path]:
    paths = [folder / name.format(rank) for rank in documents]
    for path, content in zip(paths, documents.values(), strict=True):
        path.write_text(json.dumps(content))
    return paths


def whole(folder: Path, form: Form, work: Work, name: str = "rank{}.json") -> list[Path]:
    return write(folder, {rank: document(form, rank, work) for rank in range(WORLD)}, name)


def sent(trace: Trace, rank: int) -> list[tuple[str, tuple[int, ...], int, int | None]]:
    return [(event.op, event.group, event.bytes, event.root) for event in trace.communications(rank)]


def expected(rank: int, work: Work) -> list[tuple[str, tuple[int, ...], int, int | None]]:
    operations = []
    for name, _, groups in work:
        group = next(members for members in groups if rank in members)
        op = {"allreduce": "all_reduce"}.get(name, name)
        size = 96 * (len(group) if name == "all_gather" else 1)
        if len(group) > 1:
            operations.append((op, group, size, group[-1] if name == "broadcast" else None))
    return operations


@pytest.mark.parametrize("form", [FORMS[name] for name in FORMS if name != "1.0.1 of torch 2.0"], ids=str)
def test_all_ranks_have_the_groups_and_bytes_that_the_job_had(form: Form, tmp_path: Path) -> None:
    trace = load(whole(tmp_path, form, MESH))
    assert trace.world_size == WORLD
    for rank in range(WORLD):
        assert sent(trace, rank) == expected(rank, MESH)
    assert "8 collectives in groups of one rank move nothing and are left out" in trace.notes


@pytest.mark.parametrize("form", FORMS.values(), ids=str)
@pytest.mark.parametrize("groups", [ALONE, TENSOR, DATA, ALL], ids=["1", "2", "4", "8"])
def test_a_group_is_imported_with_its_own_size_or_refused(
    form: Form, groups: Sequence[tuple[int, ...]], tmp_path: Path
) -> None:
    """From one rank, from all, with and without ranks in the names of the files: never with another size."""
    work: Work = [("allreduce", "dp", groups)]
    size = len(groups[0])
    for count, name in [(1, "rank{}.json"), (WORLD, "rank{}.json"), (1, "{}.json"), (WORLD, "{}.json")]:
        trace = outcome(whole(tmp_path, form, work, name)[:count])
        if isinstance(trace, Trace):
            for rank in trace.ranks:
                assert [len(event.group) for event in trace.communications(rank)] == [size] * (size > 1)
        else:
            assert "json" in trace
            assert "\n" not in trace


def outcome(paths: list[Path]) -> Trace | str:
    """The trace, or why it is refused."""
    try:
        return load(paths)
    except ValueError as error:
        return str(error)


def test_pointers_without_sizes_are_refused_or_asked_for(tmp_path: Path) -> None:
    paths = whole(tmp_path, FORMS["1.0.1 of torch 2.0"], [("allreduce", "0", ALL)])
    with pytest.raises(ValueError, match=r"rank0.json: must record the world size, got none: .*--one-group"):
        load(paths)
    assert {event.group for event in load(paths, one_group=True).communications(3)} == set(ALL)


def test_one_group_does_not_stretch_a_group_of_known_size(tmp_path: Path) -> None:
    paths = whole(tmp_path, FORMS["1.0.1 of torch 2.1"], [("allreduce", "tp", TENSOR)])
    with pytest.raises(
        ValueError, match=r"profile.json: .*ranks of its process group, got 2 of 8: give the files of all"
    ):
        load([*paths[:1], profile_without_groups(tmp_path)], one_group=True)
    assert sent(load(paths, one_group=True), 5) == [("all_reduce", (4, 5), 96, None)]


def profile_without_groups(folder: Path) -> Path:
    """A profile of rank 0 of 8 with one all-reduce, whose group it does not record."""
    args = {"Input Dims": [[[24]]], "Input type": ["TensorList"]}
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": 1, "tid": 1, "ts": 0, "dur": 5, "args": args}
    ]
    path = folder / "profile.json"
    path.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": WORLD}, "traceEvents": rows}))
    return path


def test_a_layout_that_two_strides_explain_is_refused(tmp_path: Path) -> None:
    # pairs at strides 1 and 4 do the same: rank 0 is the first of both, with rank 1 or with rank 4
    form = FORMS["1.0.1 of torch 2.1"]
    work: Work = [("allreduce", "tp", TENSOR), ("allreduce", "far", [(0, 4), (1, 5), (2, 6), (3, 7)])]
    with pytest.raises(ValueError, match=r"got 2 of 8 and 2 layouts that fit: record with torch 2.4 or later"):
        load(whole(tmp_path, form, work))


def test_a_size_that_contradicts_the_listed_group_is_refused(tmp_path: Path) -> None:
    form = FORMS["1.1.1"]
    wrong = document(form, 0, [("allreduce", "dp", DATA)])
    wrong["nodes"][0]["inputs"]["values"][-2] = 2
    with pytest.raises(ValueError, match=r"nodes\[0\].inputs: size must be 4, as of its group 'dp', got 2"):
        load(write(tmp_path, {0: wrong}))


def test_a_trace_of_gloo_says_how_to_record_such_a_job(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"must hold a collective .*, got none: .* not for gloo, .* topoflow.capture run"
    ):
        load(write(tmp_path, {0: {"schema": "1.1.1-chakra.0.0.4", "nodes": []}}))


def test_without_durations_compute_is_said_to_be_unknown(tmp_path: Path) -> None:
    trace = load(whole(tmp_path, FORMS["1.0.3"], MESH))
    assert NO_COMPUTE in trace.notes
    assert not any(isinstance(event, ComputeSpan) for events in trace.ranks.values() for event in events)


def times(start: float, duration: float) -> dict[str, float]:
    return {"ts": start, "inclusive_dur": duration, "exclusive_dur": duration}


def linked(kernels: bool) -> dict[str, Any]:
    """ET+ of a step: two matrix products, 30 and 20 us on two streams of which 10 us overlap, then an all-reduce."""
    form = replace(FORMS["1.1.1"], more=())
    content = document(form, 0, [("allreduce", "0", ALL)])
    reduce, head = content["nodes"]
    inputs, outputs = {"values": [], "types": []}, {"values": []}
    host = [{"id": 2, "name": "aten::mm", "inputs": inputs, "outputs": outputs, **times(1000, 50)}]
    host.append({"id": 5, "name": "aten::mm", "inputs": inputs, "outputs": outputs, **times(1060, 70)})
    host.append({"id": 20, "name": "c10d::allreduce_", "inputs": inputs, "outputs": outputs, **times(1200, 900)})
    device = [
        {**host[0], "id": 3, "cat": "kernel", "stream": 7, "name": "gemm", **times(1010, 30)},
        {**host[1], "id": 6, "cat": "kernel", "stream": 8, "name": "gemm", **times(1030, 20)},
        {**reduce, "id": 11, "cat": "kernel", "stream": 9, "name": "ncclDevKernel_AllReduce", **times(1100, 200)},
    ]
    nodes = [head, *host, {**reduce, **times(1090, 5)}, *(device if kernels else [])]
    return {**content, "nodes": nodes}


def test_durations_of_a_linked_trace_are_its_compute(tmp_path: Path) -> None:
    trace = load(write(tmp_path, {0: linked(kernels=True)}))
    compute, reduce = trace.ranks[0]
    assert isinstance(compute, ComputeSpan)
    assert isinstance(reduce, Communication)
    assert (compute.start, compute.end) == (10e-6, 50e-6)
    assert compute.seconds == pytest.approx(40e-6)  # 10 us of the two kernels overlap
    assert (reduce.issue, reduce.start, reduce.end) == (90e-6, 100e-6, 300e-6)
    assert NO_COMPUTE not in trace.notes


def test_a_kernel_takes_its_dur_where_the_linker_says_no_more(tmp_path: Path) -> None:
    content = linked(kernels=True)
    for node in content["nodes"]:
        if node.get("cat") == "kernel":
            node["dur"] = node.pop("exclusive_dur")
            del node["inclusive_dur"]
    older, newer = (load(write(tmp_path, {0: trace_file})) for trace_file in (content, linked(kernels=True)))
    assert older.ranks == newer.ranks


@pytest.mark.parametrize(
    "name", ["deep_ep::intranode::dispatch<8>", "multimem_all_reduce_kernel", "Memcpy PtoP (Device -> Device)"]
)
def test_kernels_of_a_linked_trace_that_communicate_without_nccl_are_reported(tmp_path: Path, name: str) -> None:
    content = linked(kernels=True)
    gemm = next(node for node in content["nodes"] if node["id"] == 6)
    content["nodes"].append({**gemm, "id": 30, "name": name, **times(1400, 80)})
    trace = load(write(tmp_path, {0: content}))
    (other,) = unsized(trace)
    assert (other.count, other.seconds) == (1, pytest.approx(80e-6))
    busy = sum(event.seconds for event in trace.ranks[0] if isinstance(event, ComputeSpan) and not event.communicates)
    assert busy == pytest.approx(40e-6)  # of the two products
    assert any(isinstance(event, Communication) and event.start == 100e-6 for event in trace.ranks[0])


def test_without_kernels_a_linked_trace_has_the_own_time_of_its_operators(tmp_path: Path) -> None:
    trace = load(write(tmp_path, {0: linked(kernels=False)}))
    compute, reduce = trace.ranks[0]
    assert isinstance(compute, ComputeSpan)
    assert compute.seconds == pytest.approx(120e-6)  # 50 and 70; c10d::allreduce_ waits, it does not compute
    assert isinstance(reduce, Communication)
    assert (reduce.issue, reduce.start) == (90e-6, None)
