"""Ranks, groups and stages of a grid, against every rank counted one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.grid import AXES, ParallelGrid
from topoflow.strategy.parallel import Parallel
from topoflow.workload.bert import Bert
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
GPT2, MIXTRAL = Transformer(A100).build(), Moe(A100).build()

powers = st.sampled_from([1, 2, 4])


@st.composite
def grids(draw: st.DrawFn) -> ParallelGrid:
    gpus, stages = draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(1, 3))
    tensor, context, expert = (draw(powers) for _ in range(3))
    cut = tensor * context * expert
    data = draw(powers) * (gpus // cut if gpus > cut else 1)
    replicate = draw(powers)
    zero = 1 if replicate > 1 else 0
    names = ((),) * stages
    return ParallelGrid(tensor, context, expert, data, stages, stages, gpus, names, zero=zero, replicate=replicate)


def by_hand(grid: ParallelGrid, stage: int, axes: tuple[str, ...]) -> Counter[tuple[tuple[int, ...], int]]:
    """(servers, members on each) of all groups, from Megatron-LM's numbering of the ranks."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for r, d, e, c, t in product(*(range(getattr(grid, axis)) for axis in AXES)):
        replica = d + grid.data * (r + grid.replicate * stage)
        rank = t + grid.tensor * (c + grid.context * (e + grid.expert * replica))
        place = dict(zip(AXES, (r, d, e, c, t), strict=True))
        groups[tuple(place[axis] for axis in AXES if axis not in axes)].append(rank // grid.gpus_per_server)
    counts: Counter[tuple[tuple[int, ...], int]] = Counter()
    for servers in groups.values():
        members = Counter(servers)
        assert len(set(members.values())) == 1, "a server has more members than another"
        counts[tuple(sorted(members)), members[servers[0]]] += 1
    return counts


@given(grids(), st.sets(st.sampled_from(AXES), min_size=1))
def test_groups_are_those_of_the_ranks(grid: ParallelGrid, axes: set[str]) -> None:
    for stage in range(grid.pipeline):
        groups = {(group.servers, group.local): group.side_by_side for group in grid.groups(stage, tuple(axes))}
        assert groups == by_hand(grid, stage, tuple(axes))


@given(grids(), st.sets(st.sampled_from(AXES), min_size=1))
def test_every_gpu_is_in_one_group(grid: ParallelGrid, axes: set[str]) -> None:
    members: Counter[int] = Counter()
    for stage in range(grid.pipeline):
        for group in grid.groups(stage, tuple(axes)):
            members.update(dict.fromkeys(group.servers, group.local * group.side_by_side))
    assert members == dict.fromkeys(range(grid.pipeline * grid.servers_per_stage), grid.gpus_per_server)


def test_the_groups_of_the_drawing() -> None:
    grid = ParallelGrid(2, 1, 1, 2, 2, 4, 4, (("a",), ("b",)))
    assert [(group.servers, group.local, group.side_by_side) for group in grid.groups(1, ("tensor",))] == [((1,), 2, 2)]
    assert [(group.servers, group.local, group.side_by_side) for group in grid.groups(0, ("data",))] == [((0,), 2, 2)]


@pytest.mark.parametrize("pipeline", [1, 2, 3, 4, 6, 12])
def test_every_layer_is_in_one_stage_and_stages_are_even(pipeline: int) -> None:
    strategy = Parallel(pipeline=pipeline).place(GPT2, 12)
    stages = strategy.stages
    assert [name for stage in stages for name in stage] == [layer.name for layer in GPT2.layers]
    blocks = [{name.split(".")[0] for name in stage if name.startswith("block")} for stage in stages]
    assert [len(stage) for stage in blocks] == [12 // pipeline] * pipeline
    for number, stage in enumerate(stages):
        assert {strategy.layer_servers[name] for name in stage} == {tuple(strategy.stage_servers(number))}


def test_ranks_hold_the_model_once_per_replica() -> None:
    """All parts of all stages add up to the parameters; what tensor ranks do not cut each of them has."""
    grid = Parallel(tensor=4, expert=2, pipeline=4).place(MIXTRAL, 8)
    parameters = {name: size for stage in grid.rank_parameters(MIXTRAL) for name, size in stage.items()}
    for layer in MIXTRAL.layers:
        assert parameters[layer.name] * grid.parts(layer) == layer.parameters
        parts = 8 if layer.kind == "expert" else 1 if layer.kind == "norm" or "router" in layer.name else 4
        assert grid.parts(layer) == parts or not layer.parameters


def test_a_tied_head_is_held_again_in_another_stage_only() -> None:
    # GPT-2's embedding has 50257 * 768 weights
    for pipeline, copies in ((1, 0), (2, 50257 * 768)):
        parameters = Parallel(pipeline=pipeline).place(GPT2, 2).rank_parameters(GPT2)
        assert sum(size for stage in parameters for size in stage.values()) == GPT2.parameters + copies


@pytest.mark.parametrize(
    ("rule", "servers", "message"),
    [
        (Parallel(tensor=0), 4, "parallel.tensor: must be a whole number of at least 1, got 0"),
        (Parallel(pipeline=1.5), 4, "parallel.pipeline: must be a whole number of at least 1, got 1.5"),
        (Parallel(tensor=8), 4, "parallel.tensor: must divide the 12 key-value heads of transformer, got 8"),
        (Parallel(context=3), 3, "parallel.context: must divide the 1024 positions of transformer, got 3"),
        (Parallel(expert=2), 4, "parallel.expert: must be 1 for transformer, which has no experts, got 2"),
        (Parallel(pipeline=3), 4, "parallel.pipeline: must divide the 4 servers, as a stage has whole ones, got 3"),
        (Parallel(virtual=2), 2, "parallel.virtual: must be 1 where there is one pipeline rank, got 2"),
        (
            Parallel(pipeline=4, virtual=4),
            4,
            "parallel.pipeline * virtual: must be at most the 12 blocks of transformer, got 16",
        ),
        (
            Parallel(pipeline=4, virtual=2, microbatches=6),
            4,
            "parallel.microbatches: must be a multiple of the 4 pipeline ranks where stages are interleaved, got 6",
        ),
        (Parallel(pipeline=16), 16, "parallel.pipeline: must be at most the 12 blocks of transformer, got 16"),
        (
            Parallel(tensor=4, context=8),
            4,
            "parallel: tensor * context * expert must divide the 16 GPUs of a stage, got 32",
        ),
        (
            Parallel(tensor=3),
            3,
            "parallel.tensor: tensor must divide or be a multiple of the 4 GPUs of a server, got 3",
        ),
        (
            Parallel(pipeline=2, microbatches=7),
            2,
            "parallel.microbatches: must divide the 24 samples of a replica, got 7",
        ),
        (Parallel(), None, "servers: must be given, only a captured job brings its own"),
    ],
)
def test_a_wrong_degree_names_field_law_and_value(rule: Parallel, servers: int | None, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        rule.place(GPT2, servers)
    assert str(error.value) == message


def test_experts_are_whole() -> None:
    with pytest.raises(ValueError, match=r"^parallel\.expert: must divide the 8 experts of moe, got 16$"):
        Parallel(expert=16).place(MIXTRAL, 4)


def test_only_a_transformer_is_cut() -> None:
    with pytest.raises(ValueError, match=r"^strategy: parallel must have a transformer .* got dlrm$"):
        Parallel().place(Dlrm(A100).build(), 4)
    assert Parallel(tensor=4, pipeline=2).place(Bert(A100).build(), 2).servers == 2
