"""Operators on symmetric memory: sized where shapes and group are recorded, seen but not sized where they are not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.test_import_damage import damage, must_be_trace_or_value_error, mutate
from tests.capture.test_import_execution_trace import ALL, DATA, FORMS, TENSOR, WORLD, document, times, write
from tests.capture.test_import_kineto import c10d, host, kernel
from topoflow.capture.assumptions import unsized
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load
from topoflow.capture.torch_names import SYMMETRIC

ALL_REDUCE = "symm_mem::multimem_all_reduce_"
KERNEL = "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)"
MESH = {"tp": [0, 1], "dp": [0, 2, 4, 6]}
BFLOAT = ["c10::BFloat16", "", ""]


def operator(ts: float, name: str = ALL_REDUCE, dims: Any = ([8, 16], [], []), types: Any = BFLOAT) -> dict[str, Any]:
    """The row of the host: PyTorch records no strings, so the group's name is an empty one."""
    return c10d(ts, name, list(dims), list(types), **{"Concrete Inputs": ["", "", ""]})


def profiled(folder: Path, *rows: Any, groups: dict[str, list[int]]) -> Path:
    config = [{"pg_name": name, "ranks": ranks} for name, ranks in groups.items()]
    info = {"rank": 0, "world_size": WORLD, "pg_config": config}
    path = folder / "profile.json"
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": list(rows)}))
    return path


def executed(folder: Path, *nodes: dict[str, Any]) -> Path:
    """Of rank 0: a collective of tp and one of dp, then ``nodes``."""
    content = document(FORMS["1.1.1"], 0, [("allreduce", "tp", TENSOR), ("allreduce", "dp", DATA)])
    content["nodes"] = [*content["nodes"], *nodes]
    path = folder / "rank0.json"
    path.write_text(json.dumps(content))
    return path


def node(name: str = ALL_REDUCE, group: str = "tp", number: int = 50) -> dict[str, Any]:
    tensor = [4, 5, 0, 128, 2, "cuda:0"]
    into = {"values": [tensor, "sum", group], "types": ["Tensor(c10::BFloat16)", "String", "String"]}
    return {"id": number, "name": name, "inputs": into, "outputs": {"values": [tensor]}, "attrs": []}


RUN = (operator(50), *kernel(51, 60, 7, KERNEL))
BEFORE = (
    host(10, "allreduce", (24, 24), **{"Process Group Name": "tp"}),
    *kernel(11, 20, 5, "ncclDevKernel_AllReduce_Sum"),
    host(30, "allreduce", (24, 24), **{"Process Group Name": "dp"}),
    *kernel(31, 40, 5, "ncclDevKernel_AllReduce_Sum"),
)


def sent(trace: Trace) -> list[tuple[str, tuple[int, ...], int]]:
    return [(event.op, event.group, event.bytes) for event in trace.communications(0)]


def test_what_is_recorded_of_an_operator_sizes_it(tmp_path: Path) -> None:
    trace = load([profiled(tmp_path, *RUN, groups={"tp": [0, 1]})])
    (event,) = trace.communications(0)
    assert (event.op, event.group, event.dtype, event.bytes_in) == ("all_reduce", (0, 1), "bfloat16", 256)
    assert (event.start, event.end) == (10e-6, 17e-6)
    assert unsized(trace) == ()


@pytest.mark.parametrize(
    ("name", "dims", "concrete", "expected"),  # (operation, bytes in, bytes out), of a group of 4
    [
        ("symm_mem::multimem_all_gather_out", [[8], [], [32]], [], ("all_gather", 16, 64)),
        ("symm_mem::_low_contention_reduce_scatter", [[32], [], []], [], ("reduce_scatter", 64, 16)),
        ("symm_mem::reduce_scatter_out", [[99], [], [], [8]], [], ("reduce_scatter", 64, 16)),
        ("symm_mem::nvshmem_all_to_all", [[32], [32], []], [], ("all_to_all", 64, 64)),
        ("symm_mem::nvshmem_broadcast", [[32], [], []], ["", "1", ""], ("broadcast", 64, 64)),
        ("symm_mem::one_shot_all_reduce_copy", [[99], [32], [], []], [], ("all_reduce", 64, 64)),
    ],
)
def test_operators_have_the_sizes_of_their_tensors(
    tmp_path: Path, name: str, dims: Any, concrete: list[str], expected: tuple[str, int, int]
) -> None:
    row = operator(1, name, dims, ["c10::BFloat16"] * len(dims))
    row["args"]["Concrete Inputs"] = concrete
    (event,) = load([profiled(tmp_path, row, groups={"dp": MESH["dp"]})]).communications(0)
    assert (event.op, event.bytes_in, event.bytes_out) == expected
    assert event.root == (2 if concrete else None)


def test_which_of_several_groups_a_profile_does_not_say_and_an_execution_trace_does(tmp_path: Path) -> None:
    profile = profiled(tmp_path, *BEFORE, *RUN, groups=MESH)
    alone = load([profile])
    assert sent(alone) == [("all_reduce", (0, 1), 96), ("all_reduce", (0, 2, 4, 6), 96)]
    assert [(one.name, one.count, one.seconds) for one in unsized(alone)] == [(ALL_REDUCE, 1, pytest.approx(7e-6))]
    for group, ranks in MESH.items():
        both = load([profile, executed(tmp_path, node(group=group))])
        assert sent(both)[2:] == [("all_reduce", tuple(ranks), 256)]
        assert unsized(both) == ()
        assert [*both.communications(0)][2].end == pytest.approx(57e-6)


def test_shapes_that_a_profile_lacks_are_those_of_the_execution_trace(tmp_path: Path) -> None:
    row = operator(50)
    row["args"] = {}
    profile = profiled(tmp_path, *BEFORE, row, *RUN[1:], groups=MESH)
    assert [one.seconds for one in unsized(load([profile]))] == [pytest.approx(7e-6)]
    assert sent(load([profile, executed(tmp_path, node())]))[2:] == [("all_reduce", (0, 1), 256)]


@pytest.mark.parametrize("missing", ["profile", "execution trace"])
def test_operators_that_one_of_two_files_lacks_are_seen_but_not_sized(tmp_path: Path, missing: str) -> None:
    profile = profiled(tmp_path, *BEFORE, *(RUN[1:] if missing == "profile" else RUN), groups=MESH)
    trace = load([profile, executed(tmp_path, *([node()] if missing == "profile" else []))])
    assert sent(trace) == [("all_reduce", (0, 1), 96), ("all_reduce", (0, 2, 4, 6), 96)]
    assert [one.seconds for one in unsized(trace)] == [pytest.approx(7e-6)]


def test_an_execution_trace_alone_has_the_operators_of_groups_that_it_lists(tmp_path: Path) -> None:
    content = document(FORMS["1.1.1"], 0, [("allreduce", "0", ALL), ("allreduce", "tp", TENSOR)])
    content["nodes"] += [node(), node(group="nowhere", number=60)]
    trace = load(write(tmp_path, {0: content}))
    assert sent(trace)[2:] == [("all_reduce", (0, 1), 256)]
    assert [one.name for one in unsized(trace)] == [ALL_REDUCE]


@pytest.mark.parametrize("kernels", [2, 3])
def test_operators_of_a_linked_trace_have_its_kernels_or_are_what_these_show(tmp_path: Path, kernels: int) -> None:
    form = replace(FORMS["1.1.1"], more=())
    content = document(form, 0, [("allreduce", "0", ALL)])
    content["nodes"].insert(0, document(form, 0, [("allreduce", "tp", TENSOR)])["nodes"][-1])  # which lists tp
    names = ["ncclDevKernel_AllReduce", "multimem_all_reduce_kernel", "deep_ep::dispatch"][:kernels]
    device = [
        {**node(), "id": 90 + number, "cat": "kernel", "stream": 9, "name": name, **times(100 * number, 20)}
        for number, name in enumerate(names)
    ]
    content["nodes"] = [*content["nodes"], {**node(), **times(5, 1)}, *device]
    trace = load(write(tmp_path, {0: content}))
    timed = [(event.bytes, event.start) for event in trace.communications(0)]
    assert timed == ([(96, 0.0), (256, pytest.approx(100e-6))] if kernels == 2 else [(96, 0.0)])
    assert [one.seconds for one in unsized(trace)] == [pytest.approx(20e-6)] * (0 if kernels == 2 else 2)


def test_the_kernel_of_coalesced_operations_is_not_that_of_an_operator_before_them(tmp_path: Path) -> None:
    rows = [operator(1), host(10, "send", **{"Dst Rank": 1, "Process Group Name": "tp"}), host(20, "coalesced")]
    trace = load([profiled(tmp_path, *rows, *kernel(21, 30, 9, "ncclDevKernel_SendRecv"), groups={"tp": [0, 1]})])
    assert [(event.op, event.start) for event in trace.communications(0)] == [("all_reduce", None), ("send", 29e-6)]


def test_what_no_argument_says_stays_unsized(tmp_path: Path) -> None:
    # splits of all_to_all_vdev are on the device; the chunks of a fused product overlap as nothing records
    vdev = operator(1, "symm_mem::all_to_all_vdev", [[64], [64], [4], [4], []], ["c10::BFloat16"] * 5)
    fused = operator(20, "symm_mem::fused_all_gather_matmul", [[8, 8], [[8, 8]], [], []], ["float", "", "", ""])
    run = [*kernel(2, 5, 9, "nvshmem_all_to_all_kernel"), *kernel(21, 30, 4, "Memcpy PtoP (Device -> Device)")]
    run[-1]["cat"] = "gpu_memcpy"
    trace = load([profiled(tmp_path, vdev, fused, *run, groups={"tp": [0, 1]})])
    assert not any(isinstance(event, Communication) for event in trace.ranks[0])
    assert sum(one.seconds for one in unsized(trace)) == pytest.approx(13e-6)
    assert not any(isinstance(event, ComputeSpan) and not event.communicates for event in trace.ranks[0])


@damage
@given(choose=st.data())
def test_damaged_operators_are_refused_or_harmless(choose: st.DataObject, tmp_path: Path) -> None:
    paths = [profiled(tmp_path, *BEFORE, *RUN, groups=MESH), executed(tmp_path, node())]
    damaged = choose.draw(st.sampled_from(paths))
    document = json.loads(damaged.read_text())
    key = "traceEvents" if "traceEvents" in document else "nodes"
    mutate(next(row for row in document[key] if row["name"] == ALL_REDUCE), choose)
    damaged.write_text(json.dumps(document))
    for files in (paths, [damaged]):
        must_be_trace_or_value_error(files)


def test_arguments_are_where_torch_has_them() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.distributed._symmetric_memory")
    schemas = {schema.name: schema for schema in torch._C._jit_get_all_schemas()}
    available = [name for name in SYMMETRIC if name in schemas]  # the NVSHMEM operators came later than the others
    assert ALL_REDUCE in available
    for name in available:
        signature, arguments = SYMMETRIC[name], schemas[name].arguments
        assert arguments[signature.group].name == "group_name"
        assert signature.other is None or arguments[signature.other].name == "root"
        tensors = [at for at in (signature.input, signature.output) if at is not None]
        assert all(str(arguments[at].type) == "Tensor" for at in tensors)
