"""Escaping of text before it is printed: a name in a trace can hold terminal control sequences."""

from __future__ import annotations

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
