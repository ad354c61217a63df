"""A failure changes the routes of the flows that it touches, and no others, on every static fabric by every routing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.collectives.algorithm import names
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.paths import Paths
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import Disconnected, without
from topoflow.study.failures import surviving_fabrics
from topoflow.traffic.base import Collective, Traffic, Transfer

FABRICS = (
    *("dragonfly", "dragonfly_plus", "expander", "fat_tree", "fosquare", "hyperx", "leaf_spine"),
    *("ring", "slim_fly", "topoopt", "torus"),
)
ROUTINGS = ("ecmp", "spray", "dmodk", "valiant")
MAX_FAILED_LINKS = 5  # links that fail, one at a time
PAIRS = 40  # of servers, whose paths are compared
Build = Callable[[str, int, Traffic, str], Fabric]


class Drawn(NamedTuple):
    """A job, how it is placed, and what chooses the links that fail."""

    traffic: Traffic
    servers: int
    routing: str
    all_reduce: str
    rings: str
    draw: np.random.Generator


def drawn(seed: int) -> Drawn:
    """An all-reduce of a random group, transfers beside it, and sometimes an all-to-all."""
    draw = np.random.default_rng(seed)
    servers = 2 * int(draw.integers(3, 13))  # an expander's servers times its degree are even
    group = np.sort(draw.permutation(servers)[: draw.integers(2, servers + 1)])
    tasks: list[Collective | Transfer] = [Collective("all_reduce", 1e6, tuple(group.tolist()))]
    for _ in range(draw.integers(0, 6)):
        source, target = draw.permutation(servers)[:2].tolist()
        tasks.append(Transfer(1e5 * float(draw.integers(1, 9)), source, target))
    if draw.random() < 0.4:
        tasks.append(Collective("all_to_all", 1e6, tuple(range(0, servers, int(draw.integers(1, 4))))))
    all_reduce = names("all_reduce")
    return Drawn(
        Traffic.from_tasks("job", servers, tuple(tasks)),
        servers,
        ROUTINGS[draw.integers(len(ROUTINGS))],
        all_reduce[draw.integers(len(all_reduce))],
        ("steps", "flows")[draw.integers(2)],
        draw,
    )


@pytest.fixture(scope="module")
def build(configured: Callable[..., Any]) -> Build:
    """``build(name, servers, traffic, all_reduce)`` makes the fabric of a config for the demand of a job."""

    def make(name: str, servers: int, traffic: Traffic, all_reduce: str) -> Fabric:
        design = configured("fabric", f"fabric={name}", f"servers={servers}", f"all_reduce={all_reduce}")
        fabric = design.build(servers, traffic.demand())
        assert isinstance(fabric, Fabric)
        return fabric

    return make


def check_unused_links(build: Build, name: str, seed: int) -> None:
    job = drawn(seed)
    fabric = build(name, job.servers, job.traffic, job.all_reduce)
    options = {"all_reduce": job.all_reduce, "routing": job.routing, "rings": job.rings, "seed": seed}
    world = place(job.traffic, fabric, name="whole", **options)
    intact = Fluid().simulate([world])[0]
    unused = np.setdiff1d(np.arange(fabric.links), world.graph.path_links)
    # Valiant's paths need not use the link from a server to the next of its ring, without which "drop" drops the ring.
    rings = "recover" if job.routing == "valiant" else "faster"
    for link in job.draw.permutation(unused)[:MAX_FAILED_LINKS].tolist():
        try:
            survivors = surviving_fabrics(fabric, links=[link], rings=rings)
        except Disconnected:
            continue
        for timeline in simulate(
            [place(job.traffic, survivor, name="left", **options) for survivor in survivors], Fluid()
        ):
            np.testing.assert_array_equal(timeline.start, intact.start)
            np.testing.assert_array_equal(timeline.finish, intact.finish)


@pytest.mark.parametrize("name", FABRICS)
@settings(max_examples=2)
@given(seed=st.integers(0, 10**6))
def test_a_link_that_no_path_uses_changes_no_task_where_it_fails(build: Build, name: str, seed: int) -> None:
    check_unused_links(build, name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", FABRICS)
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_a_link_that_no_path_uses_changes_no_task_where_it_fails_in_many_jobs(
    build: Build, name: str, seed: int
) -> None:
    check_unused_links(build, name, seed)


def check_routes(build: Build, name: str, seed: int) -> None:
    """Compare the paths of some pairs of servers before and after a link or a server has failed."""
    job = drawn(seed)
    fabric = build(name, job.servers, job.traffic, job.all_reduce)
    lost_server = job.draw.random() < 0.3
    failed = int(job.draw.integers(fabric.servers if lost_server else fabric.links))
    try:
        surviving = without(fabric, servers=[failed]) if lost_server else without(fabric, links=[failed])
    except Disconnected:
        return
    ends = (fabric.source == failed) | (fabric.target == failed)
    lost = set(np.flatnonzero(ends).tolist()) if lost_server else {failed}
    number = np.cumsum([link not in lost for link in range(fabric.links)]) - 1
    old = [server for server in range(fabric.servers) if not (lost_server and server == failed)]
    channel, reduces = int(job.draw.integers(3)), job.draw.integers(2)
    before, after = (
        Paths(variant.for_reductions if reduces else variant, seed, job.routing) for variant in (fabric, surviving)
    )
    pairs = job.draw.permutation(list(permutations(range(surviving.servers), 2)))[:PAIRS]
    for source, target in pairs.tolist():
        had = shares(before, old[source], old[target], channel)
        unaffected = {links: share for links, share in had.items() if lost.isdisjoint(links)}
        renumbered = {tuple(number[list(links)].tolist()): share for links, share in unaffected.items()}
        has = shares(after, source, target, channel)
        assert sum(has.values()) == pytest.approx(1.0)
        if unaffected == had:
            assert has == renumbered
        elif unaffected:
            share_left = sum(unaffected.values())
            assert has == pytest.approx({links: share / share_left for links, share in renumbered.items()})


def shares(paths: Paths, source: int, target: int, channel: int) -> dict[tuple[int, ...], float]:
    """The share of the bytes of a connection on each of its paths; two of Valiant's may be the same one."""
    totals: dict[tuple[int, ...], float] = {}
    for subflow in paths.subflows(source, target, channel):
        totals[subflow.links] = totals.get(subflow.links, 0.0) + subflow.weight
    return totals


@pytest.mark.parametrize("name", FABRICS)
@settings(max_examples=2)
@given(seed=st.integers(0, 10**6))
def test_a_failure_changes_the_paths_of_the_flows_that_it_touches_only(build: Build, name: str, seed: int) -> None:
    check_routes(build, name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", FABRICS)
@settings(max_examples=45)
@given(seed=st.integers(0, 10**6))
def test_a_failure_changes_the_paths_of_the_flows_that_it_touches_only_in_many_jobs(
    build: Build, name: str, seed: int
) -> None:
    check_routes(build, name, seed)


def test_flows_that_lost_their_path_part_over_all_that_are_left(build: Build) -> None:
    """Those that shared a spine spread evenly over the others: by another hash than the one that they had in common."""
    nothing = Traffic.from_tasks("nothing", 64, ())
    fabric = build("leaf_spine", 64, nothing, "ring")
    spine = next(node for node, name in enumerate(fabric.nodes) if name.startswith("spine"))
    up = int(np.flatnonzero(fabric.target == spine)[0])
    spines = len(np.unique(fabric.target[fabric.source == fabric.source[up]])) - 4  # less its servers
    below = fabric.target[(fabric.source == fabric.source[up]) & (fabric.target < 64)].tolist()
    degraded = without(fabric, links=[up])
    before, after = Paths(fabric, 0), Paths(degraded, 0)
    moved = [
        degraded.target[after.subflows(source, target, channel)[0].links[1]]
        for source in below
        for target in set(range(64)) - set(below)
        for channel in range(8)
        if up in before.subflows(source, target, channel)[0].links
    ]
    chosen = np.bincount(moved)
    assert spines == 4
    assert np.count_nonzero(chosen) == spines - 1
    np.testing.assert_allclose(chosen[chosen > 0], len(moved) / (spines - 1), rtol=0.25)
