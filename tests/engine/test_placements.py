"""Networks that differ in how fast their links are share what was placed on the first; nobody can see it."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from topoflow.digest import digest
from topoflow.engine.base import World
from topoflow.engine.lowering.placement import Placer
from topoflow.study.builder import Builder
from topoflow.study.configure.decide import lowering_of
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

JOB = (
    "workload.tables=4",
    "workload.rows=1000",
    "servers=6",
    "rings=steps,flows",
    "bandwidth_gbps=25,100",
    "latency_us=0,2",
)
SHARING = ("fat_tree", "leaf_spine", "torus", "ring", "ideal_switch", "hyperx", "expander", "topoopt", "slim_fly")
FABRICS = (*SHARING, "sip_ml", "ocs_reconfig")


def numbers(world: World) -> str:
    """Return a digest of all numbers of a world: its arrays, and those of its graph and fabric."""
    parts = [part for part in (world, world.graph, world.fabric) if part is not None]
    values = [{field.name: getattr(part, field.name) for field in fields(part)} for part in parts]
    plain = (np.ndarray, int, float)
    return digest(
        [{name: value for name, value in part_values.items() if isinstance(value, plain)} for part_values in values]
    )


@pytest.mark.parametrize("fabric", FABRICS)
def test_a_world_is_what_is_placed_alone(fabric: str) -> None:
    points = Builder().build(grid([f"fabric={fabric}", *JOB], check))
    cases = [case for point in points for case in point.cases]
    alone = [
        Placer(case.fabric, lowering_of(point.point)).place(case.job.traffic, case.world.name)
        for point in points
        for case in point.cases
    ]
    digests = [numbers(world) for world in alone]
    assert len({*digests}) == len(alone)
    assert [numbers(case.world) for case in cases] == digests
    assert all(case.world.fabric is case.fabric for case in cases)
    if fabric in SHARING:  # one graph of steps, and of flows one for each latency, which they wait for
        assert len({id(case.world.graph) for case in cases}) == 1 + 2


def test_other_jobs_and_other_ways_to_place_them_have_their_own() -> None:
    words = ["fabric=fat_tree", "workload.tables=4,8", "all_reduce=ring,swing", "seed=0,1", "routing=ecmp,spray"]
    points = Builder().build(grid([*words, "workload.rows=1000", "servers=8"], check))
    assert len({id(point.cases[0].world.graph) for point in points}) == len(points) == 16
