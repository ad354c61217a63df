"""Goodput: what a run of weeks makes of its time, beside a simulation of its failures and a published run."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topoflow
from topoflow.fabric.base import Item
from topoflow.fabric.reliability import Reliability, best_interval, share_of_training

BILL = (Item("gpu_h100", 1024), Item("host_h100", 1024), Item("nic_port", 1024, 5e10), Item("fiber", 2048, 5e10))
MTBF = {"gpu": 50_000.0, "host": 400_000.0, "fiber": 1e6}
LLAMA = {"workload": "llama3_8b", "node": "hgx_h100", "strategy": "fsdp", "fabric": "rail_optimized"}


def reliability(**changes: Any) -> Reliability:
    return replace(Reliability(MTBF, restart_minutes=10, checkpoint_gbytes_per_s=0.1), **changes)


def simulated(interval: float, saving: float, restart: float, mtbf: float, checkpoints: int) -> float:
    """Return the share of training of a run that is simulated failure by failure."""
    draw = np.random.default_rng(0)
    clock, failure, saved = 0.0, draw.exponential(mtbf), 0
    ready = 0.0  # when steps are trained again
    while saved < checkpoints:
        done = ready + interval + saving
        if failure > done:
            clock = ready = done
            saved += 1
            continue
        ready = failure + restart  # what was trained since the last checkpoint is lost
        failure += draw.exponential(mtbf)
        while failure < ready:
            ready = failure + restart
            failure += draw.exponential(mtbf)
    return checkpoints * interval / clock


@pytest.mark.parametrize("interval", [100.0, 500.0, 2000.0])
@pytest.mark.parametrize("restart", [0.0, 600.0])
@pytest.mark.parametrize("mtbf", [2000.0, 20_000.0])
def test_the_closed_form_is_the_mean_of_simulated_runs(interval: float, restart: float, mtbf: float) -> None:
    share = share_of_training(interval, 20.0, restart, 1 / mtbf)
    # A segment has a standard deviation of at most 1.2 of its mean, the mean of 40,000 one of 0.6 %: five of these.
    assert simulated(interval, 20.0, restart, mtbf, 40_000) == pytest.approx(share, rel=0.03)


@given(saving=st.floats(0.1, 1e3), mtbf=st.floats(100.0, 1e7), factor=st.sampled_from([0.25, 0.5, 0.8, 1.3, 2.0, 4.0]))
def test_no_other_interval_between_checkpoints_is_better(saving: float, mtbf: float, factor: float) -> None:
    best = best_interval(saving, mtbf)
    share, other = (share_of_training(interval, saving, 0.0, 1 / mtbf) for interval in (best, factor * best))
    assert other <= share * 1.002  # Daly's interval is a series of three terms


@given(gpus=st.integers(1, 10**6), state=st.floats(1e9, 1e14), part=st.sampled_from(sorted(MTBF)))
def test_a_part_that_fails_more_often_lowers_the_goodput(gpus: int, state: float, part: str) -> None:
    usual = reliability().goodput(BILL, gpus, state)
    worse = reliability(mtbf_hours={**MTBF, part: MTBF[part] / 3}).goodput(BILL, gpus, state)
    assert 0 <= worse.share <= usual.share <= 1
    assert worse.failures_per_day > usual.failures_per_day


def test_without_failures_a_run_trains_all_the_time() -> None:
    perfect = reliability(mtbf_hours={}).goodput(BILL, 1024, 1e12)
    assert (perfect.share, perfect.failures_per_day, perfect.interval) == (1.0, 0.0, None)
    assert share_of_training(100.0, 25.0, 600.0, 0.0) == 0.8
    assert share_of_training(1e9, 25.0, 600.0, 1.0) == 0.0


def test_spares_let_a_job_go_on_while_nodes_are_repaired() -> None:
    shares = [reliability(repair_hours=100, spares=spares).goodput(BILL, 1024, 1e12).share for spares in (0, 2, 4, 50)]
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert shares[-1] == pytest.approx(reliability().goodput(BILL, 1024, 1e12).share)
    more = {item.component: item.count for item in reliability(spares=8).with_spares(BILL, 128)}
    assert more == {"gpu_h100": 1088, "host_h100": 1088, "nic_port": 1088, "fiber": 2048}


def test_a_step_waits_for_the_slowest_gpu() -> None:
    few, many = (reliability(slow_share=0.001, slow_factor=1.2).waiting(1.0, gpus) for gpus in (8, 100_000))
    assert few == pytest.approx(0.0016, rel=0.01)
    assert many == pytest.approx(0.2)
    assert reliability().waiting(1.0, 100_000) == 0


@pytest.mark.slow
def test_the_goodput_of_llama_3_is_the_published_one() -> None:
    """16,384 H100 were interrupted 419 times in 54 days, and trained for more than 90 % of the time (section 3.3.4)."""
    keys = {"strategy.tensor": 8, "strategy.pipeline": 16, "fabric": "oversubscribed_pods", "fidelity": "bound"}
    job = {"workload": "llama3_405b", "node": "hgx_h100", "strategy": "parallel", "gpus": 16384, "global_batch": 2048}
    (result,) = topoflow.compare(**job, **keys)
    assert result.row.failures_per_day * 54 == pytest.approx(419, rel=0.05)
    assert 0.9 < result.row.goodput < 0.95


def test_more_links_fail_more_often_and_cost_more() -> None:
    rail, tree = (topoflow.compare(**{**LLAMA, "fabric": name}, gpus=64)[0].row for name in ("rail_only", "fat_tree"))
    assert tree.failures_per_day > rail.failures_per_day
    assert tree.goodput < rail.goodput < 1
    assert tree.usd_per_million_tokens > rail.usd_per_million_tokens
    tokens = rail.tokens_per_second * rail.iteration_time * rail.goodput
    assert rail.usd_per_million_tokens == pytest.approx(1e6 * rail.usd_per_step / tokens)


def test_servers_and_jobs_without_layers_have_no_goodput() -> None:
    (servers,) = topoflow.compare(workload="llama3_8b", servers=2, fabric="ideal_switch", gpu="h100")
    assert servers.row.goodput is servers.row.usd_per_million_tokens is None


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"mtbf_hours": {"gpus": 1.0}}, "reliability.mtbf_hours: must be of gpu, host, .*, got 'gpus'"),
        ({"mtbf_hours": {"gpu": 0.0}}, "reliability.mtbf_hours.gpu: must be positive, got 0.0"),
        ({"restart_minutes": -1.0}, "reliability.restart_minutes: must not be negative"),
        ({"checkpoint_minutes": 0.0}, "reliability.checkpoint_minutes: must be positive"),
        ({"spares": -1}, "reliability.spares: must be positive, got -1"),
        ({"slow_share": 1.5}, r"reliability.slow_share: must be within 0..1, got 1.5"),
        ({"slow_factor": inf}, "reliability.slow_factor: must be at least 1, got inf"),
    ],
)
def test_what_cannot_be_is_one_line(changes: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        reliability(**changes)
