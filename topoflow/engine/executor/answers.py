"""Answers of a piece of work as they are sent and kept: long blocks of bytes, and a header that says what is where.

    first line    "topoflow answers", the length of the header, CRC-32 of this length and all that follows
    header        JSON: {"keys": ["ab3...", null], "blocks": [192, 331104], "answers": [{"start": ["<f8", [3], 0, 64]}]}
    blocks        one after the other; the first has all short arrays, each other one a long array

An array is described by its dtype, its shape, its block and its place there; one that several answers share is there
once. The worker that sends long arrays does not copy them, and has made the header: the process that asks does little
more for each answer than to write it to a file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.executor.base import Arrays
from topoflow.files import open_regular, write_atomically

Bytes = NDArray[np.uint8]

NAME = b"topoflow answers"
LONG = 2**14  # B from which an array is a block of its own


@dataclass(frozen=True)
class Content:
    """What a file has."""

    header: bytes
    blocks: Sequence[Bytes]
    checksum: int

    @property
    def size(self) -> int:
        """B of all blocks."""
        return sum(block.nbytes for block in self.blocks)


def joined(keys: Sequence[str | None], answers: Sequence[Arrays]) -> Content:
    """Answers, and the key of each; None: it is not kept."""
    places: dict[int, tuple[int, int, NDArray[Any]]] = {}  # of each array by its id: block, place
    short, blocks = _Short(), []
    described = []
    for answer in answers:
        of_answer: dict[str, Any] = {}
        for name, array in answer.items():
            if id(array) not in places:
                plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                if array.nbytes >= LONG:
                    blocks.append(plain)
                    places[id(array)] = len(blocks), 0, array
                else:
                    places[id(array)] = 0, short.add(plain), array
            of_answer[name] = [array.dtype.str, array.shape, *places[id(array)][:2]]
        described.append(of_answer)
    blocks = [short.joined(), *blocks]
    lengths = [len(block) for block in blocks]
    header = json.dumps({"keys": list(keys), "blocks": lengths, "answers": described}).encode()
    return Content(header, blocks, _checksum(header, blocks))


class _Short:
    """Arrays that become one block."""

    def __init__(self) -> None:
        self.parts: list[Bytes] = []
        self.end = 0

    def add(self, array: Bytes) -> int:
        """Its place."""
        place = self.end
        self.parts.append(array)
        self.end += len(array)
        return place

    def joined(self) -> Bytes:
        return np.concatenate([np.zeros(0, np.uint8), *self.parts])


def keys_of(content: Content) -> list[str | None]:
    """The key of each answer."""
    keys: list[str | None] = json.loads(content.header)["keys"]
    return keys


def parted(content: Content) -> list[Arrays]:
    """The answers, with arrays of their own. Long ones that were read are not copied: it can be done once."""

    given: set[int] = set()

    def array(kind: str, shape: Sequence[int], block: int, place: int) -> NDArray[Any]:
        dtype, whole = np.dtype(kind), content.blocks[block]
        part = whole[place : place + dtype.itemsize * prod(shape)]
        is_free = block and block not in given and whole.flags.owndata and whole.flags.writeable
        given.add(block)
        found: NDArray[Any] = (part if is_free else part.copy()).view(dtype).reshape(shape)
        return found

    return [{name: array(*each) for name, each in one.items()} for one in json.loads(content.header)["answers"]]


def write(path: Path, content: Content) -> None:
    """Replace the file at once; it is on disk when this returns."""
    first = _first_line(len(content.header), content.checksum)
    write_atomically(path, first, content.header, *(block.data for block in content.blocks))


def read(path: Path) -> Content:
    """Raises ``ValueError`` unless it is as it was written: what can be read of changed bytes is anything."""
    with open_regular(path) as file:
        begin = file.readline(len(NAME) + 64)
        words = begin.removeprefix(NAME).split()
        if not begin.startswith(NAME) or len(words) != 2 or not all(word.isdigit() for word in words):
            raise _refused(path, "another first line")
        length, checksum = map(int, words)
        header = file.read(min(length, os.fstat(file.fileno()).st_size))
        lengths = _lengths(header, os.fstat(file.fileno()).st_size - file.tell())
        blocks = [np.empty(each, np.uint8) for each in lengths or ()]
        found = zlib.crc32(header, _of_length(length))
        for block in blocks:  # read and computed while the processor has it
            file.readinto(block.data)
            found = zlib.crc32(block.data, found)
    if begin != _first_line(length, checksum) or lengths is None or found != checksum:
        raise _refused(path, "another checksum")
    return Content(header, blocks, checksum)


def _lengths(header: bytes, rest: int) -> list[int] | None:
    """B of each block by the ``header``; None: it is damaged, or the blocks are not the ``rest`` B of the file."""
    try:
        lengths = json.loads(header)["blocks"]
        is_right = all(type(each) is int and each >= 0 for each in lengths) and sum(lengths) == rest
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return lengths if is_right else None


def _refused(path: Path, got: str) -> ValueError:
    return ValueError(f"{path}: must be answers as they were written, got {got}; delete it")


def _first_line(length: int, checksum: int) -> bytes:
    return b"%s %d %d\n" % (NAME, length, checksum)


def _of_length(length: int) -> int:
    return zlib.crc32(b"%d" % length)


def _checksum(header: bytes, blocks: Sequence[Bytes]) -> int:
    found = zlib.crc32(header, _of_length(len(header)))
    for block in blocks:
        found = zlib.crc32(block.data, found)
    return found
