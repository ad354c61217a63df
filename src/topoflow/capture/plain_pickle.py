"""Pickles that hold plain data and nothing else: lists, dictionaries with texts as keys, texts, numbers, constants.

``pickle`` itself is not asked: it would import and call what a file names. Here the opcodes of plain data are all there
are, and any other ends the reading before anything of it is made. Tuples become lists, as in JSON.
Source: the opcodes' own descriptions in Python's ``pickletools``.
"""

from __future__ import annotations

import pickletools
from typing import Any

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read(name: str, data: bytes) -> Any:
    """Return the data in the pickle. Raise ``ValueError`` that names the file, the opcode and its place."""
    stack = _Stack()
    opcode = None
    try:
        for opcode, argument, position in pickletools.genops(data):
            if opcode.name == "STOP":
                return stack.values.pop()
            try:
                stack.run(opcode.name, argument)
            except (IndexError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{opcode.name} at {position}") from error
    except (ValueError, IndexError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{name}: must be a pickle of plain data, got {reason}") from error
    raise ValueError(f"{name}: must be a pickle of plain data, got none that ends")


class _Stack:
    """The values that are not yet part of others; where the open groups begin; what may be named again."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, opcode: str, argument: Any) -> None:
        """One opcode. TypeError, IndexError, KeyError or AttributeError where it does not fit the values."""
        if opcode in CONSTANTS:
            self.values.append(CONSTANTS[opcode])
        elif opcode in VALUES:
            self.values.append(argument)
        elif opcode in ("EMPTY_LIST", "EMPTY_DICT"):
            self.values.append([] if opcode == "EMPTY_LIST" else {})
        elif opcode == "MARK":
            self._marks.append(len(self.values))
        elif opcode in TUPLES or opcode == "TUPLE":
            first = self._marks.pop() if opcode == "TUPLE" else len(self.values) - TUPLES[opcode]
            self.values.append(self._take(first))
        elif opcode in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            self._fill(opcode)
        elif opcode in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = self.values[-1]
        elif opcode in ("BINGET", "LONG_BINGET"):
            self.values.append(self._memo[argument])
        elif opcode not in ("PROTO", "FRAME"):
            raise TypeError(opcode)

    def _take(self, first: int) -> list[Any]:
        """The values from place ``first`` on, which leave the stack."""
        if not 0 <= first <= len(self.values):
            raise IndexError(first)
        taken = self.values[first:]
        del self.values[first:]
        return taken

    def _fill(self, opcode: str) -> None:
        """Add values to the list, or keys and values to the dictionary, that is below them on the stack."""
        several = self._marks.pop() if opcode.endswith("S") else None
        pairs = opcode.startswith("SET")
        taken = self._take(len(self.values) - 1 - pairs if several is None else several)
        into = self.values[-1]
        if isinstance(into, list) and not pairs:
            into.extend(taken)
        elif isinstance(into, dict) and pairs and len(taken) % 2 == 0 and all(isinstance(k, str) for k in taken[::2]):
            into.update(zip(taken[::2], taken[1::2], strict=True))
        else:
            raise TypeError(opcode)
