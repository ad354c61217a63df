"""Failures of parts of a cluster of GPUs: a GPU, a NIC, a leaf."""

from __future__ import annotations

from typing import Any

import pytest

import topoflow
from topoflow.case.base import Result

JOB: dict[str, Any] = {"workload": "llama3_8b", "strategy": "fsdp", "gpus": 16, "node": "hgx_h100"}


def step(fabric: str = "rail_optimized", **fail: Any) -> Result:
    (result,) = topoflow.compare(**JOB, fabric=fabric, **{f"fail.{key}": [value] for key, value in fail.items()})
    return result


@pytest.fixture(scope="module")
def intact() -> Result:
    return step()


def links_of(result: Result, *devices: str) -> list[int]:
    """Return the links that end at one of the devices."""
    fabric = result.fabric
    numbers = {fabric.nodes.index(device) for device in devices}
    ends = zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    return [link for link, pair in enumerate(ends) if numbers & {*pair}]


def test_the_gpus_that_are_left_stay_on_their_nodes(intact: Result) -> None:
    first, last = step(servers=[0]), step(servers=[15])
    assert first.gpus == last.gpus == 15
    assert first.iteration_time == pytest.approx(last.iteration_time, rel=1e-3)
    assert first.iteration_time < 1.1 * intact.iteration_time


def test_a_job_goes_on_over_other_nics_where_one_fails(intact: Result) -> None:
    nic = step(links=links_of(intact, "NIC 0.3"))
    assert intact.iteration_time < nic.iteration_time < 2 * intact.iteration_time


def test_a_job_goes_on_over_other_rails_where_a_leaf_fails(intact: Result) -> None:
    assert step(links=links_of(intact, "leaf 2")).iteration_time > intact.iteration_time


def test_fibers_that_fail_are_those_between_nodes() -> None:
    with pytest.raises(
        ValueError, match=r"fail.fibers: must be within \d+\.\.\d+, as links inside nodes are no fibers"
    ):
        step(fibers=[0])
    (result,) = topoflow.compare(**JOB, fabric="rail_only", **{"fail.each": "fiber"})
    (failures,) = result.failures
    assert all("leaf" in name for name in failures.names)
    rows = [*failures.records()]
    assert [result.fabric.link_name(int(str(row["number"]))) for row in rows] == [row["name"] for row in rows]
