"""``topoflow inspect`` on the traces of real jobs, whose sums are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from topoflow.cli import main


def inspect_json(capsys: pytest.CaptureFixture[str], *paths: Path) -> dict[str, Any]:
    assert main(["inspect", *map(str, paths), "--json"]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def line(summary: dict[str, Any], **values: object) -> dict[str, Any]:
    """The one line of collectives with these values."""
    lines = [item for item in summary["collectives"] if all(item[key] == value for key, value in values.items())]
    assert len(lines) == 1, lines
    return dict(lines[0])


@pytest.fixture(scope="session")
def resnet(shared_data: Path) -> Path:
    return shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"


def test_resnet50_reduces_its_parameters_once_a_step(resnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = inspect_json(capsys, resnet)
    assert (summary["iterations"], summary["ranks"], summary["world_size"]) == (3, 1, 2)
    reduced = line(summary, op="all_reduce", group_size=2, dtype="float32")
    assert reduced["count"] == 5  # buckets in each of 3 steps
    assert reduced["bytes_per_iteration"] == 4 * 25_557_032  # fp32 parameters of ResNet-50
    assert 0 < summary["exposed_share"] <= summary["communication_share"] < 1


def test_dlrm_exchanges_five_times_and_reduces_three_times(
    dlrm_traces: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    summary = inspect_json(capsys, *dlrm_traces)
    assert (summary["ranks"], summary["world_size"]) == (8, 8)
    assert sum(item["count"] for item in summary["collectives"] if item["op"] == "all_to_all") == 5
    assert sum(item["count"] for item in summary["collectives"] if item["op"] == "all_reduce") == 3
    assert summary["groups"][0]["ranks"] == list(range(8))


def test_megatron_reduces_activations_between_its_two_ranks(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared_data / "megatron_tp2"
    summary = inspect_json(capsys, *(folder / f"kineto_rank{rank}.pt.trace.json.gz" for rank in (0, 1)))
    reduced = line(summary, op="all_reduce", group_size=2, dtype="float32")
    assert reduced["count"] == 13
    # 10 of 6144 and 3 of 512 fp32 elements, in one iteration
    assert reduced["bytes_per_iteration"] * summary["iterations"] == 4 * (10 * 6144 + 3 * 512)


def test_vgg16_task_graph_reduces_what_is_published(
    task_graphs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    summary = inspect_json(capsys, task_graphs["100vgg_16"])
    reduced = line(summary, op="all_reduce", group_size=16)
    assert (reduced["count"], reduced["bytes_per_iteration"]) == (32, 1_157_409_952)
    assert summary["communication_share"] is None  # a task graph has no times of its transfers


def test_a_person_gets_tables_a_heat_map_and_pictures(
    resnet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["inspect", str(resnet), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for words in ("all_reduce", "102,228,128 B", "1 of 2 ranks recorded", "exposed", "host idle", "██"):
        assert words in printed
    pictures = {"shares.png", "traffic.png", "timeline.png"}
    assert {path.name for path in out.iterdir()} == {*pictures, "inspect.html", "inspect.json"}
    page = (out / "inspect.html").read_text()
    for words in ("102,228,128 B", "host idle", "data:image/png;base64"):
        assert words in page
    for name in pictures:
        image = matplotlib.image.imread(out / name)
        assert image.shape[1] >= 600
        assert len(np.unique((255 * image[:, :, :3]).astype(int) @ [1, 256, 65536])) > 10


def test_two_jobs_are_shown_side_by_side(
    resnet: Path, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(resnet), str(shared_data / "megatron_tp2"), "--out", str(tmp_path / "out")]
    assert main(["inspect", *files]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["step", "time", "219.8", "ms", "73.83", "ms", "0.34"] in rows
    assert "B / A" in (tmp_path / "out" / "inspect.html").read_text()
    assert main(["inspect", *files, "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == [
        "nccl_parser_config_nccl_data",
        "megatron_tp2",
    ]


def test_three_jobs_are_refused(resnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *[str(resnet)] * 3]) == 2
    assert "must be of different ranks" in capsys.readouterr().err


def test_bandwidths_are_set_beside_the_rate_of_the_link(resnet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(resnet), "--json", "--bandwidth-gbps", "200"]) == 0
    reduced = line(json.loads(capsys.readouterr().out), op="all_reduce")
    assert reduced["link_share"] == pytest.approx(reduced["bus_bandwidth"] / 25e9)
    assert main(["inspect", str(resnet), "--bandwidth-gbps", "-1"]) == 2
    assert "--bandwidth-gbps: must be positive, got -1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [b"", b"{", b"not a trace", b"\x00\x01\x02" * 100], ids=["empty", "cut", "text", "bin"]
)
def test_a_file_that_is_no_trace_is_one_line_and_exit_code_2(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    assert main(["inspect", str(path), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "trace.json" in printed.err
    assert printed.err.count("\n") == 1
    assert [item.name for item in tmp_path.iterdir()] == ["trace.json"]


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "nowhere.json")]) == 2
    assert "nowhere.json" in capsys.readouterr().err
