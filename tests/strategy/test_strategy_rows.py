"""A strategy in a few rows: layers that are placed alike share one."""

from __future__ import annotations

from topoflow.strategy.grid import ParallelGrid
from topoflow.strategy.placement import Placement
from topoflow.strategy.words import Row

SERVERS = 8
EVERYONE = tuple(range(SERVERS))


def rows_of(**placement: tuple[int, ...]) -> list[Row]:
    return Placement("hybrid", SERVERS, placement).rows()


def test_layers_that_are_held_alike_share_a_row() -> None:
    tables = {f"table{number}": (number % 2,) for number in range(4)}
    rows = rows_of(**tables, top=EVERYONE, bottom=EVERYONE, half=(0, 2, 4, 6))
    assert rows == [
        ("table0, ..., table3 (4 layers)", "each on one server; 0 to 2 on a server"),
        ("top, bottom", "on all servers (data parallel)"),
        ("half", "on servers 0, 2, ..., 6"),
    ]


def test_many_kinds_of_placement_are_named_by_how_many_servers_hold_a_layer() -> None:
    pairs = {f"layer{i}{j}": (i, j) for i in range(SERVERS) for j in range(i + 1, SERVERS)}
    assert rows_of(**pairs, top=EVERYONE) == [
        ("layer01, ..., layer67 (28 layers)", "each on 2 servers; 7 on every server"),
        ("top", "on all servers (data parallel)"),
    ]


def test_a_grid_is_described_by_its_degrees_and_its_stages() -> None:
    grid = ParallelGrid(2, 1, 1, 2, 2, microbatches=4, gpus_per_server=1, stages=(("block0",), ("block1", "head")))
    assert grid.rows() == [
        ("all layers", "tensor 2, context 1, expert 1, data 2, pipeline 2; 4 microbatches"),
        ("block0", "on servers 0-3"),
        ("block1, head", "on servers 4-7"),
    ]


def test_of_a_long_pipeline_the_rows_that_are_left_out_are_counted() -> None:
    stages = tuple((f"block{number}",) for number in range(16))
    grid = ParallelGrid(1, 1, 1, 1, 16, microbatches=1, gpus_per_server=1, stages=stages)
    head, *rows = grid.rows()
    assert head[1].endswith("pipeline 16; 1 microbatch")
    assert rows[:11] == [(f"block{number}", f"on server {number}") for number in range(11)]
    assert rows[11:] == [("\N{HORIZONTAL ELLIPSIS}", "4 more stages"), ("block15", "on server 15")]
