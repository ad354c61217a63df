"""``topoflow nccl``: the table of nccl-tests, predicted, and a run that falls short of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from topoflow.cli import main
from topoflow.cli.nccl import SIZES
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl_tests_log import read
from topoflow.collectives.nccl_time import predict
from topoflow.hardware.presets import preset

HEAD = """\
# nccl-tests version 2.17.1 nccl-headers=22602 nccl-library=22602
# Collective test starting: all_reduce_perf
# Using devices
{ranks}# NCCL version 2.26.2+cuda12.8
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
RANKS = "".join(f"#  Rank {rank:2} Group  0 Pid {rank} on node device  0 [0x0f] NVIDIA H100\n" for rank in range(16))


def log(path: Path, slower: float, head: str = HEAD.format(ranks=RANKS)) -> Path:
    """Write what nccl-tests prints on a cluster whose times are ``slower`` times the predicted ones."""
    comm = Communicator(preset("hgx_h100"), 16, version="2.26.2")
    times = {size: predict(comm, "all_reduce", size).time * slower * 1e6 for size in SIZES}
    lines = [f"{size} {size // 4} float sum -1 {us:.2f} 0 0 0 {us:.2f} 0 0 0\n" for size, us in times.items()]
    path.write_text(head + "".join(lines) + "# Out of bounds values : 0 OK\n")
    return path


def test_the_table_has_every_size_and_the_csv_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.csv"
    assert main(["nccl", "all_reduce", "node=hgx_h100", "gpus=64", "--csv", str(out)]) == 0
    printed = capsys.readouterr().out
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["bytes", "time_us", "algbw", "busbw", "algorithm", "protocol", "channels", "limit"]
    assert [int(row["bytes"]) for row in rows] == list(SIZES)
    for row in rows:
        assert row["bytes"] in printed
        assert float(row["busbw"]) == pytest.approx(float(row["algbw"]) * 2 * 63 / 64, abs=2e-4)


def test_a_run_as_fast_as_predicted_does_not_fall_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path / "run.log", 1.0)
    assert main(["nccl", "all_reduce", "gpus=16", "--measured", str(path)]) == 0
    assert "No size takes more than 1.25 times" in capsys.readouterr().out


def test_a_slow_run_names_its_limits_and_how_many_ports_seem_to_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path / "run.log", 4.0)
    assert main(["nccl", "all_reduce", "gpus=16", "--measured", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "up to 4.0 times the predicted time" in printed
    assert "of 8 ports of a node worked" in printed


def test_the_log_gives_the_version_the_type_and_the_times(tmp_path: Path) -> None:
    measured = read(log(tmp_path / "run.log", 1.0))
    assert (measured.op, measured.ranks, measured.version, measured.dtype) == ("all_reduce", 16, "2.26.2", "float")
    assert list(measured.times) == list(SIZES)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("float", "fload", "type: must be one of"),
        (" sum -1 ", " sum -1 fast ", "time: must be a number"),
        (" sum -1 ", " sum -1 -", "time: must be positive"),
        (" sum -1 ", " sum -1 nan ", "time: must be positive"),
        ("all_reduce_perf", "all_gather_perf", "is a run of all_gather"),
        ("#  Rank 15 ", "# ", "is a run of 15 ranks"),
        (" float ", " ", "type: must be one of"),
        ("2.26.2+", "1.26.2+", "nccl.version"),
    ],
)
def test_a_damaged_log_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    path = log(tmp_path / "run.log", 1.0)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert main(["nccl", "all_reduce", "gpus=16", "--measured", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_log_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(HEAD.format(ranks=RANKS))
    with pytest.raises(ValueError, match="must have rows of nccl-tests"):
        read(path)


@pytest.mark.parametrize(
    "words",
    [
        ["allreduce"],
        ["all_reduce", "gpu=8"],
        ["all_reduce", "gpus=8", "gpus=16"],
        ["all_reduce", "gpus=-8"],
        ["all_reduce", "node=dgx_a100", "NCCL_ALGO=NVLS"],
        ["all_reduce", "node=l40s", "NCCL_PROTO=LL128"],
        ["all_reduce", "fabric=toru"],
        ["all_reduce", "dtype=float7"],
        ["all_reduce", "network=token_ring"],
        ["all_reduce", "nccl.version=two"],
        ["all_reduce", "node=missing.xml"],
        ["all_reduce", "--measured", "missing.log"],
    ],
)
def test_wrong_input_is_refused_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccl", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_file_without_nvlinks_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = '<pci busid="0000:0{}:00.0" class="0x030200" device="0x20b0" link_speed="16 GT/s" link_width="16"/>'
    path = tmp_path / "cloud.xml"
    path.write_text(f'<system version="1"><cpu numaid="0">{gpu.format(1)}{gpu.format(2)}</cpu></system>')
    assert main(["nccl", "all_reduce", f"node={path}", "gpus=2"]) == 0
    printed = capsys.readouterr().out
    assert "it names no NVLink" in printed
    assert "PCIe" in printed


def test_pxn_forwards_an_all_to_all_over_nvlink(tmp_path: Path) -> None:
    rows = {}
    for disabled in ("0", "1"):
        out = tmp_path / f"{disabled}.csv"
        words = ["all_to_all", "node=gb200_nvl72", "gpus=144", f"NCCL_PXN_DISABLE={disabled}", "fabric=ideal_switch"]
        assert main(["nccl", *words, "--csv", str(out)]) == 0
        rows[disabled] = [float(row["time_us"]) for row in csv.DictReader(out.open())]
    assert all(pxn >= direct for pxn, direct in zip(rows["0"], rows["1"], strict=True))
    assert rows["0"] != rows["1"]
