"""A point has the values that Hydra composes, whatever other points share with it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hydra import compose
from omegaconf import OmegaConf

from tests.examples import examples
from topoflow.study.configure.composition import initialized
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.point import Point
from topoflow.study.configure.points import Composition, PointComposer
from topoflow.study.configure.sources import OWN
from topoflow.study.configure.tree import Path

VALUES = {  # of keys that interpolations read, directly and through others, are interpolations, lists, or wrong
    "fabric": ["fat_tree", "torus", "ring", "topoopt", "none_such"],
    "bandwidth_gbps": ["25", "100", "0.5", "-3", "fast", "null", "1e3", "${degree}"],
    "degree": ["2", "4", "0", "two", "1.5"],
    "latency_us": ["1", "0", "0.25", "'1'", "???"],
    "fabric.bandwidth": ["1e9", "5", "${gbps:7}", "-1"],
    "gpu": ["a100", "h100"],
    "gpu.memory": ["1e10", "40000000000", "none", "0"],
    "gpu.flops.float32": ["1e13", "2e13"],
    "workload": ["dlrm", "bert", "vgg16"],
    "workload.batch_per_gpu": ["8", "16", "0"],
    "workload.gpu.memory": ["1e10", "2e10"],
    "strategy.bucket_bytes": ["null", "1000000", "${mib:2}"],
    "fail": ["{links: [1]}", "{rings: drop}"],
    "fail.links": ["[]", "[0]", "[0,1]"],
    "fail.rings": ["drop", "recover", "faster"],
    "strides": ["null", "[1,3]"],
    "fidelity": ["fluid", "packet", "bound"],
    "fluid.merge": ["0.01", "auto", "2"],
    "packet.size": ["1024", "512"],
    "fidelity.merge": ["0.5"],
    "all_reduce": ["ring", "hierarchical", "none_such", "true", "'1'"],
    "prices.usd.fiber.by_gbps": ["{10: 5}"],
    "seed": ["0", "7", "-1", "007", "1_000", "99999999999999999999"],
    "out": ["here", "null", "'a=b'"],
    "+note": ["1"],
    "+fail.note": ["1"],
    "~fail.links": [""],
    "++seed": ["5"],
    "hardly": ["1"],
}


def drawn(random_: random.Random) -> list[list[str]]:
    """Overrides of points of the same keys, with some of the same values."""
    keys = random_.sample([*VALUES], random_.randint(1, 5))
    files = {key: random_.sample(VALUES[key], 1) for key in ("fabric", "workload", "gpu", "fidelity")}  # slow to read
    values = {**VALUES, **files}
    return [
        [f"{key}={random_.choice(values[key])}" if values[key] != [""] else key for key in keys]
        for _ in range(random_.randint(4, 8))
    ]


class ByHydra(PointComposer):
    """Points of which Hydra composes every value. It is initialized already, and reads all files."""

    def composition(self, overrides: Any) -> tuple[Composition, dict[Path, Any]]:
        for text in overrides:
            self.argument(text)  # raises for a group that is no name
        return self._composed(tuple(overrides)), {}


def answer(points: PointComposer, overrides: list[str]) -> Any:
    try:
        point = points.compose(overrides, Point({}, {}, {}))
    except ValueError as error:
        return str(error)
    choices = {group: option for group, option in point.choices.items() if not group.startswith("hydra")}
    return choices, repr(point.config)  # the order of keys counts, and 1 is not 1.0


@pytest.mark.parametrize("seed", range(examples(3)))
def test_a_point_has_the_values_that_hydra_composes(seed: int) -> None:
    with initialized():
        shared, by_hydra = PointComposer("compare", check, OWN), ByHydra("compare", check)
        for overrides in drawn(random.Random(seed)):
            expected = answer(by_hydra, overrides)
            assert answer(shared, overrides) == expected, overrides
            assert "Traceback" not in str(expected)


ORDERED = [
    ["fabric=ring", "bandwidth_gbps=25", "fabric.degree=2"],
    ["fabric=fat_tree", "fabric.oversubscription=2", "workload=bert", "gpu=a100"],
    ["fabric=ring", "+fabric.note={a: 1}"],
    ["fabric=fat_tree", "fabric={radix: 8}", "workload=dlrm", "~seed"],
    ["fabric.radix=4", "fabric=fat_tree", "fabric={radix: 8}"],
    ["workload.tables=3", "fabric=ring", "hydra.job.name=other"],
    ["fabric.oversubscription=2", "fabric=fat_tree", "~fabric.oversubscription"],
    ["fail={links: [3]}", "++fail.links=[4]", "fail.links=[5]"],
    ["fail={links: [3]}", "~fail.links", "seed=2"],
    ["+requests=motion", "requests.count=2"],
]


@pytest.mark.parametrize("overrides", ORDERED, ids=" ".join)
def test_the_order_of_arguments_counts_as_for_hydra(overrides: list[str]) -> None:
    with initialized():
        composition, changes = PointComposer("compare", check, OWN).composition(overrides)
        together = compose("compare", overrides=overrides)
        values = composition.tree.with_interpolations(changes)
        plain: Any = OmegaConf.to_container(together)
        assert {**plain, "fidelity": "fluid"} == values
        assert list(plain) == list(values)


def test_what_does_not_change_is_shared() -> None:
    points = Grid.of(["fabric=torus", "bandwidth_gbps=1,2,3,4,5,6"], check).compose()
    assert len({id(point.config["workload"]) for point in points}) == 1
    assert [point.config["fabric"]["bandwidth"] for point in points] == [1.25e8 * speed for speed in range(1, 7)]


def test_hydra_composes_points_that_choose_the_same_files_once(monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[tuple[str, ...]] = []
    original = PointComposer._composed

    def counted(self: PointComposer, overrides: tuple[str, ...]) -> Composition:
        composed.append(overrides)
        return original(self, overrides)

    monkeypatch.setattr(PointComposer, "_composed", counted)
    Grid.of(["fabric=torus,ring", "bandwidth_gbps=1,2", "strides=null,[1]", "seed=1"], check).compose()
    assert set(composed) == {("fabric=torus",), ("fabric=ring",)}
