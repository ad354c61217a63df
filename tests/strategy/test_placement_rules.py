"""Data parallel and hybrid: who holds which layer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.base import Trace
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.hybrid import Hybrid
from topoflow.units import register_resolvers
from topoflow.workload.base import RecordedJob
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu

A100 = Gpu("A100", {"float32": 19.5e12}, 1555e9, 300e9, 40e9)
FOUR_TABLES = Dlrm(A100, tables=4).build()


@given(st.integers(1, 40))
def test_data_parallel_puts_every_layer_on_every_server(servers: int) -> None:
    strategy = DataParallel().place(FOUR_TABLES, servers)
    assert set(strategy.placement) == {layer.name for layer in FOUR_TABLES.layers}
    assert set(strategy.placement.values()) == {tuple(range(servers))}
    assert all(strategy.host("top0", server) == server for server in range(servers))


@given(st.integers(1, 40), st.integers(1, 40))
def test_hybrid_deals_the_tables_in_turn(servers: int, tables: int) -> None:
    workload = Dlrm(A100, tables=tables).build()
    placement = Hybrid().place(workload, servers).placement
    tables_per_server = Counter(placement[f"E{index}"] for index in range(tables))
    assert all(len(holders) == 1 for holders in tables_per_server)
    assert max(tables_per_server.values()) == -(-tables // servers)  # as even as whole tables can be
    assert placement["E0"] == (0,)
    assert placement["bottom0"] == placement["top0"] == tuple(range(servers))


def test_a_placement_overrides_the_rule() -> None:
    # TopoOpt 2.1: "we place E0 on S0, E1 on S3, E2 on S8, and E3 on S13"
    rule = Hybrid(placement={"E0": 0, "E1": 3, "E2": [8], "E3": 13, "top0": [5, 1]})
    placement = rule.place(FOUR_TABLES, 16).placement
    assert [placement[f"E{index}"] for index in range(4)] == [(0,), (3,), (8,), (13,)]
    assert placement["top0"] == (1, 5)
    assert placement["top1"] == tuple(range(16))


@given(st.sampled_from([(12, 1), (12, 2), (12, 3), (12, 4), (12, 6), (12, 12)]), st.randoms())
def test_holders_share_the_samples_equally(sizes: tuple[int, int], random: Any) -> None:
    servers, copies = sizes
    holders = random.sample(range(servers), copies)
    strategy = Hybrid(placement={"E0": holders}).place(FOUR_TABLES, servers)
    hosted = Counter(strategy.host("E0", server) for server in range(servers))
    assert hosted == dict.fromkeys(holders, servers // copies)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ({"E9": 0}, "hybrid.placement: must name layers of dlrm, got 'E9'"),
        ({"E0": 16}, "hybrid.placement.E0: must be servers within 0..15, got 16"),
        ({"E0": -1}, "hybrid.placement.E0: must be servers within 0..15, got -1"),
        ({"E0": 1.5}, "hybrid.placement.E0: must be servers within 0..15, got 1.5"),
        ({"E0": "S3"}, "hybrid.placement.E0: must be servers within 0..15, got 'S3'"),
        ({"E0": []}, "hybrid.placement.E0: must name each server once and at least one, got []"),
        ({"E0": [1, 1]}, "hybrid.placement.E0: must name each server once and at least one, got [1, 1]"),
        ({"E0": [1, 2, 3]}, "hybrid.placement.E0: the number of holders must divide the 16 servers, got 3"),
    ],
)
def test_a_wrong_placement_names_layer_law_and_value(placement: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        Hybrid(placement=placement).place(FOUR_TABLES, 16)
    assert str(error.value) == message


@pytest.mark.parametrize("rule", [DataParallel(), Hybrid()])
@pytest.mark.parametrize(
    ("servers", "message"),
    [
        (None, "servers: must be given, only a captured job brings its own"),
        (0, "servers: must be a whole number of at least 1, got 0"),
        (2.5, "servers: must be a whole number of at least 1, got 2.5"),
    ],
)
def test_a_job_needs_servers(rule: DataParallel | Hybrid, servers: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        rule.place(FOUR_TABLES, servers)
    assert str(error.value) == message


@pytest.mark.parametrize("rule", [DataParallel(), Hybrid()])
def test_a_captured_job_keeps_its_own_split(rule: DataParallel | Hybrid) -> None:
    trace = Trace("job", world_size=2, iterations=1, ranks={0: ()})
    captured = RecordedJob(trace, A100)
    with pytest.raises(ValueError, match=r"^strategy: must be as_captured for a captured job"):
        rule.place(captured, 2)


@pytest.mark.parametrize(
    ("written", "holders"), [("{E0: 0, E1: 3, E2: [8, 9]}", [(0,), (3,), (8, 9)]), ("{E1: 5}", [(0,), (5,), (2,)])]
)
def test_a_placement_can_be_written_on_the_command_line(written: str, holders: list[tuple[int, ...]]) -> None:
    register_resolvers()
    with initialize_config_module("topoflow.configs", version_base="1.3"):
        config = compose("strategy/hybrid", overrides=[f"strategy.placement={written}"])
    placement = instantiate(config.strategy).place(FOUR_TABLES, 16).placement
    assert [placement[name] for name in ("E0", "E1", "E2")] == holders
