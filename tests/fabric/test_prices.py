"""Price lists: TopoOpt's Table 2 and Sirius' power, worked by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import topoflow
from topoflow.demand import Demand
from topoflow.fabric.attached import Attached
from topoflow.fabric.base import Item
from topoflow.fabric.clos import Clos
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.prices import Prices
from topoflow.fabric.topoopt import TopoOpt
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import preset
from topoflow.units import gbps

NOTHING = Demand(128)


def test_a_node_of_8_h100_costs_its_parts_and_draws_the_most_of_a_dgx(configured: Callable[..., Any]) -> None:
    prices = configured("prices", "prices=gpu_cluster")
    bill = Attached(Clos(gbps(400), 1, 0.0, rails=True), Cluster(preset("hgx_h100"), 16)).build(16, Demand(16)).bill
    node = [item for item in bill if item.component.startswith(("gpu", "host"))]
    assert prices.cost(node) == 16 * (30_000 + 2_638)
    assert prices.power(node) == pytest.approx(2 * 10_200)
    assert prices.cost(bill) > prices.cost(node) + 16 * 1_363
    # An hour: 1 / (5 * 8,760) of the price, and 10.2 kW * 1.2 * 0.08 USD for each node
    assert prices.cost_of_step(prices.cost(node), prices.power(node), 3600.0) == pytest.approx(
        prices.cost(node) / 43_800 + 20.4 * 1.2 * 0.08
    )


def test_a_folded_cluster_has_the_bill_of_an_unfolded_one() -> None:
    cluster = Cluster(preset("hgx_h100"), 32)
    design = Clos(gbps(400), 1, 0.0, rails=True)
    folded = Attached(design, cluster, folded=True).build(4, Demand(4))
    assert folded.bill == Attached(design, cluster).build(32, Demand(32)).bill


def test_gpus_without_a_price_leave_the_cost_of_a_comparison_out() -> None:
    row = topoflow.compare(gpus=8, node="gh200", fabric="rail_optimized")[0].row
    assert (row.cost_usd, row.power_w, row.usd_per_step) == (None, None, None)


@pytest.fixture(scope="module")
def table2(configured: Callable[..., Any]) -> Prices:
    table = configured("prices", "prices=topoopt_table2")
    assert isinstance(table, Prices)
    return table


@pytest.mark.parametrize(
    ("speed", "transceiver", "nic", "switch_port"),
    [(10, 20, 185, 94), (25, 39, 185, 144), (40, 39, 354, 144), (100, 99, 678, 187), (200, 198, 815, 374)],
)
def test_listed_speeds_cost_what_table_2_says(
    table2: Prices, speed: float, transceiver: float, nic: float, switch_port: float
) -> None:
    for component, usd in (("transceiver", transceiver), ("switch_port", switch_port)):
        assert table2.cost([Item(component, 1, gbps(speed))]) == usd
    assert table2.cost([Item("nic_port", 2, gbps(speed))]) == nic  # a NIC is a card of two ports (Appendix G)


@pytest.mark.parametrize(
    ("component", "speed", "usd"),
    [
        ("nic_port", 400, 2 * 815 / 2),  # two of the fastest, two on a card
        ("transceiver", 400, 2 * 198),
        ("switch_port", 50, 187),  # one of 100
        ("nic_port", 201, 2 * 815 / 2),
        ("transceiver", 0, 20),  # a component is whole
        ("fiber", 400, 4 * 150),  # of 100 Gb/s each (note 4); 0.30 USD/m * 500 m
        ("patch_panel_port", 400, 100),  # constant (Appendix G)
    ],
)
def test_other_speeds_take_the_next_faster_or_several_of_the_fastest(
    table2: Prices, component: str, speed: float, usd: float
) -> None:
    assert table2.cost([Item(component, 1, gbps(speed))]) == usd


def test_a_full_fat_tree_of_128_servers_costs(table2: Prices) -> None:
    # 100 Gb/s: 128 ports of NICs * 339 + 640 ports * 187 + 768 transceivers * 99 + 384 fibers * 150 = 296,704 USD
    bill = FatTree(gbps(25), 4, 0.0).build(128, NOTHING).bill
    assert table2.cost(bill) == 128 * 339 + 640 * 187 + 768 * 99 + 384 * 150


@pytest.mark.parametrize(("nic_ports", "nic"), [(2, 339), (1, 678)])
@pytest.mark.parametrize(("fibers", "laid"), [(None, 2), (1, 1), (2, 2)])
def test_topoopt_of_128_servers_costs(
    configured: Callable[..., Any], nic_ports: int, nic: float, fibers: int | None, laid: int
) -> None:
    # 512 interfaces of 100 Gb/s, each: its share of a NIC, transceiver 99, 2 panel ports 200, 1x2 switch 25, fibers
    prices = configured("prices", "prices=topoopt_table2", f"prices.nic_ports={nic_ports}")
    bill = TopoOpt(gbps(100), 4, 0.0, 4, fibers=fibers).build(128, NOTHING).bill
    assert prices.cost(bill) == 512 * (nic + 99 + 200 + 25 + laid * 150)


def test_a_port_is_its_share_of_a_card_and_draws_it_too() -> None:
    card = {"nic_port": {"each": 12.0}}
    assert Prices(card, card, nic_ports=4).cost([Item("nic_port", 6)]) == 18
    assert Prices(card, card, nic_ports=4).power([Item("nic_port", 6)]) == 18
    with pytest.raises(ValueError, match=r"prices\.nic_ports: must be positive, got 0"):
        Prices(card, card, nic_ports=0)


@pytest.mark.parametrize("component", ["patch_panel_port", "ocs_port", "optical_switch_1x2"])
def test_optics_do_not_cost_more_for_faster_light(table2: Prices, component: str) -> None:
    assert table2.cost([Item(component, 1, gbps(10))]) == table2.cost([Item(component, 1, gbps(800))])


def test_a_direct_link_draws_50_watts_per_terabit(table2: Prices) -> None:
    assert table2.power([Item("transceiver", 2, gbps(1000))]) == pytest.approx(50)  # Sirius 2: Watts/Tbps


def test_a_switch_of_64_ports_of_400_gbps_draws_500_watts(table2: Prices, configured: Callable[..., Any]) -> None:
    assert table2.power([Item("switch_port", 64, gbps(400))]) == pytest.approx(500)  # Sirius 5
    assert configured("prices", "prices=sirius").cost([Item("switch_port", 64, gbps(400))]) == pytest.approx(5000)


def test_topoopt_draws_less_than_the_fat_tree_of_the_same_bandwidth(table2: Prices) -> None:
    # per server of 400 Gb/s: TopoOpt 4 transceivers of 2.5 W; fat-tree 6 of 10 W and 5 switch ports of 7.8125 W
    tree = FatTree(gbps(100), 4, 0.0).build(128, NOTHING).bill
    direct = TopoOpt(gbps(100), 4, 0.0, 4).build(128, NOTHING).bill
    assert table2.power(direct) == pytest.approx(128 * 10)
    assert table2.power(tree) == pytest.approx(128 * (6 * 10 + 5 * 7.8125))


def test_a_component_without_a_price_is_named() -> None:
    with pytest.raises(ValueError, match=r"prices\.usd: must have fiber, got nic_port"):
        Prices({"nic_port": {"each": 1}}, {}).cost([Item("fiber", 1)])


@pytest.mark.parametrize(
    ("tariff", "message"),
    [
        ({"per_meter": 1.0}, r"prices\.usd\.fiber: must be one of each, per_gbps, by_gbps, got per_meter"),
        ({"each": 1.0, "per_gbps": 1.0}, r"must be one of each, per_gbps, by_gbps, got each, per_gbps"),
        ({"each": -1.0}, r"prices\.usd\.fiber\.each: must not be negative, got -1.0"),
        ({"by_gbps": {}}, r"prices\.usd\.fiber\.by_gbps: must be speeds and prices, got {}"),
        ({"by_gbps": {0: 5.0}}, r"prices\.usd\.fiber\.by_gbps: must be positive, got 0"),
        ({"per_gbps": {10: 5.0}}, r"prices\.usd\.fiber\.per_gbps: must be a number"),
    ],
)
def test_a_tariff_that_says_nothing_is_an_error_with_its_law(tariff: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prices({"fiber": tariff}, {})
