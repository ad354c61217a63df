"""Block files: a mesh for SST's motif of AMR, with the blocks of each rank and the levels of their neighbours.

    9 1 2 1 1               9 blocks, the finest level is 1, and 2 x 1 x 1 blocks of level 0, along x, y and z
    1                       rank 0 has one block:
    0 0 -2 1 -2 -2 -2 -2    block 0, of level 0; neighbours' levels x down, x up, y down, y up, z down, z up; -2: none
    8                       rank 1 has eight blocks, the parts of block 1
    4 1 0 1 -2 1 -2 1
    5 1 1 -2 -2 1 -2 1
    ...                     8, 9, 12, 13, 16
    17 1 1 -2 1 -2 1 -2

Tools for miniAMR write this text. The binary file, which Ember reads, has the same numbers, little-endian: the number
of ranks (4 B), the number of blocks (4), the finest level (1) and the blocks along x, y, z (4 each); the byte at which
each rank begins (8 each); and for each rank its number of blocks (4) and these blocks, 11 B each (4 for the number, 1
for each level). A block's number is its place, x first, after all places of coarser levels: level 1 begins with number
2 and has four places along x, so block 4 is at x = 2.

The exchange is Ember's: each face between two ranks is a separate message in each direction, and a block with finer
neighbours exchanges a message with each of the four. All messages carry a whole face of cells, because blocks have
equally many cells at all levels: with 10^3 cells of 40 variables, rank 0 sends four times 10^2 * 40 * 8 = 32,000 B
above, and rank 1 as much. (miniAMR sends a quarter of it where levels differ.) Ember computes 5 ns for a block; here a
block computes ``workload.flops``.

Source: SST's Ember (ember3damr.cc, ember3damrbinaryfile.h, ember3damrtextfile.h) and its sst-meshconvert
(meshconverter.cc), which do not check files. Here a file is refused if blocks differ from what their neighbours state.

Shapes: n ranks, B blocks, k of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Mask, Offsets
from topoflow.fields import LARGEST_WORLD
from topoflow.files import read_bytes, write_atomically
from topoflow.papers.dragonfly.motifs.mesh import BOUNDARY, NO_BLOCK, UNKNOWN, DomainBlocks

HEADER = np.dtype([("ranks", "<u4"), ("blocks", "<u4"), ("finest", "u1"), ("size", "<u4", 3)])
BEGIN, COUNT = np.dtype("<u8"), np.dtype("<u4")
BLOCK = np.dtype([("number", "<u4"), ("level", "i1"), ("neighbours", "i1", 6)])

NUMBERS = 2**32  # block numbers have 32 bits
MAX_BLOCKS = 2**24  # some 600 B each while a mesh is built (measured), 10 GB
NUMBER = re.compile(rb"-?[0-9]{1,10}")
DIRECTIONS = ("x down", "x up", "y down", "y up", "z down", "z up")


@dataclass(frozen=True, eq=False)
class Written:
    """The numbers of a file, before they are checked."""

    ranks: int
    blocks: int  # number of blocks by the header
    finest: int
    size: tuple[int, ...]
    number: Offsets  # [B]
    level: Offsets  # [B]
    neighbours: Offsets  # [B, 6] their levels
    rank: Offsets  # [B]
    unit: str  # "FILE:" before the number of a line, or "FILE: byte "
    head: int  # line or byte of the header
    at: Offsets  # [B] line or byte of a block


def read_blocks(path: Path) -> DomainBlocks:
    """Read the mesh of a file, text or binary. Raises ``ValueError`` that names file and line or byte; ``OSError``."""
    data = read_bytes(path)
    is_binary = b"\0" in data[: HEADER.itemsize]  # the highest byte of the number of ranks, below 2^24
    return _checked((_binary if is_binary else _text)(str(path), data))


def write_blocks(path: Path, blocks: DomainBlocks) -> None:
    """Write a binary file, packed if its name ends in ``.gz`` (Ember reads no packed files). Raises ``OSError``."""
    levels, _ = blocks.neighbours
    number = blocks.numbers(blocks.level, blocks.place)
    assert (levels != UNKNOWN).all(), "neighbours differ by one level at most"
    assert number.max() < NUMBERS
    row = np.zeros(len(number), BLOCK)
    row["number"], row["level"], row["neighbours"] = number, blocks.level, levels
    counts = np.bincount(blocks.rank, minlength=blocks.ranks)
    ends = np.cumsum(COUNT.itemsize + counts * BLOCK.itemsize)
    body = HEADER.itemsize + blocks.ranks * BEGIN.itemsize
    begins = (body + np.concatenate([[0], ends[:-1]])).astype(BEGIN)
    head = np.array([(blocks.ranks, len(number), blocks.level.max(), blocks.size)], HEADER)
    blocks_of_ranks = np.split(row, np.cumsum(counts)[:-1])
    parts = [array.tobytes() for rows in blocks_of_ranks for array in (np.array([len(rows)], COUNT), rows)]
    write_atomically(path, head.tobytes(), begins.tobytes(), *parts)


def _binary(name: str, data: bytes) -> Written:
    of_rank = BEGIN.itemsize + COUNT.itemsize
    least = HEADER.itemsize + of_rank
    if len(data) < least:
        _refuse(f"{name}: byte {len(data)}", "file", f"must have {least} bytes at least", f"{len(data)}")
    head = np.frombuffer(data, HEADER, 1)[0]
    ranks, most_ranks = int(head["ranks"]), min(LARGEST_WORLD, (len(data) - HEADER.itemsize) // of_rank)
    if not 1 <= ranks <= most_ranks:
        rule = f"must be within 1..{most_ranks} for a file of {len(data)} bytes"
        _refuse(f"{name}: byte 0", "ranks", rule, f"{ranks}")
    begins = np.frombuffer(data, BEGIN, ranks, HEADER.itemsize).tolist()
    rows, starts, counts, total = [], [], [], 0
    at = HEADER.itemsize + ranks * BEGIN.itemsize
    for rank, begin in enumerate(begins):
        if begin != at:
            place = f"{name}: byte {HEADER.itemsize + rank * BEGIN.itemsize}"
            _refuse(place, f"begin of rank {rank}", f"must be {at}, where the rank before ends", f"{begin}")
        if at + COUNT.itemsize > len(data):
            _refuse(f"{name}: byte {at}", f"blocks of rank {rank}", "must be a number", "the end of the file")
        count = int(np.frombuffer(data, COUNT, 1, at)[0])
        most = min((len(data) - at - COUNT.itemsize) // BLOCK.itemsize, MAX_BLOCKS - total)
        if count > most:
            _refuse(f"{name}: byte {at}", f"blocks of rank {rank}", f"must be within 0..{most}", f"{count}")
        rows.append(np.frombuffer(data, BLOCK, count, at + COUNT.itemsize))
        starts.append(at + COUNT.itemsize + BLOCK.itemsize * np.arange(count))
        counts.append(count)
        total += count
        at += COUNT.itemsize + count * BLOCK.itemsize
    if at != len(data):
        _refuse(f"{name}: byte {at}", "end", "must be that of the last rank's blocks", f"{len(data) - at} bytes more")
    row = np.concatenate(rows)
    return Written(
        ranks,
        int(head["blocks"]),
        int(head["finest"]),
        tuple(head["size"].tolist()),
        row["number"].astype(np.int64),
        row["level"].astype(np.int64),
        row["neighbours"].astype(np.int64),
        np.repeat(np.arange(ranks), counts),
        f"{name}: byte ",
        0,
        np.concatenate(starts),
    )


def _text(name: str, data: bytes) -> Written:
    most = MAX_BLOCKS + LARGEST_WORLD
    count = data.count(b"\n")
    if count > most:
        _refuse(f"{name}:{most + 1}", "lines", f"must be at most {most}", f"{count}")
    lines = data.rstrip().split(b"\n")
    head = _row(f"{name}:1", lines[0], 5, "blocks, the finest level, and blocks along x, y and z")
    counts: list[int] = []
    rows: list[list[int]] = []
    at = 1  # lines before
    while at < len(lines):
        (count,) = _row(f"{name}:{at + 1}", lines[at], 1, "how many blocks a rank has")
        if not 0 <= count < len(lines) - at:
            rule = f"must be within 0..{len(lines) - at - 1}"
            _refuse(f"{name}:{at + 1}", f"blocks of rank {len(counts)}", rule, f"{count}")
        if len(counts) == LARGEST_WORLD:
            _refuse(f"{name}:{at + 1}", "ranks", f"must be at most {LARGEST_WORLD}", "more")
        rule = "a block's number, level, and the levels of its neighbours"
        rows += [_row(f"{name}:{at + 2 + k}", lines[at + 1 + k], 8, rule) for k in range(count)]
        counts.append(count)
        at += 1 + count
    row = np.array(rows, np.int64).reshape(-1, 8)
    rank = np.repeat(np.arange(len(counts)), counts)
    line = np.arange(len(row)) + rank + 3  # after the header, and a line for each rank
    size, levels = tuple(head[2:]), row[:, 2:]
    return Written(len(counts), head[0], head[1], size, row[:, 0], row[:, 1], levels, rank, f"{name}:", 1, line)


def _row(place: str, line: bytes, length: int, contents: str) -> list[int]:
    words = line.split(None, length)  # at most length + 1 words, for lines of any length
    if len(words) != length or not all(NUMBER.fullmatch(word) for word in words):
        got = ascii(line[:60].decode(errors="replace"))
        raise ValueError(f"{place}: must be {length} whole number{'s' * (length > 1)}, {contents}, got {got}")
    return [int(word) for word in words]


def _checked(written: Written) -> DomainBlocks:
    """Return the blocks if they cover each place of the domain once and the levels of neighbours are right."""
    head, size = f"{written.unit}{written.head}", written.size
    if written.blocks != len(written.number):
        _refuse(head, "blocks", f"must be the {len(written.number)} that ranks have", f"{written.blocks}")
    if written.blocks < 1:
        _refuse(head, "blocks", "must be at least 1", f"{written.blocks}")
    if written.finest < 0:
        _refuse(head, "finest level", "must be at least 0", f"{written.finest}")
    if min(size) < 1 or size[0] * size[1] * size[2] > NUMBERS:
        rule = f"must be positive, and of at most {NUMBERS} blocks together"
        _refuse(head, "blocks along x, y, z", rule, " ".join(map(str, size)))
    # A level whose first number has more than 32 bits has no blocks.
    first = np.array([min(size[0] * size[1] * size[2] * (8**depth - 1) // 7, NUMBERS) for depth in range(13)])
    finest = min(written.finest, int((first < NUMBERS).sum()) - 1)
    level, number = written.level, written.number
    _require((level >= 0) & (level <= finest), written, "level", f"must be within 0..{finest}", level)
    low, high = first[level], first[level + 1]
    rule = "must be within the numbers of its level"
    _require((number >= low) & (number < high), written, "block", rule, number)
    blocks = DomainBlocks(
        written.ranks, (size[0], size[1], size[2]), level, _place(size, level, number - low), written.rank
    )
    _check_places(written, blocks)
    _check_neighbours(written, blocks)
    return blocks


def _place(size: tuple[int, ...], level: Offsets, number: Offsets) -> Offsets:
    """Return the place [B, 3] of the ``number``-th block of a level."""
    wide, high = size[0] * 2**level, size[1] * 2**level
    return np.stack([number % wide, number // wide % high, number // (wide * high)], axis=1)


def _check_places(written: Written, blocks: DomainBlocks) -> None:
    number = written.number
    earlier = np.zeros(len(number), np.bool_)
    earlier[np.unique(number, return_index=True)[1]] = True
    _require(earlier, written, "block", "must be in the file once", number)
    for step in range(1, int(blocks.level.max()) + 1):
        parent = blocks.find(blocks.level - step, blocks.place >> step)
        _require(parent == NO_BLOCK, written, "block", "must not be a part of another one", number)


def _check_neighbours(written: Written, blocks: DomainBlocks) -> None:
    """Check the levels of neighbours. If each face has one and no block is in another, the domain is covered."""
    levels, _ = blocks.neighbours
    for direction, name in enumerate(DIRECTIONS):
        actual, stated = levels[:, direction], written.neighbours[:, direction]
        right = (actual == stated) & (actual != UNKNOWN)  # a file may contain UNKNOWN, too
        if right.all():
            continue
        block = int(np.argmin(right))
        if actual[block] == UNKNOWN:
            near = f"{max(int(blocks.level[block]) - 1, 0)}..{blocks.level[block] + 1}"
            rule = f"must be the level of the neighbour, but no block of levels {near} is there"
        elif actual[block] == BOUNDARY:
            rule = f"must be {BOUNDARY}, the end of the domain"
        else:
            rule = f"must be {actual[block]}, the level of what is there"
        _refuse(f"{written.unit}{written.at[block]}", name, rule, f"{stated[block]}")


def _require(valid: Mask, written: Written, field: str, rule: str, value: NDArray[np.int64]) -> None:
    if not valid.all():
        block = int(np.argmin(valid))
        _refuse(f"{written.unit}{written.at[block]}", field, rule, f"{value[block]}")


def _refuse(place: str, field: str, rule: str, value: str) -> NoReturn:
    raise ValueError(f"{place}: {field}: {rule}, got {value}")
