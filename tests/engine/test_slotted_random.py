"""Slots on random worlds: the kernel does exactly what its plain-Python twin does, in every cell and slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.slots import assert_equal, with_failures
from tests.twins.slotted import Reference, two_below
from topoflow.engine.random import WORD, philox
from topoflow.engine.slotted import SlottedResults
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import CABLES, PROTOCOLS, SlottedSettings
from topoflow.fabric.circuits.schedule import CircuitSchedule

CASES = st.integers(0, 2**32 - 1)


def random_settings(draw: np.random.Generator) -> SlottedSettings:
    return SlottedSettings(
        str(draw.choice(list(PROTOCOLS))),
        int(draw.integers(2, 17)),
        credits=[None, 1, 2, 7, 40][draw.integers(0, 5)],
        cable=str(draw.choice(list(CABLES))),
        seed=int(draw.integers(0, 2**32)),
    )


def compare(world: Cells, model: SlottedSettings, run_cells: Callable[..., list[SlottedResults]]) -> None:
    twin = Reference(world, model)
    twin.run()
    (results,) = run_cells([world], model)
    assert_equal(results, twin)


@settings(max_examples=150)
@given(CASES)
def test_the_kernel_is_exactly_the_twin(
    random_cells: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    world, model = replace(random_cells(draw), credited=draw.random() < 0.8), random_settings(draw)
    compare(world, model, run_cells)
    compare(with_failures(draw, world, model.protocol), model, run_cells)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_and_so_it_is_with_more_nodes_than_a_word_has_bits(
    random_cells: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], protocol: str
) -> None:
    draw = np.random.default_rng(3)
    world = replace(random_cells(draw), schedule=CircuitSchedule(67, 67), until=NEVER)
    node = np.arange(67, dtype=np.int32)
    tasks = world.tasks
    source, shift = draw.integers(0, 67, tasks), draw.integers(1, 67, tasks)
    cells = np.maximum(world.cells, 30)
    ends = {"source": source.astype(np.int32), "target": ((source + shift) % 67).astype(np.int32)}
    compare(replace(world, node=node, cells=cells, **ends), SlottedSettings(protocol, 4, seed=1), run_cells)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_worlds_of_several_protocols_in_one_batch_are_as_alone(
    random_cells: Callable[..., Cells],
    random_rotors: Callable[..., Cells],
    random_staggered: Callable[..., Cells],
    random_square: Callable[..., Cells],
    run_cells: Callable[..., list[SlottedResults]],
    protocol: str,
) -> None:
    draw, model = np.random.default_rng(5), SlottedSettings(protocol, 4, seed=1)
    kinds = (random_rotors, random_square, random_staggered, random_cells)
    worlds = [make(draw) for _ in range(4) for make in kinds]
    for together, world in zip(run_cells(worlds, model), worlds, strict=True):
        (alone,) = run_cells([world], model)
        assert alone.hops == together.hops
        assert alone.finish.tolist() == together.finish.tolist()


def test_words_are_those_of_the_generator_that_was_published() -> None:
    """Source: Random123's known answers for philox4x32-10."""
    largest = 2**32 - 1
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox((largest,) * 4, (largest,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


@pytest.mark.parametrize(("n", "m"), [(4, 8), (3, 5), (1, 127), (50, 127)])
def test_two_numbers_from_one_word_are_every_pair_as_often(n: int, m: int) -> None:
    repeats = 64
    words = [(2 * i + 1) * WORD // (2 * n * m * repeats) for i in range(n * m * repeats)]
    counts = np.zeros((n, m), int)
    for word in words:
        counts[two_below(word, n, m)] += 1
    assert np.abs(counts - repeats).max() <= 1
