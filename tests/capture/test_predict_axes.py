"""The mesh of a job follows from the groups of one rank."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

pytest.importorskip("torch")  # the package of predictions needs it

from topoflow.capture.layout import MeshLayout
from topoflow.capture.predict.axes import layout_of


def test_the_axes_of_any_mesh_follow_from_the_groups_along_them() -> None:
    random = Random(0)
    for _ in range(200):
        mesh = MeshLayout({f"axis{axis}": random.randint(2, 5) for axis in range(random.randint(2, 4))})
        rank = random.randrange(mesh.world_size)
        position = mesh.position(rank)
        axes = range(len(mesh.sizes))
        groups = [
            mesh.box([range(mesh.sizes[axis]) if axis in spanned else [position[axis]] for axis in axes])
            for count in range(1, len(mesh.sizes))
            for spanned in combinations(axes, count)
        ]
        assert layout_of(mesh.world_size, groups, [], {}) == mesh


def test_a_job_with_one_group_has_one_axis() -> None:
    assert layout_of(6, [range(6)], [], {}) == MeshLayout({"dp": 6})


def test_a_neighbor_in_a_pipeline_shows_where_its_axis_begins() -> None:
    assert layout_of(16, [range(16)], [4, -4], {}).sizes == (4, 4)


def test_axes_have_the_names_that_pytorch_gives_their_groups() -> None:
    purposes = {"mesh_tp": (0, 1), "mesh_dp": (0, 2, 4), "default_pg": tuple(range(6))}
    assert layout_of(6, purposes.values(), [], purposes) == MeshLayout({"tp": 2, "dp": 3})


def test_groups_that_form_no_mesh_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^groups: must be those of a mesh of 12 ranks"):
        layout_of(12, [(0, 1, 2), (0, 4, 8)], [], {})
