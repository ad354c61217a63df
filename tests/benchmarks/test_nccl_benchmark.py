"""``benchmarks/nccl.py``: errors by size and cluster, of any file of measured collectives."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from calibration import nccl_calibration

from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl_time import INSIDE, NETWORKS, predict
from topoflow.hardware.presets import preset

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "nccl_measurements"
COLUMNS = ("gpu", "nodes", "gpus_per_node", "fabric", "collective", "bytes", "time_us", "nccl_version")


def metrics(*files: Path) -> tuple[dict[str, float], str]:
    words = [f"rows={file}" for file in files]
    done = subprocess.run(
        [sys.executable, "benchmarks/nccl.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pairs = (line.split("  #")[0].rsplit(" ", 1) for line in done.stdout.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}, done.stdout


def write(path: Path, factor: float, *more: tuple[object, ...]) -> Path:
    comm = Communicator(preset("hgx_h100"), 16, version="2.26.2")
    rows: list[tuple[object, ...]] = []
    for power in (13, 20, 30):
        time_us = predict(comm, "all_reduce", 2**power).time * 1e6 * factor
        rows.append(("NVIDIA H100 80GB", 2, 8, "8x NDR InfiniBand", "all_reduce", 2**power, time_us, "2.26.2"))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows, *more])
    return path


def test_errors_are_those_of_the_rows(tmp_path: Path) -> None:
    values, _ = metrics(write(tmp_path / "rows.csv", 0.8))
    assert values["nccl.rows"] == 3
    for name in ("large", "small", "from_64KiB", "below_64KiB"):
        assert values[f"nccl.median_error.{name}"] == pytest.approx(0.25)
        assert values[f"nccl.held_out.hgx_h100.2x8.median_error.{name}"] == pytest.approx(0.25)


def test_a_fit_is_judged_on_the_rows_that_it_has(tmp_path: Path) -> None:
    fit = tmp_path / "fit.csv"
    fit.write_text(
        "nodes,gpus_per_node,collective,latency_us,peak_algbw_gb_s\n2,8,all_reduce,0,1\n1,8,all_reduce,0,1\n"
    )
    done = subprocess.run(
        [sys.executable, "benchmarks/nccl.py", f"rows={write(tmp_path / 'rows.csv', 1.0)}", f"fit={fit}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nccl.both.ours.median_error.large 0.0000  # 1 rows" in done.stdout
    comm = Communicator(preset("hgx_h100"), 16, version="2.26.2")
    error = 2**30 / 1e9 / predict(comm, "all_reduce", 2**30).time - 1
    assert f"nccl.both.autoparallel.median_error.large {error:.4f}" in done.stdout


def test_rows_that_cannot_be_said_are_counted_and_named(tmp_path: Path) -> None:
    more = [("Gaudi 3", 1, 8, "", "all_reduce", 8, 1.0, ""), ("H100", 2, 8, "pigeons", "all_reduce", 8, 1.0, "")]
    values, text = metrics(write(tmp_path / "rows.csv", 1.0, *more))
    assert (values["nccl.rows"], values["nccl.unsaid"]) == (3, 2)
    assert "1 rows cannot be said: no node with Gaudi 3" in text
    assert "1 rows cannot be said: network: pigeons" in text


def test_hosts_of_a_rack_are_one_node(tmp_path: Path) -> None:
    time_us = predict(Communicator(preset("gb300_nvl72"), 36), "all_reduce", 2**30).time * 1e6
    row = ("GB300", 9, 4, "NVLink5, one NVL72", "all_reduce", 2**30, time_us, "")
    values, _ = metrics(write(tmp_path / "rows.csv", 1.0, row))
    assert values["nccl.rows"] == 4
    assert values["nccl.held_out.gb300_nvl72.1.median_error.large"] == pytest.approx(0.0)


def test_the_rate_of_ports_is_that_of_the_row(tmp_path: Path) -> None:
    row = ("H100", 2, 8, "8x 200G HDR InfiniBand", "all_reduce", 2**33, 1.0, "2.26.2")
    slow, _ = metrics(write(tmp_path / "slow.csv", 1.0, row))
    fast, _ = metrics(write(tmp_path / "fast.csv", 1.0, (*row[:3], "8x NDR400", *row[4:])))
    name = "nccl.held_out.hgx_h100.2x8.median_error.large"
    assert slow[name] > 1.2 * fast[name]


@pytest.mark.parametrize(("size", "time_us"), [("x", 1.0), (8, "x"), (8, -1.0), (8, "nan"), (0, 1.0)])
def test_a_number_that_cannot_be_is_refused_with_its_line(tmp_path: Path, size: object, time_us: object) -> None:
    path = write(tmp_path / "rows.csv", 1.0, ("H100", 1, 8, "NVLink", "all_reduce", size, time_us, ""))
    words = [sys.executable, "benchmarks/nccl.py", f"rows={path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "rows.csv:5: bytes, time_us: must be positive" in line


def test_a_file_with_other_columns_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n")
    words = [sys.executable, "benchmarks/nccl.py", f"rows={path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "rows.csv: must have the columns" in done.stderr


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data, which CI does not have")
def test_measurements_that_nothing_was_calibrated_on_are_as_near_as_the_accuracy_page_says() -> None:
    files = [DATA / name for name in ("aiconfigurator_one_host.csv.gz", "nccl_tests.csv", "alps_gh200_all_reduce.csv")]
    values, _ = metrics(*files)
    assert values["nccl.rows"] == 14537
    assert values["nccl.held_out.inside.median_error.large"] < 0.065
    assert values["nccl.held_out.inside.median_error.from_64KiB"] < 0.08
    assert values["nccl.held_out.inside.median_error.below_64KiB"] < 0.06
    assert values["nccl.held_out.between.median_error.large"] < 0.06
    assert values["nccl.held_out.between.median_error.small"] < 0.1


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data, which CI does not have")
def test_the_coefficients_are_those_that_the_calibration_prints(capsys: pytest.CaptureFixture[str]) -> None:
    nccl_calibration.main([DATA / "aiconfigurator_one_host.csv.gz"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 40
    for line in lines:
        name, value = line.removeprefix("nccl.inside.").split()
        kind, field, *place = name.split(".")
        shipped = getattr(INSIDE[kind], field)
        assert (shipped[int(place[0])] if place else shipped) == pytest.approx(float(value), rel=0.006), name


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data, which CI does not have")
def test_the_network_is_that_which_the_calibration_prints(capsys: pytest.CaptureFixture[str]) -> None:
    nccl_calibration.main([DATA / "alps_gh200_all_reduce.csv"])
    printed = dict(line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines())
    shipped = NETWORKS["slingshot"]
    for name, value in (("hop.0", shipped.hop[0]), ("message", shipped.message), ("efficiency", shipped.efficiency)):
        assert float(printed[f"nccl.network.slingshot.{name}"]) == pytest.approx(value, rel=0.006)
