"""Flows between random servers: their sizes, their load, and files of sizes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import topoflow
from topoflow.cli import main
from topoflow.digest import digest
from topoflow.workload.base import Messages
from topoflow.workload.flow_sizes import FixedSize, Pareto, Sizes, SizeTable, read_sizes
from topoflow.workload.messages.flows import Arrivals, Flows

RATE = 1e9  # B/s
GPU: Any = SimpleNamespace(local_bandwidth=1e12)


def drawn(count: int, sizes: Sizes, servers: int = 8, load: float = 0.5, seed: int = 0) -> Messages:
    return Arrivals(GPU, sizes, count, load, RATE, seed).messages(servers)


def begins(messages: Messages) -> np.ndarray:
    assert messages.release is not None
    return messages.release


def test_a_load_is_what_the_flows_ask_of_all_cables() -> None:
    for load in (0.1, 1.0):
        for sizes in (FixedSize(10e3), Pareto(10e3, 1.05)):
            messages = drawn(50_000, sizes, 64, load)
            assert messages.bytes.sum() / (begins(messages)[-1] * RATE * 64) == pytest.approx(load, rel=0.03)


def test_arrivals_are_a_poisson_process_between_random_servers() -> None:
    messages = drawn(100_000, FixedSize(1000), 10)
    gaps = np.diff(begins(messages))
    assert (gaps >= 0).all()
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.02)
    assert (messages.source != messages.target).all()
    pairs = np.bincount(messages.source * 10 + messages.target, minlength=100)
    assert np.count_nonzero(pairs) == 90
    assert pairs[pairs > 0].std() / pairs[pairs > 0].mean() < 0.05


def test_pareto_sizes_have_the_median_and_the_tail_of_their_law() -> None:
    """Sirius 7: a mean of 512 B has a median of 46 B, one of 16 KB 1,506 B (16,384 B: 1,510)."""
    for mean, median in ((512, 46), (16_384, 1510), (100e3, 9215)):
        bytes = drawn(200_000, Pareto(mean, 1.05)).bytes
        assert np.median(bytes) == pytest.approx(median, rel=0.05)
        smallest = mean * 0.05 / 1.05
        assert np.mean(bytes > 10 * smallest) == pytest.approx(10**-1.05, rel=0.05)


def test_seeds_decide_all() -> None:
    one, two, other = (drawn(100, Pareto(1e5, 1.05), seed=seed) for seed in (1, 1, 2))
    assert begins(one).tobytes() == begins(two).tobytes() != begins(other).tobytes()
    assert one.bytes.tobytes() == two.bytes.tobytes() != other.bytes.tobytes()


def test_sizes_of_a_file(tmp_path: Path) -> None:
    for scale in (1, 100):
        file = tmp_path / "sizes.txt"
        file.write_text(f"0 0\n100 {0.5 * scale}\n300 {1 * scale}\n")
        bytes = drawn(100_000, read_sizes(file)).bytes
        assert np.mean(bytes <= 100) == pytest.approx(0.5, abs=0.01)
        assert bytes.mean() == pytest.approx(0.5 * 50 + 0.5 * 200, rel=0.02)
        assert 1 <= bytes.min() <= bytes.max() <= 300


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "same", "other")]
    for file, text in zip(files, ("0 0\n9 1\n", "0 0\n9 100\n", "0 0\n8 1\n"), strict=True):
        file.write_text(text)
    one, renamed, other = (digest(Flows(GPU, RATE, 1, sizes="file", file=str(file)).build().sizes) for file in files)
    assert one == renamed != other


@pytest.mark.parametrize("fidelity", ["fluid", "slotted", "packet"])
def test_flows_run_in_every_fidelity_and_end_after_they_begin(fidelity: str) -> None:
    fabric = "sirius" if fidelity == "slotted" else "leaf_spine"
    (result,) = topoflow.compare(workload="flows", servers=8, fabric=fabric, fidelity=fidelity, **SMALL)
    traffic, rate = result.traffic, 4 * 12.5e9
    assert (traffic.release > 0).all()
    assert (result.timeline.task_finish >= traffic.release + traffic.bytes / rate).all()


SMALL = {"workload.count": 50, "workload.mean": 2e4}


def test_published_files_are_read(shared_data: Path) -> None:
    files = sorted((shared_data / "flow_cdf").glob("*.txt"))
    assert files
    for file in files:
        table = read_sizes(file)
        assert (np.diff(table.bytes) >= 0).all()
        assert table.shares[-1] == 1
        sent = drawn(20_000, table).bytes
        assert sent.mean() == pytest.approx(_mean(table), rel=0.15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 0\n5 x\n", ":2: must be a size and a share, both at least 0, got '5 x'"),
        ("0 0\n5 1 2\n", ":2: must be a size and a share, both at least 0, got '5 1 2'"),
        ("0 0\n5 -1\n", ":2: must be a size and a share, both at least 0, got '5 -1'"),
        ("9 0\n5 1\n", ":2: must not be below the line before, got '5 1'"),
        ("0 0\n5 0.7\n", ": must be of two lines at least, to a share of 1 or of 100 %, got 0.7"),
        ("", ": must be of two lines at least, to a share of 1 or of 100 %, got 0"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text(text)
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        read_sizes(file)
    assert str(error.value) == f"{file}{message}"


def _mean(table: SizeTable) -> float:
    """B of a distribution that is uniform between its rows."""
    middle = (table.bytes[1:] + table.bytes[:-1]) / 2
    return float((np.diff(table.shares) * middle).sum() + table.shares[0] * table.bytes[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workload.count=0"], "workload.count: must be positive, got 0"),
        (["workload.count=100000000"], "workload.count: must be at most 10000000, got 100000000"),
        (["workload.sizes=normal"], "workload.sizes: must be one of pareto, fixed, file, got 'normal'"),
        (["workload.shape=1"], "workload.shape: must be above 1, as there is no mean otherwise, got 1"),
        (["workload.mean=0"], "workload.mean: must be at least 1 byte, got 0"),
        (["workload.mean=.nan", "workload.sizes=fixed"], "workload.mean: must be a number, got '.nan'"),
        (["workload.sizes=file"], "workload.file: must be given for sizes=file and for no other, got None"),
        (["workload.file=x"], "workload.file: must be given for sizes=file and for no other, got 'x'"),
        (["workload.sizes=file", "workload.file=/no/file"], "/no/file: No such file or directory"),
        (["workload.load=0"], "workload.load: must be positive, got 0"),
        (["workload.load=-0.5"], "workload.load: must be positive, got -0.5"),
        (["workload.load=nan"], "workload.load: must be positive, got nan"),
        (["servers=1"], "servers: must be at least 2 for flows, got 1"),
        (["workload.seed=-1"], "workload.seed: must be a whole number within 0..9223372036854775807, got -1"),
        (
            ["strategy=data_parallel"],
            "strategy: must be ranks for flows, whose layers are not known, got data_parallel",
        ),
    ],
)
def test_wrong_flows_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "workload=flows", "fabric=ring", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
