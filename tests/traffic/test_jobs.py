"""A job on some of the servers of a cluster does there what it did alone."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.traffic.base import Collective, Compute, Subflow, Traffic, Transfer
from topoflow.traffic.jobs import on_servers


def test_a_job_does_the_same_on_other_servers() -> None:
    splits = ((0.0, 3.0), (4.0, 0.0))
    traffic = Traffic.from_tasks(
        "job",
        3,
        (
            Compute(1.0, 2),
            Compute(1.0, None, (0,)),
            Transfer(10.0, 0, 2, (1,)),
            Collective("broadcast", 5.0, (2, 0), root=2),
            Collective("all_to_all", 0.0, (1, 2), splits=splits),
        ),
        local_bandwidth=7.0,
    )
    moved = on_servers(traffic, (4, 9, 6), 12)
    assert moved.servers == 12
    assert moved.local_bandwidth == 7.0
    assert [task.server for task in moved.tasks if isinstance(task, Compute)] == [6, None]
    assert [(task.source, task.target) for task in moved.tasks if isinstance(task, Transfer)] == [(4, 6)]
    assert [task.group for task in moved.tasks if isinstance(task, Collective)] == [(6, 4), (9, 6)]
    before, after = traffic.demand(), moved.demand()
    assert np.array_equal(after.matrix()[np.ix_((4, 9, 6), (4, 9, 6))], before.matrix())
    assert after.bytes.sum() == before.bytes.sum()
    assert after.all_reduce == before.all_reduce == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: on_servers(Traffic.from_tasks("job", 2, ()), (1, 1), 4),
            r"job: must be given 2 servers, each once, got \[1, 1\]",
        ),
        (
            lambda: on_servers(
                Traffic.from_tasks("job", 2, (Transfer(1, 0, 1, subflows=(Subflow((0,)),)),)), (0, 1), 4
            ),
            r"subflows: must not be given",
        ),
    ],
)
def test_what_cannot_be_is_an_error_with_its_law(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
