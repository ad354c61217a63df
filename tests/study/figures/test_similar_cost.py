"""A network for the money of another: Table 2 worked by hand, and the laws of B'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.prices import Prices
from topoflow.fabric.topoopt import TopoOpt
from topoflow.study.figures.similar_cost import by_authors, by_prices, fastest_within, listed_speeds
from topoflow.units import gbps

SPEEDS = tuple(map(gbps, (10, 25, 40, 100, 200)))


@pytest.fixture(scope="module")
def table2(configured: Callable[..., Any]) -> Prices:
    table = configured("prices", "prices=topoopt_table2")
    assert isinstance(table, Prices)
    return table


def topoopt(speed: float, degree: int) -> TopoOpt:
    return TopoOpt(bandwidth=gbps(speed), degree=degree, latency=1e-6, paths=degree)


def fat_tree(speed: float, degree: int) -> FatTree:
    return FatTree(bandwidth=gbps(speed), degree=degree, latency=1e-6)


def demand(servers: int) -> Demand:
    return Demand(servers, {tuple(range(servers)): 1.0})


def test_a_fat_tree_of_128_servers_for_the_money_of_topoopt_by_hand(table2: Prices) -> None:
    # TopoOpt, 128 servers of 4 x 100 Gb/s: 512 ports of NICs * 339 + 512 transceivers * 99 + 512 1x2 switches * 25
    #   + 1024 panel ports * 100 + 1024 fibers * 150 = 173,568 + 50,688 + 12,800 + 102,400 + 153,600 = 493,056
    # fat-tree, k = 8, of 100 Gb/s links: 640 switch ports * 187 + 128 ports of NICs * 339 + 768 transceivers * 99
    #   + 384 fibers * 150 = 119,680 + 43,392 + 76,032 + 57,600 = 296,704; of 200 Gb/s 640 * 374 + 128 * 407.5
    #   + 768 * 198 + 384 cables * 2 fibers * 150 = 239,360 + 52,160 + 152,064 + 115,200 = 558,784
    # on the line between: 100 + 100 * (493,056 - 296,704) / (558,784 - 296,704) = 174.92 Gb/s = 4 B'
    design, cost = by_prices(fat_tree(100, 4), topoopt(100, 4), 128, table2)
    assert cost == pytest.approx(493_056)
    assert design.bandwidth * 4 == pytest.approx(gbps(100 + 100 * (493_056 - 296_704) / (558_784 - 296_704)))


@pytest.mark.parametrize(("degree", "speeds"), [(4, (10, 25, 40, 100, 200)), (8, (20, 50, 80, 200, 400))])
def test_the_authors_fat_trees_have_these_links(table2: Prices, degree: int, speeds: tuple[float, ...]) -> None:
    # TopoOpt's scripts: B = 10, 25, 40, 100, 200 Gb/s; fig16 at B = 100: 100 Gb/s per server for d = 4, 200 for d = 8
    for speed, link in zip((10, 25, 40, 100, 200), speeds, strict=True):
        design, cost = by_authors(fat_tree(speed, degree), topoopt(speed, degree), 16, table2)
        fabric = design.build(16, demand(16))
        assert fabric.bandwidth.tolist() == [gbps(link)] * fabric.links
        assert cost == table2.cost(fabric.bill)


@pytest.mark.parametrize("table", ["topoopt_table2", "sirius"])
@pytest.mark.parametrize("degree", [2, 4, 8])
@pytest.mark.parametrize("speed", [10, 25, 40, 100, 200])
def test_it_costs_as_much_or_is_as_fast(configured: Callable[..., Any], table: str, degree: int, speed: float) -> None:
    rival, prices = topoopt(speed, degree), configured("prices", f"prices={table}")
    budget = prices.cost(rival.build(16, demand(16)).bill)
    design, cost = by_prices(fat_tree(speed, degree), rival, 16, prices)
    assert cost <= budget * (1 + 1e-9)
    assert design.bandwidth <= rival.bandwidth * (1 + 1e-9)
    assert cost == pytest.approx(budget) or design.bandwidth == pytest.approx(rival.bandwidth)


@given(st.floats(1, 1e4), st.floats(1, 2), st.floats(1, 2000))
def test_more_money_never_buys_slower_links(budget: float, more: float, most: float) -> None:
    def cost(link: float) -> float:
        return 3.0 + link / gbps(1)  # in proportion to speed: the line is exact

    less, spent = fastest_within(budget, gbps(most), SPEEDS, cost)
    again, _ = fastest_within(budget * more, gbps(most), SPEEDS, cost)
    assert again >= less * (1 - 1e-12)
    if less > SPEEDS[0]:
        assert spent == pytest.approx(cost(less))
        assert spent == pytest.approx(budget) or less == pytest.approx(gbps(most))
    elif less == 0:
        assert budget < spent == cost(SPEEDS[0])


def test_speeds_are_those_of_the_price_list(table2: Prices) -> None:
    assert listed_speeds(table2) == SPEEDS
    assert listed_speeds(Prices({"nic_port": {"per_gbps": 1}}, {})) == (gbps(100),)


def test_what_no_money_buys_is_an_error(table2: Prices) -> None:
    # 1 x 10 Gb/s on 128 servers: 128 * (92.5 + 20 + 25 + 200 + 300) = 81,600; the cheapest fat-tree is
    # 640 * 94 + 128 * 92.5 + 768 * 20 + 384 * 150 = 144,960
    message = r"FatTree: must cost at most the 81,600 USD of its rival, got 144,960 USD"
    with pytest.raises(ValueError, match=message):
        by_prices(fat_tree(10, 1), topoopt(10, 1), 128, table2)
