"""Points that differ in plain values are made of one template; nobody can see it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from topoflow.study.configure import grid as grids
from topoflow.study.configure.grid import Grid, Point, Points
from topoflow.study.configure.keys import check

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
    "workload.gpu.memory": ["1e10"],
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


def composed(points: Points, overrides: list[str]) -> Any:
    try:
        found = points.compose(overrides, Point({}, {}, {}))
    except ValueError as error:
        return str(error)
    return found.choices, repr(found.config)  # the order of keys counts, and 1 is not 1.0


def test_a_point_of_a_template_is_what_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    used, seen = 0, grids.Known.with_values

    def counted(*given: Any) -> Point:
        nonlocal used
        found = seen(*given)
        used += 1
        return found

    monkeypatch.setattr(grids.Known, "with_values", counted)
    parts = Grid.of(["fabric=ring"], check)
    with grids.initialized():
        composer, together = parts._points.composer, parts._points
        for seed in range(8):
            for overrides in drawn(random.Random(seed)):
                alone = composed(Points(composer, check), overrides)
                assert composed(together, overrides) == alone, overrides
                assert "Traceback" not in str(alone)
    assert used > 5


def test_what_does_not_change_is_shared() -> None:
    points = Grid.of(["fabric=torus", "bandwidth_gbps=1,2,3,4,5,6"], check).compose()
    assert len({id(point.config["workload"]) for point in points[1:]}) == 1
    assert [point.config["fabric"]["bandwidth"] for point in points] == [1.25e8 * each for each in range(1, 7)]
