"""Requests: those drawn have the statistics that were published, those of files are checked row by row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.scheduling.base import GroupedCluster
from topoflow.scheduling.entropy import greatest_entropy
from topoflow.scheduling.request_file import RequestFile
from topoflow.scheduling.spread import CELLS, SHAPES, TOLERANCE, Spread
from topoflow.scheduling.synthetic import Synthetic

CONFIGS = Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs" / "requests"
DAY = 86400.0
HEADER = "name,arrival_s,lifetime_s,machines,cores,memory_gib,network_gbps,gpus"


def config(name: str, **changed: Any) -> Any:
    return instantiate({**yaml.safe_load((CONFIGS / f"{name}.yaml").read_text()), **changed}, _convert_="all")


@settings(max_examples=25)
@given(st.sampled_from(SHAPES), st.floats(0.1, 100), st.floats(0.05, 0.9), st.floats(0.05, 0.8))
def test_a_spread_has_its_mean_and_deviation(shape: str, least: float, mean: float, part: float) -> None:
    """By the means of a drawn number of each of N equally likely parts.

    In a part from a to b the mean of f differs from a drawn f by less than f(b) - f(a) if f rises, so the mean of all
    parts by less than the whole rise over N. The last part has no largest number but the maximum.
    """
    count, most = 5_000, 1e3 * least
    mean = least + mean * (most - least) / 3
    spread = Spread(least, mean, most, part * np.sqrt((mean - least) * (most - mean)), shape)
    try:
        drawn = spread.draw(count, np.random.default_rng(0))
    except ValueError as error:
        assert "log-normal" in str(error)  # noqa: PT017
        return
    square = spread.mean**2 + spread.deviation**2
    cell = (most - least) / CELLS  # in which times of greatest entropy are equally likely: cell**2 / 12 more
    assert abs(drawn.mean() - spread.mean) <= (most - least) / count
    assert abs((drawn**2).mean() - square) <= (most**2 - least**2) / count + cell**2 / 12 + TOLERANCE * square
    assert least <= drawn.min() <= drawn.max() <= most


def test_only_a_mean_is_exponential() -> None:
    """Of all distributions of whole numbers from 0 on with mean m, the geometric one has the greatest entropy."""
    numbers = np.arange(1000.0)
    ratio = 3 / (1 + 3)
    assert greatest_entropy(numbers[None], np.array([3.0])) == pytest.approx((1 - ratio) * ratio**numbers, abs=1e-7)


def test_the_statistics_of_motion() -> None:
    """MOTION 4.A and Table 2, as means over seeds of 631 requests each.

    What stratified draws have left of chance: shares of machines come from some hundred large requests, and the
    deviation of the times between arrivals from the few longest.
    """
    requests: Synthetic = config("motion")
    draws = [requests.build(seed) for seed in range(20)]
    every = [request for sequence in draws for request in sequence]
    machines = np.array([request.machines for request in every])
    cores = np.array([request.cores for request in every])
    assert all(len(sequence) == 631 for sequence in draws)
    assert machines.sum() / 20 == pytest.approx(62_500, rel=0.01)
    assert np.mean((machines >= 48) & (machines <= 50)) == pytest.approx(0.507, abs=0.01)
    assert np.mean((machines >= 51) & (machines <= 100)) == pytest.approx(0.204, abs=0.01)
    servers = np.where(cores == 16, -(-machines // 3), machines)
    for least, most, share in (
        (48, 48, 0.049),
        (49, 96, 0.797),
        (97, 144, 0.079),
        (145, 192, 0.051),
        (193, 312, 0.024),
    ):
        assert np.mean((servers >= least) & (servers <= most)) == pytest.approx(share, abs=0.005), (least, most)
    assert machines[cores == 16].max() <= 400
    assert machines[cores == 32].max() <= 312
    assert machines[cores == 16].sum() / machines.sum() == pytest.approx(0.419, abs=0.02)
    types = requests.types[0]
    first_type = np.array([r.network_share == types["network_share"] and r.memory == 64 * 2**30 for r in every])
    assert machines[first_type].sum() / machines.sum() == pytest.approx(0.498, abs=0.03)
    lifetimes = np.array([request.lifetime for request in every])
    assert lifetimes.mean() == pytest.approx(1.49 * DAY, rel=0.03)
    assert lifetimes.std() == pytest.approx(8.17 * DAY, rel=0.03)
    assert lifetimes.min() >= 3
    assert lifetimes.max() == pytest.approx(89.9 * DAY, rel=1e-3)
    between = np.concatenate([np.diff([request.arrival for request in sequence]) for sequence in draws])
    assert between.mean() == pytest.approx(14.1 * 60, rel=0.03)
    assert between.std() == pytest.approx(1.27 * 3600, rel=0.1)
    server = GroupedCluster(1, 1, 48.0, 384.0, network_gbps=100.0)
    assert all(-(-r.machines // server.machines_per_server(r)) >= 48 for r in every), "at least 48 servers each"


def test_lifetimes_have_the_correlations_that_are_asked_for() -> None:
    """Spearman's, of 631 requests: its standard deviation is 4 %."""
    draws = [config("motion", repeated_lifetime=0.6, lifetime_to_size=-0.5).build(seed) for seed in range(5)]
    lives, sizes = (
        np.array([[getattr(r, name) for r in sequence] for sequence in draws]) for name in ("lifetime", "machines")
    )
    ranks = [np.argsort(np.argsort(numbers, axis=1), axis=1) for numbers in (lives, sizes)]
    assert np.corrcoef(ranks[0][:, 1:].ravel(), ranks[0][:, :-1].ravel())[0, 1] == pytest.approx(0.6, abs=0.05)
    assert np.corrcoef(ranks[0].ravel(), ranks[1].ravel())[0, 1] == pytest.approx(-0.5, abs=0.05)


def test_correlations_change_no_other_statistic() -> None:
    one, other = (config("motion", repeated_lifetime=r, lifetime_to_size=-r).build(1) for r in (0.0, 0.9))
    assert np.sort([r.machines for r in one]) == pytest.approx(np.sort([r.machines for r in other]))
    assert np.sort([r.lifetime for r in one]) == pytest.approx(np.sort([r.lifetime for r in other]), rel=0.05)


def test_the_same_seed_draws_the_same() -> None:
    requests: Synthetic = config("motion")
    assert requests.build(3) == requests.build(3) != requests.build(4)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        # which share is named, that of sizes or of servers, is a matter of rounding
        ({"machines": 400}, "share: must be one that requests can have that have all other shares"),
        ({"sizes": [{"least": 1, "most": 40, "share": 0.1}]}, "requests.sizes[0].share: must be one that requests"),
        ({"lifetime_to_size": -1.5}, "requests.lifetime_to_size: must be within -1..1, got -1.5"),
        ({"repeated_lifetime": -0.5}, "requests.repeated_lifetime: must be within 0..1, got -0.5"),
        (
            {"types": [{"share": 1.0}]},
            "requests.types[0]: must have share, cores, memory_gib, network_share, most, got",
        ),
        ({"types": []}, "requests.types: must have a type"),
        ({"server_cores": 24}, "requests.types[0]: must fit on a server, got"),
        ({"count": 0}, "requests.count: must be positive, got 0"),
        ({"count": 10**12}, "requests.count: must fit in the"),
    ],
)
def test_statistics_that_contradict_each_other(changed: dict[str, Any], line: str) -> None:
    with pytest.raises(Exception) as error:  # noqa: PT011  Hydra wraps it
        config("motion", **changed)
    cause: BaseException = error.value
    while cause.__cause__ is not None:
        cause = cause.__cause__
    assert str(cause).startswith("requests.")
    assert line in str(cause)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], RequestFile]:
    def written(text: str, **changed: Any) -> RequestFile:
        path = tmp_path / "requests.csv"
        path.write_text(text)
        requests: RequestFile = config("csv", file=str(path), **changed)
        return requests

    return written


def test_a_file(file: Callable[..., RequestFile]) -> None:
    a, b = file(f"{HEADER}\njob,10,3600,48,32,64,20,0\n,20,,1,1.5,,,8\n").build(0)
    assert (a.name, a.arrival, a.lifetime, a.machines, a.cores) == ("job", 10.0, 3600.0, 48, 32.0)
    assert (a.memory, a.network, a.gpus) == (64 * 2.0**30, 2.5e9, 0.0)
    assert (b.name, b.lifetime, b.machines, b.memory, b.gpus) == ("request 2", float("inf"), 1, 0.0, 8.0)
    (only,) = file("arrival_s,end_s,cores,who\n5,7,1,me\n", ignore=["who"]).build(0)
    assert (only.arrival, only.lifetime, only.machines) == (5.0, 2.0, 1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "must have a header, got nothing"),
        ("arrival_s,lifetime_s\n1,2\n", "must have a column 'cores', got none"),
        ("arrival_s,cores\n1,2\n", "must have a column 'lifetime_s' or 'end_s', got none"),
        ("arrival_s,lifetime_s,end_s,cores\n", "must have a column 'lifetime_s' or 'end_s', got both"),
        ("arrival_s,lifetime_s,cores,gpu\n", "a column must be of requests.columns or requests.ignore, got 'gpu'"),
        ("arrival_s,arrival_s,cores\n", "columns must have names of their own, got 'arrival_s' twice"),
        ("arrival_s,lifetime_s,cores\n1,2\n", "line 2: must have 3 columns as the header, got 2"),
        ("arrival_s,lifetime_s,cores\n1,2,x\n", "line 2.cores: must be a finite number, got 'x'"),
        ("arrival_s,lifetime_s,cores\n1,2,1e999\n", "line 2.cores: must be a finite number, got '1e999'"),
        ("arrival_s,lifetime_s,cores\n,2,nan\n", "line 2.cores: must be a finite number, got 'nan'"),
        ("arrival_s,lifetime_s,cores\n1,-2,1\n", "line 2: request 1.lifetime: must not be negative, got -2.0"),
        ("arrival_s,end_s,cores\n3,2,1\n", "line 2: request 1.lifetime: must not be negative, got -1.0"),
        ("arrival_s,lifetime_s,cores\n1,2,0\n", "line 2: request 1: must need something of a server"),
        ("arrival_s,lifetime_s,cores,machines\n1,2,1,1.5\n", "line 2.machines: must be a whole number, got 1.5"),
        ("arrival_s,lifetime_s,cores,machines\n1,2,1,0\n", "line 2: request 1.machines: must be at least 1, got 0"),
        ('arrival_s,lifetime_s,cores\n"1,2,3\n', "must be a CSV file"),
    ],
)
def test_a_wrong_file(file: Callable[..., RequestFile], text: str, line: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  below
        file(text).build(0)
    assert f"requests.csv: {line}" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_column_has_one_quantity(file: Callable[..., RequestFile]) -> None:
    """Otherwise one of the two would be overlooked."""
    with pytest.raises(
        Exception, match=r"requests\.columns\.cores: must be a column of its own, got 'n' for another too"
    ):
        file("", columns={"arrival": "arrival_s", "cores": "n", "machines": "n"})


def test_a_column_is_a_name(file: Callable[..., RequestFile]) -> None:
    with pytest.raises(Exception, match=r"columns\.cores: must be the name of a column, got \[1\]"):
        file("", columns={"arrival": "arrival_s", "cores": [1]})


def test_lines_are_those_of_the_file(file: Callable[..., RequestFile]) -> None:
    """Also after a name of two lines, and an empty line."""
    with pytest.raises(ValueError, match=r"requests\.csv: line 5\.cores: must be a finite number, got 'x'"):
        file('name,arrival_s,lifetime_s,cores\n"a\nb",1,2,3\n\nc,1,2,x\n').build(0)


def test_a_key_that_is_no_quantity(file: Callable[..., RequestFile]) -> None:
    with pytest.raises(Exception, match=r"requests\.units\.speed: must be one of name, arrival"):
        file("", units={"speed": 2})


def test_pods_of_a_real_cluster(shared_data: Path) -> None:
    path = shared_data / "cluster_traces" / "alibaba_gpu_v2023_openb_pod_list_default.csv.gz"
    requests = config("alibaba_gpu_v2023", file=str(path)).build(0)
    assert len(requests) == 8152
    assert sum(request.gpus for request in requests) > 6989
    assert requests[0].cores == 12.0
    assert requests[0].memory == 16384 * 2**20
