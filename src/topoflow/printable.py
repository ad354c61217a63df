"""Text before it is shown: a name in a trace can hold terminal control sequences, or tags of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

LONGEST_LINE = 300  # characters of an error


def printable(text: str) -> str:
    """Return ``text`` with every unprintable character escaped as Python does (``\\x1b``), except line feeds."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1] for character in text
    )


def one_line(text: str) -> str:
    """Return ``text`` in one line of at most ``LONGEST_LINE`` characters; the middle of a longer text is left out."""
    line = printable(" ".join(text.split()))
    if len(line) <= LONGEST_LINE:
        return line
    half = (LONGEST_LINE - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a small table for a notebook: a ``title``, and a name and a value in each row."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"
