"""Jobs on networks that reconfigure: by hand, and by law on a DLRM."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hydra.utils import instantiate

from tests.conftest import configuration
from topoflow.demand import Demand
from topoflow.engine.base import World
from topoflow.engine.dynamic import reconfigure
from topoflow.engine.dynamic.stepwise import Stepwise
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuits.demand_driven import DemandDriven
from topoflow.fabric.ocs_reconfig import OcsReconfig
from topoflow.traffic.base import Compute, Traffic, Transfer
from topoflow.traffic.lower import lower


def ring_of_three(**changed: object) -> Fabric:
    """0 -> 1 -> 2 -> 0 at 100 B/s; a look every second, half a second of pause."""
    design = OcsReconfig(
        bandwidth=100,
        degree=1,
        latency=0.0,
        interval=1.0,
        pause=0.5,
        forwarding=False,
        discount=0.5,
        paths=1,
        start="even",
    )
    return replace(design, **changed).build(3, Demand(3))


def run(fabric: Fabric, *tasks: Transfer | Compute) -> reconfigure.Reconfigured:
    return reconfigure.simulate(place(Traffic.from_tasks("job", 3, tasks), fabric, name="job"))


def test_who_has_no_circuit_waits_for_one() -> None:
    ran = run(ring_of_three(), Transfer(100, 0, 2))
    assert ran.timeline.finish.tolist() == pytest.approx([2.5])  # look at 1 s, circuit from 1.5 s, 1 s of 100 B/s
    assert ran.reconfigurations == 1


def test_hosts_that_forward_do_not_wait() -> None:
    ran = run(ring_of_three(forwarding=True), Transfer(100, 0, 2))
    assert ran.timeline.finish.tolist() == pytest.approx([1.0])  # 0 -> 1 -> 2
    assert ran.timeline.link_bytes.sum() == pytest.approx(200)
    assert ran.reconfigurations == 0


def test_flows_stop_in_a_pause_and_compute_goes_on() -> None:
    # 0 -> 1 sends 100 of 150 B by the look at 1 s, waits until 1.5 s as 1 -> 0 gets a circuit, and ends at 2 s.
    tasks = (Transfer(150, 0, 1), Transfer(10, 1, 0), Compute(1.2, 2), Compute(0.1, 2))
    finish = run(ring_of_three(), *tasks).timeline.finish
    assert finish.tolist() == pytest.approx([2.0, 1.6, 1.2, 1.3])


def test_circuits_that_serve_the_demand_are_left_alone() -> None:
    ran = run(ring_of_three(), Transfer(450, 0, 1))
    assert ran.timeline.finish.tolist() == pytest.approx([4.5])
    assert ran.reconfigurations == 0


@pytest.mark.parametrize("forwarding", [False, True])
@pytest.mark.parametrize(
    "endless", [Transfer(1e300, 0, 1), Transfer(1e13, 0, 2), Compute(1e12, 0), Transfer(1, 0, 1, start=1e12)]
)
def test_what_would_be_sampled_almost_for_ever_is_an_error(forwarding: bool, endless: Transfer | Compute) -> None:
    with pytest.raises(ValueError, match=r"^job: must end within 1073741824 samples .* of 1 s each, got at least "):
        run(ring_of_three(forwarding=forwarding), Transfer(450, 0, 1), endless)


def test_rounding_does_not_choose_between_demands_that_are_alike() -> None:
    control = ring_of_three().control
    assert isinstance(control, DemandDriven)
    even, none = np.full((16, 16), 1e9), np.zeros((16, 16), np.int64)
    noise = 1 + np.random.default_rng(0).uniform(-1e-15, 1e-15, even.shape)
    expected = reconfigure._other_circuits(even, none, 2, control)
    np.testing.assert_array_equal(reconfigure._other_circuits(even * noise, none, 2, control), expected)
    assert (reconfigure._other_circuits(even * (1 + 1e6 * (noise - 1)), none, 2, control) != expected).any()


def test_what_begins_between_two_looks_waits_for_the_next() -> None:
    # 0 -> 2 is ready at 1.2 s, after the look at 1 s that found nothing to do: look at 2 s, circuit from 2.5 s.
    ran = run(ring_of_three(), Compute(1.2, 0), Transfer(100, 0, 2, (0,)))
    assert ran.timeline.finish.tolist() == pytest.approx([1.2, 3.5])


def test_a_link_that_comes_late_has_the_bandwidth_that_it_had_on_average() -> None:
    ran = run(ring_of_three(), Transfer(100, 0, 2))
    ends = list(zip(ran.timeline.world.fabric.source.tolist(), ran.timeline.world.fabric.target.tolist(), strict=True))
    assert ends[:3] == [(0, 1), (1, 2), (2, 0)]
    late = ends.index((0, 2))
    assert ran.timeline.link_bytes[late] == pytest.approx(100)
    assert ran.timeline.world.fabric.bandwidth[late] == pytest.approx(100 * 1.0 / 2.5)  # up for the last of 2.5 s


def test_the_latency_of_a_path_is_waited_once() -> None:
    ran = run(ring_of_three(latency=0.1), Transfer(100, 0, 1), Transfer(20, 0, 2))
    # 0 -> 2 begins to wait at 0.1 s for the look at 1 s; 0 -> 1 has 10 B left then, less than 0 -> 2.
    assert ran.timeline.finish.tolist() == pytest.approx([2.6, 1.7])


def test_an_iteration_finds_the_circuits_that_the_one_before_has_left() -> None:
    # The first waits for the look at 1 s and ends at 2.5 s. The second has its circuit at once, and so the third.
    fabric = ring_of_three(iterations=3)
    ran = run(fabric, Transfer(100, 0, 2))
    assert ran.iterations.tolist() == pytest.approx([2.5, 1.0, 1.0])
    assert ran.timeline.start.tolist() == [0.0]
    assert ran.timeline.finish.tolist() == pytest.approx([1.0])
    assert ran.timeline.world.fabric.bandwidth.min() > 0


def test_looks_do_not_care_where_an_iteration_begins() -> None:
    # Looks at 1, 2, 3 s. 1 -> 2 has a circuit until 1 s and from 2.5 s to 3 s, 1 -> 0 from 1.5 s to 2 s and from 3.5 s.
    # The first iteration sends 30 B on each by 0.3 s and 1.8 s, the second, from 1.8 s on, by 2.8 s and 3.8 s.
    ran = run(ring_of_three(iterations=2), Transfer(30, 1, 2), Transfer(30, 1, 0, (0,)), Compute(0.7, 0))
    assert ran.iterations.tolist() == pytest.approx([1.8, 2.0])
    assert ran.timeline.finish.tolist() == pytest.approx([1.0, 2.0, 0.7])
    assert ran.reconfigurations == 3


@pytest.fixture(scope="module")
def dlrm() -> Traffic:
    config = configuration("workload.tables=8", "workload.rows=1000")
    workload = instantiate(config["workload"]).build()
    return lower(workload, instantiate(config["strategy"]).place(workload, 8))


def on(dlrm: Traffic, name: str, *overrides: str) -> tuple[World, Fabric]:
    design = instantiate(configuration(f"fabric={name}", *overrides)["fabric"])
    fabric = design.build(8, dlrm.demand())
    assert isinstance(fabric, Fabric)
    return place(dlrm, fabric, name=name, all_reduce="ring", rings="flows"), fabric


SLOW = ("bandwidth_gbps=5", "fabric.iterations=1")
CHANGING = [("sip_ml", "bandwidth_gbps=50"), ("ocs_reconfig", *SLOW, "fabric.forwarding=false", "fabric.interval=0.02")]
CHANGING += [("ocs_reconfig", *SLOW, "degree=2", "fabric.start=even", "fabric.interval=0.01", "fabric.pause=0.001")]
Ran = tuple[World, Fabric, reconfigure.Reconfigured]


@pytest.fixture(scope="module", params=CHANGING, ids=str)
def ran(request: pytest.FixtureRequest, dlrm: Traffic) -> Ran:
    """A DLRM on each of CHANGING: what was placed, and what became of it."""
    world, fabric = on(dlrm, *request.param)
    return world, fabric, reconfigure.simulate(world)


def test_circuits_that_never_change_are_a_network_like_any_other(dlrm: Traffic) -> None:
    world, fabric = on(dlrm, "ocs_reconfig", "fabric.interval=1000")
    ran, static = reconfigure.simulate(world), Fluid().simulate([replace(world, fabric=None)])[0]
    np.testing.assert_allclose(ran.timeline.finish, static.finish, rtol=1e-9)
    np.testing.assert_allclose(ran.timeline.start, static.start, rtol=1e-9)
    np.testing.assert_allclose(ran.timeline.link_bytes, static.link_bytes, rtol=1e-9)
    np.testing.assert_allclose(ran.timeline.world.fabric.bandwidth, fabric.bandwidth, rtol=1e-9)


def test_every_byte_arrives_and_no_link_carries_more_than_it_can(ran: Ran) -> None:
    world, fabric, run = ran
    assert run.reconfigurations > 0
    sends = world.graph.bytes > 0
    assert np.array_equal(ends(run.timeline.world, run.timeline.world.fabric, sends), ends(world, fabric, sends))
    assert run.timeline.link_bytes.sum() >= world.graph.bytes.sum() * (1 - 1e-9)
    if not fabric.control.forwarding:
        assert run.timeline.link_bytes.sum() == pytest.approx(world.graph.bytes.sum(), rel=1e-9)
    assert (run.timeline.link_bytes <= run.timeline.world.fabric.bandwidth * run.timeline.makespan * (1 + 1e-9)).all()
    assert np.isfinite(run.timeline.finish).all()


def ends(world: World, fabric: Fabric, tasks: np.ndarray) -> np.ndarray:
    """[2, tasks] the servers where their paths begin and end."""
    graph = world.graph
    path = graph.path[tasks]
    first, last = graph.path_links[graph.path_offsets[path]], graph.path_links[graph.path_offsets[path + 1] - 1]
    return np.array([fabric.source[first], fabric.target[last]])


def test_no_task_begins_before_what_it_waits_for(ran: Ran) -> None:
    world, _, run = ran
    timeline = run.timeline
    follower = np.repeat(np.arange(world.graph.tasks), np.diff(world.graph.after_offsets))
    assert (timeline.start[follower] >= timeline.finish[world.graph.after] - 1e-12).all()
    assert (timeline.finish - timeline.start >= world.graph.delay - 1e-12).all()


def test_no_server_has_more_bandwidth_than_its_interfaces(dlrm: Traffic) -> None:
    world, fabric = on(dlrm, *CHANGING[0], "fabric.iterations=1")
    changed = reconfigure.simulate(world).timeline.world.fabric
    for side in (changed.source, changed.target):
        assert (np.bincount(side, weights=changed.bandwidth) <= 4 * fabric.interface_bandwidth * (1 + 1e-9)).all()


@pytest.mark.parametrize("overrides", [("sip_ml", "bandwidth_gbps=5"), CHANGING[0], CHANGING[1]], ids=str)
def test_looks_that_are_jumped_over_change_nothing(
    dlrm: Traffic, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, watchings: Callable[[], Any]
) -> None:
    world, _ = on(dlrm, *overrides)
    jumped, every = watchings(), watchings()
    ran = reconfigure.simulate(world, observer=jumped)
    monkeypatch.setattr(reconfigure, "_is_matching", lambda demand: False)
    one_by_one = reconfigure.simulate(world, observer=every)
    assert jumped.records == every.records
    assert ran.reconfigurations == one_by_one.reconfigurations
    assert ran.iterations == pytest.approx(one_by_one.iterations, rel=1e-9)
    assert ran.timeline.finish == pytest.approx(one_by_one.timeline.finish, rel=1e-9)
    assert ran.timeline.link_bytes == pytest.approx(one_by_one.timeline.link_bytes, rel=1e-9)


def test_a_long_flow_alone_is_sent_in_a_few_steps(monkeypatch: pytest.MonkeyPatch, watching: Any) -> None:
    steps = []
    advance = Stepwise.advance
    monkeypatch.setattr(Stepwise, "advance", lambda *arguments: steps.append(1) or advance(*arguments))
    world = place(Traffic.from_tasks("job", 3, (Transfer(1e6, 0, 1),)), ring_of_three(), name="job")
    ran = reconfigure.simulate(world, observer=watching)
    assert ran.timeline.finish == pytest.approx([1e4])  # 1 MB at 100 B/s, a look every second
    assert len(watching.records) in (9999, 10000)
    assert len(steps) < 5


def test_looks_that_are_jumped_over_are_not_once_the_run_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, watching: Any
) -> None:
    flags = []
    monkeypatch.setattr(reconfigure, "launch", lambda kernel: flags.append(kernel.cancel) or kernel.call())

    def stop() -> None:
        flags[0][0] = 1

    watching.then = stop

    world = place(Traffic.from_tasks("job", 3, (Transfer(1e6, 0, 1),)), ring_of_three(), name="job")
    with pytest.raises(CancelledError):
        reconfigure.simulate(world, observer=watching)
    assert watching.records == [{"time": 1.0}]


def test_a_network_that_stays_is_refused(dlrm: Traffic) -> None:
    world, _ = on(dlrm, "ring")
    with pytest.raises(ValueError, match=r"fabric\.control: must be DemandDriven, got Static"):
        reconfigure.simulate(world)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pause": 1.0}, r"ocs_reconfig\.interval: must be finite and longer than the pause of 1 s, got 1"),
        ({"pause": -1.0}, r"ocs_reconfig\.pause: must not be negative, got -1.0"),
        ({"discount": 0.0}, r"ocs_reconfig\.discount: must be in \(0, 1\], got 0.0"),
        ({"iterations": 0}, r"ocs_reconfig\.iterations: must be positive, got 0"),
        ({"start": "random"}, r"ocs_reconfig\.start: must be one of job, even, got 'random'"),
    ],
)
def test_a_design_that_cannot_be_is_an_error_with_its_law(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ring_of_three(**changed)
