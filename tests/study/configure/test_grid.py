"""The grid is Hydra's grid, and a wrong argument is one line that names key, law and value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import initialize_config_module
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from topoflow.fabric.fat_tree import FatTree
from topoflow.study.configure.build import build, check_fields
from topoflow.study.configure.grid import expand, grid
from topoflow.study.configure.point import Point, unique_names
from topoflow.study.configure.sources import Sources

CONFIGS = Path(__file__).resolve().parents[3] / "src" / "topoflow" / "configs"
COMPARE = yaml.safe_load((CONFIGS / "compare.yaml").read_text())
FABRICS = sorted(path.stem for path in (CONFIGS / "fabric").glob("*.yaml"))
WORKLOADS = [path.stem for path in (CONFIGS / "workload").glob("*.yaml")]
DEFAULT = COMPARE["hydra"]["sweeper"]["params"]["fabric"].split(",")


@pytest.fixture
def hydra() -> Iterator[None]:
    with initialize_config_module("topoflow.configs", version_base="1.3"):
        yield


@pytest.mark.usefixtures("hydra")
@pytest.mark.parametrize(
    "arguments",
    [
        ["fabric=ring"],
        ["fabric=ring,torus", "bandwidth_gbps=25,100"],
        ["fabric=choice(ring,torus)", "degree=range(2,9,2)"],
        ["fabric=glob(*,exclude=[links,t*])"],
        ["fabric=ring", "bandwidth_gbps=sort(100,25)", "+workload.tags=[1,2],[3]"],
        ["fabric=ring", "out='a,b'"],
        ["fabric=ring,torus", "fabric=ring"],
        ["fabric=ring", "workload=topoopt/vgg16", "seed=1,2.5,0.50,-3,1.0,null,true"],
        ["fabric=ring", "out=1e3,True,NULL,nan,x-1,/a/b.c,007,1_000,_,a.b"],
    ],
    ids=" ".join,
)
def test_the_grid_is_that_of_hydras_sweeper(arguments: list[str]) -> None:
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    assert [*expand(arguments)[0]] == BasicSweeper.split_arguments(parser.parse_overrides(arguments), None)[0]


@pytest.mark.usefixtures("hydra")
def test_what_is_not_given_is_swept_by_default() -> None:
    points, by_default = expand(["degree=2"])
    assert ([*points], by_default) == ([[f"fabric={name}", "degree=2"] for name in DEFAULT], {"fabric"})
    points, by_default = expand(["fabric=ring"])
    assert ([*points], by_default) == ([["fabric=ring"]], set())
    assert [*expand(["seed=1"], Sources((), ("hydra.sweeper.params={fabric: 'ring,torus'}",)))[0]] == [
        ["fabric=ring", "seed=1"],
        ["fabric=torus", "seed=1"],
    ]


def test_points_know_what_was_swept(watching: Any) -> None:
    points = grid(["fabric=ring", "bandwidth_gbps=25,100", "degree=2"], lambda top: None, observer=watching)
    assert [point.swept for point in points] == [{"bandwidth_gbps": "25"}, {"bandwidth_gbps": "100"}]
    assert [point.config["fabric"]["bandwidth"] for point in points] == [25e9 / 8, 100e9 / 8]
    assert points[0].choices["fabric"] == "ring"
    assert unique_names(points) == ["bandwidth_gbps=25", "bandwidth_gbps=100"]
    assert watching.advances[-1] == (2, 2)


@pytest.mark.parametrize("config", ["compare", "search"])
def test_circuits_are_built_for_what_the_all_reduce_runs_on(config: str) -> None:
    swept = "all_reduce=ring,hierarchical,halving_doubling,double_binary_tree,hierarchical_tree"
    built = [
        [
            point.config["fabric"]["collective"]
            for point in grid(["fabric=topoopt", swept, *override], lambda _: None, config)
        ]
        for override in ([], ["fabric.collective=ring"])
    ]
    assert built == [["ring"] * 3 + ["double_binary_tree"] * 2, ["ring"] * 5]


def test_equal_points_have_different_names() -> None:
    point = Point({}, {"fabric": "ring"}, {})
    assert unique_names([point, point]) == ["ring", "ring (2)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bandwith_gbps=100"], "bandwith_gbps: no such key; did you mean bandwidth_gbps?"),
        (["fabrik=ring"], "fabrik: no such key; did you mean fabric?"),
        (["fabric=ring", "fabric.degre=4"], "fabric.degre: no such key; did you mean fabric.degree?"),
        (["workload.tables.x=1"], "workload.tables.x: no such key"),
        (
            ["fabric=rings"],
            f"fabric: must be one of {', '.join(FABRICS)}, got 'rings'",
        ),
        (["workload=nope"], f"workload: must be one of {min(WORKLOADS)}, "),
        (["prices.usd={laser: 1}"], "prices.usd: no such key in it like those given; ++prices.usd=... adds keys"),
        (["fabric"], "'fabric': must be KEY=VALUE in Hydra's syntax (missing EQUAL"),
        (["=3"], "'=3': must be KEY=VALUE"),
        (["servers=[1"], "'servers=[1': must be KEY=VALUE in Hydra's syntax"),
        *(
            (
                [f"servers={value}"],
                f"servers: must be values, or one choice, range or glob that is in no other, got {value!r}",
            )
            for value in ("2,range(3,5)", "choice(2,range(3,5))", "choice(choice(2,3),4)", "glob(*),2", "interval(1,3)")
        ),
        (["servers=range(choice(1,2),3)"], "servers: must be values, or one choice"),
        (["fabric.x=[1,range(1,2)]"], "fabric.x: must be values, or one choice"),
        (["fabric=links"], "fabric.file: must be given, e.g. fabric.file=VALUE"),
        (["latency_us=abc"], "fabric.latency: could not convert string to float: 'abc'"),
        (["workload.tables=${nope}"], "workload.tables: Interpolation key 'nope' not found"),
        (["+degree=3"], "fabric=ideal_switch +degree=3: Could not append to config. An item is already at 'degree'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_one_line(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        grid(arguments, lambda top: None)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"radix": 4}, "fabric.bandwidth: must be given"),
        ({"bandwidth": 1, "degree": 1, "latency": 0, "ports": 4}, "fabric.ports: no such key; must be one of"),
        ({"bandwidth": "fast", "degree": 1, "latency": 0}, "fabric.bandwidth: must be a number, got 'fast'"),
        ({"bandwidth": 1, "degree": 1.5, "latency": 0}, "fabric.degree: must be a whole number, got 1.5"),
        ({"bandwidth": 1, "degree": True, "latency": 0}, "fabric.degree: must be a whole number, got True"),
        ({"bandwidth": 1, "degree": 1, "latency": 0, "radix": "x"}, "fabric.radix: must be a whole number or null"),
    ],
    ids=str,
)
def test_a_field_of_a_config_has_the_type_of_its_class(config: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        check_fields("fabric", FatTree, config)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("group", "argument", "message"),
    [
        ("fabric", "fabric.dims=4", "fabric.dims: must be a list, as [1, 2] or null, got 4"),
        ("strategy", "strategy.placement=3", "strategy.placement: must be a mapping, as {name: value} or null, got 3"),
        ("workload", "workload.gpu=3", "workload.gpu: must be a mapping, as {name: value}, got 3"),
        ("gpu", "gpu.flops=3", "gpu.flops: must be a mapping, as {name: value}, got 3"),
        ("gpu", "gpu.flops.float32=x", "gpu.flops.float32: must be a number, got 'x'"),
        ("prices", "prices.usd=3", "prices.usd: must be a mapping, as {name: value}, got 3"),
        ("prices", "prices.usd.nic_port=3", "prices.usd.nic_port: must be one of each, per_gbps, by_gbps, got 3"),
        ("prices", "prices.usd.nic_port.by_gbps=x", "prices.usd.nic_port.by_gbps: must be speeds and prices, got x"),
        ("prices", "prices.watts.nic_port.each=x", "prices.watts.nic_port.each: must be a number, got 'x'"),
        (
            "fabric",
            "fabric._target_=no.such",
            "fabric._target_: must name a class, got 'no.such' (No module named 'no')",
        ),
        ("fabric", "fabric._target_=os.system", "fabric._target_: must name a dataclass, got 'os.system'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_by_its_key(group: str, argument: str, message: str) -> None:
    (point,) = grid(["fabric=torus", argument], lambda top: None)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        build(point, group)
    assert str(error.value) == message
