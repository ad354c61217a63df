"""Digests: equal for equal content, another for any other, however deep and however large."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow.digest import ContentHashed, digest, program


@dataclass(frozen=True)
class One:
    value: Any
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class Other:
    value: Any


class Ways(ContentHashed):
    def __init__(self, first: Any, second: Any = None) -> None:
        self.cache: dict[int, int] = {}


class More(Ways):
    def __init__(self, first: Any, extra: Any = 0) -> None:
        super().__init__(first)


def contents() -> list[Any]:
    large = np.zeros(100_000)
    changed = large.copy()
    changed[50_000] = 1e-300
    plain = [None, True, 1, 1.0, 1.0000000000000002, "1", "", [], [1, 2], [2, 1], [[1], 2], {}, {"a": 1}, {"a": "1"}]
    arrays = [large, changed, large.astype(np.float32), large.reshape(2, -1), np.zeros(0)]
    keyed = [{(0, 1): 1.0}, {(0, 2): 1.0}, {(0, 1): 2.0}, {0: 1}, {1: 0}, {"a": {(0, 1): 1.0}}]
    sets = [{1, 2}, {1, 3}, b"", b"1", dict, One, Other]
    built = [kind(value) for kind in (One, Other) for value in (1, 2, large, changed, (One(1), One(2)), {(0,): One(1)})]
    nested = [
        kind(value) for kind in (Ways, More) for value in (1, 2, large, changed, Ways(1), {1: 2, 3: 4}, {3: 4, 1: 2})
    ]
    return [
        *plain,
        *arrays,
        *keyed,
        *sets,
        *built,
        *nested,
        Ways(1, 1),
        More(1, 1),
        More(1, extra=1),
        Ways(1, second=1),
    ]


def test_contents_that_differ_have_different_digests() -> None:
    values = contents()
    assert len({digest(value) for value in values}) == len(values)


def test_equal_contents_have_equal_digests() -> None:
    for value, equal in zip(contents(), contents(), strict=True):
        assert digest(value) == digest(equal)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"xyz"[i] for i in (0, 1, 2)}) == digest({"xyz"[i] for i in (2, 1, 0)})
    assert digest(One(1, note="a")) == digest(One(1, note="b"))


@pytest.mark.parametrize("value", [object(), lambda: 1, np.array([object()])])
def test_what_has_a_state_that_cannot_be_known_equals_nothing(value: object) -> None:
    assert digest(value) != digest(value)
    assert digest(One([value])) != digest(One([value]))


def test_every_change_of_the_program_is_another_one_and_what_is_no_code_is_not(tmp_path: Path) -> None:
    code, library = tmp_path / "engine" / "run.py", tmp_path / "_C.so"
    code.parent.mkdir()
    code.write_text("a = 1")
    library.write_bytes(b"1")

    def now() -> str:
        program.cache_clear()
        return program(tmp_path)

    (tmp_path / "engine" / "__pycache__").mkdir()
    first = now()
    (tmp_path / "engine" / "__pycache__" / "run.pyc").write_bytes(b"x")
    (tmp_path / "engine" / ".#run.py").symlink_to("nobody@nowhere")  # as an editor locks a file
    assert now() == first
    digests = [first]
    for change in (
        lambda: code.write_text("a = 2"),
        lambda: library.write_bytes(b"2"),
        lambda: code.rename(tmp_path / "engine" / "ran.py"),
        lambda: (tmp_path / "engine" / "more.py").touch(),
    ):
        change()
        assert now() not in digests
        digests.append(now())
