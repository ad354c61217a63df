"""Flows between random servers: their sizes, their load, and files of sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from topoflow.traffic.flows import Flows
from topoflow.workload.flow_sizes import read_sizes

RATE = 1e9  # B/s


def test_a_load_is_what_the_flows_ask_of_all_cables() -> None:
    for load in (0.1, 1.0):
        for sizes in ("fixed", "pareto"):
            traffic = Flows(50_000, sizes, 10e3).draw(64, RATE, load)
            assert traffic.bytes.sum() / (traffic.release[-1] * RATE * 64) == pytest.approx(load, rel=0.03)


def test_arrivals_are_a_poisson_process_between_random_servers() -> None:
    traffic = Flows(100_000, "fixed", 1000).draw(10, RATE, 0.5)
    gaps = np.diff(traffic.release)
    assert (gaps >= 0).all()
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.02)
    assert (traffic.source != traffic.target).all()
    pairs = np.bincount(traffic.source * 10 + traffic.target, minlength=100)
    assert np.count_nonzero(pairs) == 90
    assert pairs[pairs > 0].std() / pairs[pairs > 0].mean() < 0.05


def test_pareto_sizes_have_the_median_and_the_tail_of_their_law() -> None:
    """Sirius 7: a mean of 512 B has a median of 46 B, one of 16 KB 1,506 B (16,384 B: 1,510)."""
    for mean, median in ((512, 46), (16_384, 1510), (100e3, 9215)):
        bytes = Flows(200_000, "pareto", mean).draw(8, RATE, 0.5).bytes
        assert np.median(bytes) == pytest.approx(median, rel=0.05)
        least = mean * 0.05 / 1.05
        assert np.mean(bytes > 10 * least) == pytest.approx(10**-1.05, rel=0.05)


def test_seeds_decide_all() -> None:
    one, two, other = (Flows(100, seed=seed).draw(8, RATE, 0.5) for seed in (1, 1, 2))
    assert one.release.tobytes() == two.release.tobytes() != other.release.tobytes()
    assert one.bytes.tobytes() == two.bytes.tobytes() != other.bytes.tobytes()


def test_sizes_of_a_file(tmp_path: Path) -> None:
    for scale in (1, 100):
        file = tmp_path / "sizes.txt"
        file.write_text(f"0 0\n100 {0.5 * scale}\n300 {1 * scale}\n")
        bytes = Flows(100_000, "file", file=str(file)).draw(8, RATE, 0.5).bytes
        assert np.mean(bytes <= 100) == pytest.approx(0.5, abs=0.01)
        assert bytes.mean() == pytest.approx(0.5 * 50 + 0.5 * 200, rel=0.02)
        assert 1 <= bytes.min() <= bytes.max() <= 300


def test_published_files_are_read(shared_data: Path) -> None:
    files = sorted((shared_data / "flow_cdf").glob("*.txt"))
    assert files
    for file in files:
        sizes, shares = read_sizes(file)
        assert (np.diff(sizes) >= 0).all()
        assert shares[-1] == 1


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("0 0\n5 x\n", ":2: must be a size and a share, both at least 0, got '5 x'"),
        ("0 0\n5 1 2\n", ":2: must be a size and a share, both at least 0, got '5 1 2'"),
        ("0 0\n5 -1\n", ":2: must be a size and a share, both at least 0, got '5 -1'"),
        ("9 0\n5 1\n", ":2: must not be below the line before, got '5 1'"),
        ("0 0\n5 0.7\n", ": must be of two lines at least, to a share of 1 or of 100 %, got 0.7"),
        ("", ": must be of two lines at least, to a share of 1 or of 100 %, got 0"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, law: str) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text(text)
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        read_sizes(file)
    assert str(error.value) == f"{file}{law}"


@pytest.mark.parametrize(
    ("given", "law"),
    [
        ({"count": 0}, "flows.count: must be a whole number within 1..10000000, got 0"),
        ({"sizes": "normal"}, "flows.sizes: must be one of pareto, fixed, file, got 'normal'"),
        ({"shape": 1.0}, "flows.shape: must be above 1, as there is no mean otherwise, got 1.0"),
        ({"mean": 0.0}, "flows.mean: must be at least 1 byte, got 0.0"),
        ({"sizes": "file"}, "flows.file: must be given for sizes=file and for no other, got None"),
    ],
)
def test_wrong_flows_are_one_line(given: dict[str, object], law: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        Flows(**given)
    assert str(error.value) == law


def test_a_load_is_positive() -> None:
    with pytest.raises(ValueError, match=r"flows\.load: must be positive, got 0"):
        Flows(10).draw(8, RATE, 0.0)
