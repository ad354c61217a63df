"""Fuzzing of readers: each accepts its seeds, what it may raise is told from what it may not, and files are changed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from damaged.changes import changed
from damaged.one_reader import Target, refuses
from damaged.readers import READERS

HERE = "/topoflow/reader.py"  # where the code of a reader stands


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    """Readers with their seeds, each of which a target reads before it begins."""
    for extra in ("pyarrow", "duckdb", "optuna", "flatbuffers"):
        pytest.importorskip(extra)
    return {name: Target(reader, tmp_path_factory.mktemp(name), 0.0) for name, reader in READERS.items()}


@pytest.mark.slow
def test_every_reader_accepts_its_seeds(targets: dict[str, Target]) -> None:
    assert all(target.choices for target in targets.values())


@pytest.mark.slow
def test_files_are_changed_and_stay_files(targets: dict[str, Target]) -> None:
    for target in targets.values():
        for seed, name in target.choices[:3]:
            files = [changed(seed[name], Random(number)) for number in range(12)]
            assert sum(file != seed[name] for file in files) > 6


def raised(code: str, file: str) -> BaseException:
    try:
        exec(compile(code, file, "exec"), {})
    except Exception as error:
        return error
    pytest.fail(f"must raise: {code}")


@pytest.mark.parametrize(
    ("code", "file", "is_refusal"),
    [
        ("raise ValueError('x.json: size: must be positive, got -1')", HERE, True),
        (
            "try:\n    int('x')\nexcept ValueError as error:\n    raise ValueError('x.json: size') from error",
            HERE,
            True,
        ),
        ("open('/nowhere')", HERE, True),
        ("int('x')", HERE, False),
        ("a, b = (1,)", HERE, False),
        ("raise TypeError('x.json: size: must be a number')", HERE, False),
        ("raise ValueError('x')", "/numpy/core.py", False),
    ],
)
def test_a_refusal_has_words_of_topoflow(code: str, file: str, is_refusal: bool) -> None:
    assert refuses(raised(code, file)) is is_refusal


def test_what_fails_is_saved_with_its_traceback_and_the_next_file_is_read(tmp_path: Path) -> None:
    reader = READERS["placements"]
    target = Target(reader, tmp_path, 1e9)
    object.__setattr__(target, "reader", type(reader)(lambda paths: {}["x"], reader.seeds))
    for _ in range(2):
        target.one(target.input(0))
    (failed,) = (tmp_path / "failed").iterdir()
    assert "KeyError: 'x'" in (failed / "traceback.txt").read_text()
    assert (failed / "placements.jsonl").read_bytes() == target.input(0)[1:]
    assert (target.state.inputs, target.state.accepted, [*target.state.failures.values()]) == (2, 0, [2])
