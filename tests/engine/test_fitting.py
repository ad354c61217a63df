"""Every network in the fidelity that fits it, and all of them in one table that names it."""

from __future__ import annotations

import numpy as np

import topoflow
from topoflow.engine.fitting import Fitting
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.engine.slotted import Slotted
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.fosquare import FOSquare
from topoflow.fabric.sirius import Sirius
from topoflow.traffic.base import Collective, Traffic

JOB = Traffic.from_tasks("job", 8, [Collective("all_to_all", 1e6, tuple(range(8)))])


def test_a_world_is_simulated_exactly_as_in_the_fidelity_that_is_chosen() -> None:
    designs = [Sirius(1.25e9, 4, 0.0), FatTree(1.25e9, 4, 0.0), FOSquare(1.25e9, 4, 0.0)]
    worlds = [place(JOB, design.build(8, JOB.demand()), name="world") for design in designs]
    model = Fitting(protocol="ideal", seed=3)
    slotted = Slotted(protocol="ideal", seed=3)
    chosen = [slotted, Fluid(), slotted]
    assert [model.chosen(world) for world in worlds] == chosen
    for timeline, world, fidelity in zip(simulate(worlds, model), worlds, chosen, strict=True):
        (alone,) = simulate([world], fidelity)
        assert np.array_equal(timeline.finish, alone.finish)


def test_networks_of_several_kinds_are_one_comparison_that_names_the_fidelity_of_each() -> None:
    results = topoflow.compare(
        workload="dlrm", servers=8, fabric=["sirius", "fosquare", "fat_tree"], fidelity="fitting", bandwidth_gbps=100
    )
    rows = {result.row.fabric: result for result in results}
    assert {name: result.row.fidelity for name, result in rows.items()} == {
        "sirius": "slotted",
        "fosquare": "slotted",
        "fat_tree": "fluid",
    }
    assert len({result.comparable for result in rows.values()}) == 1
