"""The mesh of a job by the arguments of its trainer: every group of the trainer is a sub-mesh of it."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path

import pytest

from topoflow.capture.layout import MeshLayout
from topoflow.study.configure.job_layout import job_layout

Sizes = dict[str, int]


def groups(sizes: Sizes, along: set[str]) -> list[tuple[int, ...]]:
    """Return the groups of ranks that differ along some axes, the first of which varies fastest (``RankGenerator``)."""
    names = list(sizes)
    members: dict[tuple[int, ...], list[int]] = {}
    for rank, position in enumerate(product(*(range(sizes[name]) for name in reversed(names)))):
        at = dict(zip(reversed(names), position, strict=True))
        members.setdefault(tuple(at[name] for name in names if name not in along), []).append(rank)
    return [tuple(group) for group in members.values()]


def check(layout: MeshLayout, sizes: Sizes, *kinds: set[str]) -> None:
    assert layout.world_size == prod(sizes.values())
    for kind in kinds:
        for group in groups(sizes, kind):
            along = layout.spanned(group)
            assert layout.box(along) == tuple(sorted(group))
            assert all(len(at) in (1, size) for at, size in zip(along, layout.sizes, strict=True))


def text(options: dict[str, object]) -> str:
    return "torchrun pretrain_gpt.py \\\n" + " \\\n".join(f"  --{name} {value}" for name, value in options.items())


@pytest.mark.parametrize("late_data", [False, True])
@pytest.mark.parametrize("expert_tensor", [None, 1])
@pytest.mark.parametrize(
    ("tp", "cp", "ep", "pp"), [(2, 1, 1, 2), (2, 2, 4, 2), (2, 4, 2, 1), (4, 1, 8, 2), (1, 1, 8, 4)]
)
def test_groups_of_megatron_are_sub_meshes(
    tp: int, cp: int, ep: int, pp: int, expert_tensor: int | None, late_data: bool, tmp_path: Path
) -> None:
    options = {
        "tensor-model-parallel-size": tp,
        "context-parallel-size": cp,
        "expert-model-parallel-size": ep,
        "pipeline-model-parallel-size": pp,
    }
    if expert_tensor is not None:
        options["expert-tensor-parallel-size"] = expert_tensor
    file = tmp_path / "train.sh"
    file.write_text(text(options) + " --use-tp-pp-dp-mapping" * late_data)
    world = 64
    cut = tp if expert_tensor is None else expert_tensor
    dense = {"tp": tp, "cp": cp, "dp": world // (tp * cp * pp), "pp": pp}
    experts = {"tp": cut, "ep": ep, "dp": world // (cut * ep * pp), "pp": pp}
    if late_data:  # Megatron-LM refuses the others, whose expert ranks are in several stages
        dense, experts = ({name: one[name] for name in (*list(one)[:2], "pp", "dp")} for one in (dense, experts))
        if ep > cp * tp // cut:
            with pytest.raises(ValueError, match="must have the ranks that share experts"):
                job_layout(str(file)).of(world)
        if ep != cp * tp // cut:
            return
    layout = job_layout(str(file)).of(world)
    check(layout, dense, {"tp"}, {"cp"}, {"dp"}, {"cp", "dp"}, {"pp"})
    check(layout, experts, {"ep"}, {"dp"}, {"pp"})


@pytest.mark.parametrize("expert_tensor", [1, 2])
@pytest.mark.parametrize("shard", [-1, 4])
def test_groups_of_torchtitan_are_sub_meshes(shard: int, expert_tensor: int, tmp_path: Path) -> None:
    file = tmp_path / "moe.toml"
    file.write_text(
        "[parallelism]\n"
        "data_parallel_replicate_degree = 2\n"
        f"data_parallel_shard_degree = {shard}\n"
        "tensor_parallel_degree = 2\n"
        "context_parallel_degree = 2\n"
        "pipeline_parallel_degree = 2\n"
        "expert_parallel_degree = 8\n"
        f"expert_tensor_parallel_degree = {expert_tensor}\n"
    )
    layout = job_layout(str(file)).of(64)
    dense = {"tp": 2, "cp": 2, "dp_shard": 4, "dp_replicate": 2, "pp": 2}
    check(layout, dense, {"tp"}, {"cp"}, {"dp_shard", "cp"}, {"dp_replicate"}, {"pp"}, {"dp_shard", "dp_replicate"})
    experts = {"tp": expert_tensor, "ep": 8, "dp_shard": 2 // expert_tensor, "dp_replicate": 2, "pp": 2}
    check(layout, experts, {"ep"}, {"dp_shard"})


def test_a_dense_job_has_the_axes_that_are_written(tmp_path: Path) -> None:
    file = tmp_path / "megatron.txt"
    file.write_text("--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4")
    assert str(job_layout(str(file)).of(64)) == "tp=8,cp=1,dp=2,pp=4"
    assert str(job_layout("tp=8,dp=2").of(16)) == "tp=8,dp=2"


@pytest.mark.parametrize(
    ("options", "world", "message"),
    [
        ("--tensor-model-parallel-size 8", 12, "must divide the ranks of the job, got 8, 12"),
        ("--tensor-model-parallel-size 8", None, "must divide the ranks of the job, got 8, None"),
        ("--tensor-model-parallel-size x", 8, "--tensor-model-parallel-size: must be a whole number, got 'x'"),
        ("--expert-model-parallel-size 3", 8, "expert ranks must divide dp=8, got 3"),
        (
            "--tensor-model-parallel-size 4 --expert-tensor-parallel-size 2",
            8,
            "--expert-tensor-parallel-size: must be 1 or the 4 tensor ranks, got 2",
        ),
        ("nothing", 8, "must be options of Megatron-LM"),
    ],
)
def test_arguments_that_give_no_mesh_are_one_line_with_the_file(
    options: str, world: int | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "megatron.txt"
    file.write_text(options)
    with pytest.raises(ValueError, match=r"^\S+megatron.txt: ") as refused:
        job_layout(str(file)).of(world)
    assert message in str(refused.value)
