"""The bound of a placement strategy is the bound of the tasks it is lowered to, and a chain is what it became.

The oracle is the long way: ``lower``, ``place`` and ``bound``, which have tests of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoflow.cli.compare import check
from topoflow.cli.grid import build, grid
from topoflow.engine import bound
from topoflow.engine.placement import place
from topoflow.engine.strategy_bound import Chains, StrategyBound
from topoflow.fabric.base import Demand, Fabric
from topoflow.fabric.expander import Expander
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.ring import Ring
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, Workload
from topoflow.workload.gpu import Gpu

GPU = Gpu("some", {"float32": 1e12}, 1e12, 300e9, 40e9)
LAW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOTHING = Demand(np.zeros((1, 1)), {})

Choices = list[tuple[int, ...]]


@st.composite
def layers(draw: st.DrawFn, most: int = 8) -> tuple[Layer, ...]:
    """Up to ``most`` layers, each reading any earlier ones."""
    drawn: list[Layer] = []
    for index in range(draw(st.integers(1, most))):
        earlier = [layer.name for layer in drawn]
        after = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
        kind = draw(st.sampled_from(["dense", "table"]))
        size = draw(st.sampled_from([0, 10**4, 10**6, 10**7]))
        outputs = draw(st.integers(0, 1000))
        flops = draw(st.floats(0, 1e9))
        drawn.append(Layer(f"L{index}", kind, size, flops, outputs, 2 * outputs, tuple(after), sparse=kind == "table"))
    return tuple(drawn)


def fabrics(servers: int, latency: float) -> list[Fabric]:
    interface = {"bandwidth": 1e9, "degree": 2, "latency": latency}
    designs: list[Any] = [IdealSwitch(**interface), FatTree(**interface)]
    if servers > 2:
        designs += [Expander(**interface, seed=1), Ring(**interface)]
    return [design.build(servers, NOTHING) for design in designs]


def some_choices(servers: int, count: int, seed: int) -> Choices:
    """All servers, each alone, and ``count`` sets of any size."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, servers + 1, count).tolist()
    drawn = {tuple(sorted(random.choice(servers, size, replace=False).tolist())) for size in sizes}
    return sorted({tuple(range(servers)), *((server,) for server in range(servers)), *drawn})


def strategy_of(workload: Workload, servers: int, choices: Choices, row: Any, **buckets: int) -> Strategy:
    placement = {layer.name: choices[choice] for layer, choice in zip(workload.layers, row, strict=True)}
    return Strategy("some", servers, placement, **buckets)


def by_tasks(traffic: Traffic, fabric: Fabric, **how: Any) -> float:
    """The long way."""
    return bound.simulate([place(traffic, fabric, name="some", rings="flows", **how)])[0].makespan


def job(*keys: str) -> tuple[Workload, Strategy, Fabric]:
    """A job, its hybrid strategy and the network that is built for it, from the configs."""
    (point,) = grid(["strategy=hybrid", *keys], check, lambda done, total: None)
    workload = build(point, "workload").build()
    strategy = build(point, "strategy").place(workload, point.config["servers"])
    demand = Demand(*lower(workload, strategy).demand())
    return workload, strategy, build(point, "fabric").build(strategy.servers, demand)


def test_a_transfer_without_bytes_does_not_make_a_link_busy_earlier() -> None:
    """What L3 reads of L0 has no bytes: only the all-reduce of L0 is on the links."""
    empty = [Layer(f"L{i}", "dense", 10_000 * (i == 0), 0.0, 0, 0, ("L0",) if i == 3 else ()) for i in range(5)]
    workload = Workload("some", tuple(empty), 1, GPU, 1)
    fabric = Expander(bandwidth=1e9, degree=2, latency=0.0, seed=1).build(5, NOTHING)
    choices = some_choices(5, 4, 41)
    rows = [[everyone, 0, 0, other, 0] for everyone in range(len(choices)) for other in range(len(choices))]
    expected = [by_tasks(lower(workload, strategy_of(workload, 5, choices, row)), fabric) for row in rows]
    np.testing.assert_allclose(StrategyBound(workload, fabric, choices, all_reduce="ring").makespans(rows), expected)


@LAW
@given(data=st.data())
def test_it_is_the_bound_of_the_tasks_for_any_layers_any_holders_and_any_fabric(data: st.DataObject) -> None:
    servers = data.draw(st.integers(1, 6))
    workload = Workload("some", data.draw(layers()), data.draw(st.integers(1, 64)), GPU, data.draw(st.integers(1, 3)))
    fabric = data.draw(st.sampled_from(fabrics(servers, data.draw(st.sampled_from([0.0, 1e-6, 1e-3])))))
    choices = some_choices(servers, 4, data.draw(st.integers(0, 99)))
    rows = [[data.draw(st.integers(0, len(choices) - 1)) for _ in workload.layers] for _ in range(2)]
    how: dict[str, Any] = {
        "all_reduce": data.draw(st.sampled_from(["ring", "hierarchical"])),
        "routing": data.draw(st.sampled_from(["ecmp", "spray"])),
        "seed": data.draw(st.integers(0, 9)),
    }
    buckets = {"bucket_bytes": data.draw(st.sampled_from([1, 10**7])), "first_bucket_bytes": 10**5}
    expected = [
        by_tasks(lower(workload, strategy_of(workload, servers, choices, row, **buckets)), fabric, **how)
        for row in rows
    ]
    found = StrategyBound(workload, fabric, choices, **how, **buckets).makespans(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "ideal_switch", "expander"])
@pytest.mark.parametrize(
    ("workload", "servers", "gbps", "all_reduce", "routing"),
    [
        (["workload=dlrm", "workload.tables=16"], 16, 100, "hierarchical", "ecmp"),
        (["workload=dlrm"], 8, 5, "ring", "spray"),
        (["workload=bert", "workload.layers=2"], 8, 25, "hierarchical", "spray"),
        (["workload=candle"], 16, 100, "ring", "ecmp"),
        (["workload=ncf"], 4, 1000, "hierarchical", "ecmp"),
        (["workload=vgg16"], 12, 100, "ring", "ecmp"),
    ],
    ids=lambda value: value[0].partition("=")[2] if isinstance(value, list) else str(value),
)
def test_it_is_the_bound_of_the_tasks_of_the_jobs_of_the_paper(
    workload: list[str], servers: int, gbps: int, all_reduce: str, routing: str, fabric: str
) -> None:
    keys = [f"fabric={fabric}", f"servers={servers}", f"bandwidth_gbps={gbps}", f"degree={4 if servers > 4 else 2}"]
    model, hybrid, network = job(*workload, *keys)
    choices = sorted({*some_choices(servers, 12, seed=servers), *hybrid.placement.values()})
    row = np.random.default_rng(0).integers(0, len(choices), len(model.layers))
    rows = [[choices.index(holders) for holders in hybrid.placement.values()], row]
    how: dict[str, Any] = {"all_reduce": all_reduce, "routing": routing, "seed": 3}
    strategies = [strategy_of(model, servers, choices, row) for row in rows]
    expected = [by_tasks(lower(model, strategy), network, **how) for strategy in strategies]
    np.testing.assert_allclose(StrategyBound(model, network, choices, **how).makespans(rows), expected, rtol=1e-9)


@pytest.mark.slow
def test_it_is_the_bound_of_the_tasks_where_servers_and_edges_are_more_than_a_word_has_bits() -> None:
    model, hybrid, network = job("workload=dlrm", "workload.tables=70", "servers=70", "fabric=topoopt", "degree=4")
    choices = sorted({*some_choices(70, 8, seed=0), *hybrid.placement.values()})
    rows = np.array([[choices.index(holders) for holders in hybrid.placement.values()]] * 2)
    rows[1, ::3] = np.random.default_rng(0).integers(0, len(choices), len(rows[1, ::3]))
    expected = [
        by_tasks(lower(model, strategy_of(model, 70, choices, row)), network, all_reduce="hierarchical") for row in rows
    ]
    np.testing.assert_allclose(StrategyBound(model, network, choices).makespans(rows), expected, rtol=1e-9)


def test_two_layers_by_hand() -> None:
    # The example of csrc/bound/strategy_bound.h. Layers without parameters move 1e12 B/s of memory: 2.5e11 elements of
    # 4 B are 1 s per sample; backward takes twice as long. 25 elements of 4 B are 100 B, 1 s at 100 B/s.
    #   forward   A@0 0-2 (two samples), 0>1 2-3, B@0 2-3, B@1 3-4
    #   backward  B@0 3-5, B@1 4-6, 1>0 6-7, A@0 7-11
    second = int(2.5e11)
    model = Workload(
        "two",
        (Layer("A", "dense", 0, 0.0, 25, second), Layer("B", "dense", 0, 0.0, 0, second, ("A",))),
        batch_per_gpu=1,
        gpu=GPU,
        gpus_per_server=1,
    )
    switch = IdealSwitch(bandwidth=100.0, degree=1, latency=0.0).build(2, NOTHING)
    whole = StrategyBound(model, switch, [(0,), (0, 1)])
    assert whole.makespans([[0, 1]])[0] == pytest.approx(11, rel=1e-12)
    # A slower network, 10 s each way: 0>1 2-12, B@1 12-15, 1>0 15-25, A@0 25-29. Both held by both: 2 * (1 + 2) s.
    slow = IdealSwitch(bandwidth=10.0, degree=1, latency=0.0).build(2, NOTHING)
    assert StrategyBound(model, slow, [(0,), (0, 1)]).makespans([[0, 1], [1, 1]]).tolist() == pytest.approx([29, 6])


@pytest.fixture(scope="module")
def bounds() -> StrategyBound:
    """A DLRM on 16 servers wired for it, and 40 choices."""
    model, _, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=topoopt", "degree=4")
    return StrategyBound(model, network, some_choices(16, 24, seed=0))


def begin(bounds: StrategyBound, chains: int = 6) -> Chains:
    random = np.random.default_rng(1)
    return bounds.chains(random.integers(0, bounds.strategies.choices, (chains, bounds.strategies.layers)))


def proposal(bounds: StrategyBound, random: np.random.Generator, chains: int = 6) -> tuple[Any, Any]:
    return random.integers(0, bounds.strategies.layers, chains), random.integers(0, bounds.strategies.choices, chains)


def kept(chains: Chains) -> list[Any]:
    """All that is kept of the placements, but what is not asked for: travel times between layers of one choice."""
    arrays = chains.bound.strategies.arrays
    crosses = chains.placement[:, arrays["source"]] != chains.placement[:, arrays["consumer"]]
    times = [chains.state[name].reshape(*crosses.shape, -1)[crosses] for name in ("forth", "back")]
    others = ("placement", "makespan", "load", "outgoing", "incoming", "crossing")
    return [array.tobytes() for array in (*times, *(chains.state[name] for name in others))]


def test_a_chain_after_hundreds_of_changes_is_what_it_would_be_from_scratch(bounds: StrategyBound) -> None:
    chains, random = begin(bounds), np.random.default_rng(2)
    for _ in range(300):
        chains.propose(*proposal(bounds, random))
        chains.accept(random.random(6) < 0.5)
    again = bounds.chains(chains.placement)
    assert kept(chains) == kept(again)
    assert chains.makespan.tolist() == bounds.makespans(chains.placement).tolist()


def test_a_proposal_is_the_makespan_of_the_changed_placement_and_changes_nothing(bounds: StrategyBound) -> None:
    chains, random = begin(bounds), np.random.default_rng(3)
    before = kept(chains)
    for _ in range(50):
        layer, choice = proposal(bounds, random)
        changed = chains.placement
        changed[np.arange(6), layer] = choice
        assert chains.propose(layer, choice).tolist() == bounds.makespans(changed).tolist()
        assert kept(chains) == before


def test_only_chains_of_the_mask_change_and_only_in_the_layer_proposed(bounds: StrategyBound) -> None:
    chains = begin(bounds, 3)
    expected, makespan = chains.placement, chains.makespan
    proposed = chains.propose([4, 5, 6], [7, 8, 9])
    chains.accept([True, False, True])
    expected[0, 4], expected[2, 6] = 7, 9
    assert chains.placement.tolist() == expected.tolist()
    assert chains.makespan.tolist() == [proposed[0], makespan[1], proposed[2]]


def test_a_proposal_of_what_is_there_is_no_change(bounds: StrategyBound) -> None:
    chains = begin(bounds, 2)
    assert chains.propose([3, 3], chains.placement[:, 3]).tolist() == chains.makespan.tolist()


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    model, _, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=fat_tree")
    found = []
    for threads in (1, 2):
        bounds = StrategyBound(model, network, some_choices(16, 24, seed=0), threads=threads)
        chains, random = begin(bounds), np.random.default_rng(4)
        proposed = []
        for _ in range(40):
            proposed.append(chains.propose(*proposal(bounds, random)).tobytes())
            chains.accept(random.random(6) < 0.5)
        found.append((proposed, kept(chains)))
    assert found[0] == found[1]


def test_chains_do_not_see_each_other(bounds: StrategyBound) -> None:
    together = begin(bounds, 70)
    assert bounds.makespans(together.placement).tolist() == together.makespan.tolist()
    alone = [bounds.makespans(row[None])[0] for row in together.placement[:5]]
    assert together.makespan[:5].tolist() == alone
    assert bounds.makespans(together.placement[:0]).tolist() == []


def test_cpu_and_gpu_agree(device: str) -> None:
    model, _, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=topoopt", "degree=4")
    choices = some_choices(16, 24, seed=0)
    here, there = (StrategyBound(model, network, choices, device=where) for where in ("cpu", device))
    one, other, random = begin(here), begin(there), np.random.default_rng(5)
    for _ in range(40):
        step = proposal(here, random)
        np.testing.assert_allclose(one.propose(*step), other.propose(*step), rtol=1e-12)
        mask = random.random(6) < 0.5
        one.accept(mask)
        other.accept(mask)
    assert one.placement.tolist() == other.placement.tolist()
    np.testing.assert_allclose(one.makespan, other.makespan, rtol=1e-12)
    assert one.state["load"].tolist() == other.state["load"].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": []}, r"^choices: must be at least one, got none$"),
        ({"choices": [(1, 0)]}, r"^strategy\.placement\.choice 0: must be ascending servers, got \[1, 0\]$"),
        ({"choices": [(0,), (0,)]}, r"^choices: must be 2 different sets, got 1$"),
        ({"choices": [(0, 4)]}, r"^strategy\.placement\.choice 0: must be within 0\.\.3, got \[0, 4\]$"),
        ({"all_reduce": "direct"}, r"^all_reduce: must be one of ring, hierarchical, got 'direct'$"),
        ({"routing": "guess"}, r"^routing: must be one of ecmp, spray, got 'guess'$"),
        ({"bucket_bytes": 0}, r"^bucket_bytes: must be positive, got 0$"),
        ({"threads": 0}, r"^threads: must be None or within 1\.\.1024, got 0$"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    model = Workload("one", (Layer("A", "dense", 1, 1.0, 1, 1),), 1, GPU)
    network = IdealSwitch(bandwidth=1e9, degree=1, latency=0.0).build(4, NOTHING)
    arguments: dict[str, Any] = {"choices": [(0,), (0, 1, 2, 3)]} | change
    with pytest.raises(ValueError, match=message):
        StrategyBound(model, network, **arguments)


def test_placements_and_proposals_outside_of_what_there_is_are_refused(bounds: StrategyBound) -> None:
    layers, choices = bounds.strategies.layers, bounds.strategies.choices
    with pytest.raises(ValueError, match=rf"^placement: expected \[2, {layers}\], got \[2, 3\]$"):
        bounds.makespans([[0, 0, 0]] * 2)
    with pytest.raises(ValueError, match=rf"^placement: must be within 0\.\.{choices - 1}, got -1\.\.-1$"):
        bounds.makespans([[-1] * layers])
    chains = begin(bounds, 2)
    with pytest.raises(ValueError, match=r"^accept: must follow a proposal, got none since the last$"):
        chains.accept([True, True])
    with pytest.raises(ValueError, match=rf"^layer: must be within 0\.\.{layers - 1}, got 0\.\.{layers}$"):
        chains.propose([0, layers], [0, 0])
    with pytest.raises(ValueError, match=r"^choice: must be integers, got float64$"):
        chains.propose([0, 1], [0.5, 1.0])
