"""The wording of docstrings, as far as a first word shows it; ruff checks their form (pyproject.toml)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import topoflow

PACKAGE = Path(topoflow.__file__).resolve().parent
FRAGMENTS = ("As", "Of", "That", "Those", "What", "Where", "Whether")  # first words of phrases that are no sentences
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py")))


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


def fragments(text: str) -> list[int]:
    """Return the lines of docstrings that begin with a phrase instead of a verb or the name of the thing."""
    return [line for line, docstring in docstrings(text) if docstring.split(maxsplit=1)[0].strip(",:;.") in FRAGMENTS]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_the_name_of_the_thing(room: str) -> None:
    path = PACKAGE / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    assert [f"{file}:{line}" for file in files for line in fragments(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("word", FRAGMENTS)
def test_a_docstring_that_begins_with_a_phrase_is_found(word: str) -> None:
    assert fragments(f'class A:\n    """{word} it does."""\n\n    def f(self):\n        """Return 1."""\n') == [2]
