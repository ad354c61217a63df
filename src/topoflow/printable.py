"""Text of files and arguments as it may be printed: a name in a trace can hold anything a terminal would obey."""

from __future__ import annotations

LONGEST_LINE = 300  # characters of an error


def printable(text: str) -> str:
    """``text`` with what is neither printed nor a line feed as Python writes it: an escape is ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def one_line(text: str) -> str:
    """``text`` in one line of at most ``LONGEST_LINE`` characters, the middle of a longer one left out."""
    line = printable(" ".join(text.split()))
    if len(line) <= LONGEST_LINE:
        return line
    half = (LONGEST_LINE - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"
