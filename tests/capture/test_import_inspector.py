"""Logs of NCCL Inspector: its published examples, groups by communicator, and the Parquet files of its exporter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.load import load

# The line that the README of NCCL 2.30.7's plugins/profiler/inspector has as its example, for rank 2 of 8.
PUBLISHED: dict[str, Any] = {
    "header": {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1},
    "metadata": {
        "inspector_output_format_version": "v4.0",
        "git_rev": "",
        "rec_mechanism": "profiler_plugin",
        "dump_timestamp_us": 1748030377748202,
        "hostname": "example-hostname",
        "pid": 1639453,
    },
    "coll_perf": {
        "coll": "AllReduce",
        "coll_sn": 1407,
        "coll_msg_size_bytes": 17179869184,
        "coll_exec_time_us": 61974,
        "coll_algobw_gbs": 277.210914,
        "coll_busbw_gbs": 485.119099,
    },
}
ORDERS = {"0x1": (0, 1, 2, 3), "0x2": (0, 3, 2, 1), "0x3": (1, 3)}


def lines_of(rank: int, verbose: bool = True) -> list[dict[str, Any]]:
    """Two iterations: an all-gather of all, one in another order, and a reduce-scatter of ranks 1 and 3."""
    calls = [("AllGather", "0x1"), ("AllGather", "0x2"), ("ReduceScatter", "0x3")]
    lines = []
    for step in range(2):
        for number, (name, communicator) in enumerate(calls):
            order = ORDERS[communicator]
            if rank not in order:
                continue
            at = 10**9 + 1000 * step + 100 * number
            place = order.index(rank)
            header = {"id": communicator, "comm_name": "unknown", "rank": place, "n_ranks": len(order), "nnodes": 1}
            call = {"coll": name, "coll_sn": step, "coll_msg_size_bytes": 1000, "coll_exec_time_us": 9}
            if verbose:
                kernels = [{"kernel_start_ts": at + c, "kernel_stop_ts": at + 50 + c} for c in (7, 5)]
                call["event_trace_ts"] = {"coll_start_ts": at, "coll_stop_ts": at, "kernel_events": kernels}
            lines.append({"header": header, "metadata": PUBLISHED["metadata"], "coll_perf": call})
    lines.sort(key=lambda line: str(line["header"]["id"]))  # each communicator is written at once
    return lines


def write(folder: Path, lines: list[list[dict[str, Any]]]) -> Path:
    for rank, rank_lines in enumerate(lines):
        (folder / f"host-pid{rank}.log").write_text("".join(f"{json.dumps(line)}\n" for line in rank_lines))
    return folder


def test_groups_sizes_and_times_are_those_of_the_communicators(tmp_path: Path) -> None:
    trace = load([write(tmp_path, [lines_of(rank) for rank in range(4)])])
    assert (trace.world_size, trace.iterations) == (4, 2)
    for rank in range(4):
        communications = [
            (event.op, event.group, event.bytes_in, event.bytes_out) for event in trace.communications(rank)
        ]
        gathers = [("all_gather", ORDERS[name], 1000, 4000) for name in ("0x1", "0x2")]
        mine = [("reduce_scatter", (1, 3), 2000, 1000)] if rank in (1, 3) else []
        assert communications == [*gathers, *mine] * 2, "in the order of their times, not that of the file"
    first = next(trace.communications(0))
    assert first.start == pytest.approx(5e-6)
    assert first.end == pytest.approx(57e-6)


def test_without_times_the_order_of_communicators_is_said_to_be_unknown(tmp_path: Path) -> None:
    trace = load([write(tmp_path, [lines_of(rank, verbose=False) for rank in range(4)])])
    assert trace.iterations == 1
    assert any("several communicators have no times" in note for note in trace.notes)


def test_calls_that_a_rank_lacks_are_left_out_on_the_others(tmp_path: Path) -> None:
    """Rank 2 has lost its second call on the first communicator; NCCL counts calls for each kind of collective."""
    lines = [lines_of(rank) for rank in range(4)]
    lost = next(line for line in lines[2] if line["header"]["id"] == "0x1" and line["coll_perf"]["coll_sn"] == 1)
    lines[2].remove(lost)
    trace = load([write(tmp_path, lines)])
    for rank in range(4):
        communications = [(event.op, event.group) for event in trace.communications(rank)]
        assert communications.count(("all_gather", ORDERS["0x1"])) == 1
        assert communications.count(("all_gather", ORDERS["0x2"])) == 2
    assert any(note.startswith("3 operations are missing in the files of other members") for note in trace.notes)


def test_the_published_example_is_read(tmp_path: Path) -> None:
    lines = [[{**PUBLISHED, "header": {**PUBLISHED["header"], "rank": rank}}] for rank in range(8)]
    trace = load([write(tmp_path, lines)])
    assert {(e.op, e.bytes, len(e.group)) for e in trace.communications(5)} == {("all_reduce", 17179869184, 8)}
    (tmp_path / "printed.json").write_text(json.dumps(PUBLISHED, indent=2))
    with pytest.raises(ValueError, match="give the files of all ranks"):
        load([tmp_path / "printed.json"])


def test_parquet_files_of_the_exporter_say_the_same_as_the_lines(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    tables, lines = tmp_path / "tables", tmp_path / "lines"
    for folder in (tables, lines):
        folder.mkdir()
    write(lines, [lines_of(rank) for rank in range(4)])
    for rank in range(4):
        rows = [
            {**line["header"], "comm_type": "mixed", **line["coll_perf"], **line["metadata"]} for line in lines_of(rank)
        ]
        parquet.write_table(pyarrow.Table.from_pylist(rows), tables / f"host-pid{rank}.parquet")
    a, b = load([tables]), load([lines])
    assert (a.ranks, a.iterations, a.notes) == (b.ranks, b.iterations, b.notes)
    cut = tables / "host-pid0.parquet"
    content = cut.read_bytes()
    cut.write_bytes(content[:300] + content[400:])
    with pytest.raises(ValueError, match=r"host-pid0\.parquet: must be a complete Parquet file") as error:
        load([cut])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["header", "metadata"])
def test_a_log_without_its_beginning_says_so(field: str, tmp_path: Path) -> None:
    lines = [{key: value for key, value in line.items() if key != field} for line in lines_of(0)]
    with pytest.raises(ValueError, match=f"pid0.log:1: {field}: must be given .*: give the log from its beginning"):
        load([write(tmp_path, [lines])])


def test_a_log_of_two_processes_is_refused(tmp_path: Path) -> None:
    metadata = {"metadata": {**PUBLISHED["metadata"], "pid": 7}}
    lines = [*lines_of(0), *(line | metadata for line in lines_of(1))]
    with pytest.raises(ValueError, match=r"pid0\.log:5: metadata\.pid: must be that of the lines before: .*, got 7"):
        load([write(tmp_path, [lines])])


def changed(part: str, **values: Any) -> list[dict[str, Any]]:
    lines = lines_of(0)
    lines[0] = {**lines[0], part: {**lines[0][part], **values}}
    return lines


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            changed("metadata", inspector_output_format_version="v9"),
            "pid0.log:1: metadata.inspector_output_format_version",
        ),
        (changed("header", n_ranks=0), "pid0.log:1: header.n_ranks: must be a whole number within 1..131072, got 0"),
        (changed("header", rank=4), "header.rank: must be a whole number within 0..3, got 4"),
        (changed("coll_perf", coll_msg_size_bytes="big"), "pid0.log:1: coll_perf.coll_msg_size_bytes: must be a whole"),
        (changed("header", id="0x9"), "all ranks of communicator 0x9 must have a file, got those of 1 of 4"),
    ],
)
def test_what_is_wrong_is_one_line(lines: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load([write(tmp_path, [lines, *(lines_of(rank) for rank in (1, 2, 3))])])
    assert message in str(error.value)
