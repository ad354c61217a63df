"""Changes of a file that keep its structure: values of JSON, lines, fields of messages, numbers, rows of tables.

``changed`` recognises the structure by the content, as readers do. libFuzzer changes bytes; these changes reach what
lies behind a parser.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from random import Random
from typing import Any

import numpy as np

from tests.capture.test_import_damage import HOSTILE_VALUES, places

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_]\w*")
HOSTILE_TEXTS = [b"", b"0", b"-1", b"1e308", b"5e-324", b"nan", b"inf", b"9" * 400, b"1.5", b"x", b"\xff", b"7" * 18]
HOSTILE_INTEGERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
HOSTILE_FLOATS = (0.0, -1.0, 1e308, 5e-324, float("nan"), float("inf"))
Field = tuple[int, int, Any]  # number, wire type and value of a field of a protobuf message


def changed(data: bytes, dice: Random) -> bytes:
    """Return the file with one to three changes; the same file where its structure is too damaged to be changed."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        with suppress(Exception):  # what a damaged file cannot be parsed as, libFuzzer goes on to change
            data = _change_of(data)(data, dice)
    return data


def _change_of(data: bytes) -> Callable[[bytes, Random], bytes]:
    for start, change in (
        (b"\x1f\x8b", _gzip),
        (b"PAR1", _parquet),
        (b"SQLite format 3", _sqlite),
        (b"PK\x03\x04", _arrays),
        (b"\x80", _pickle),
    ):
        if data.startswith(start):
            return change
    with suppress(ValueError):
        json.loads(data)
        return _json
    if b"\0" not in data[:4096]:
        return _lines
    with suppress(ValueError, IndexError):
        if list(_messages(data)):
            return _protobuf
    return _numbers


def _value(document: Any, dice: Random) -> Any:
    """Return a document after one of its values was replaced, removed or exchanged."""
    document = [document]
    all_places = places(document)
    container, key = dice.choice(all_places)
    other, other_key = dice.choice(all_places)
    match dice.randrange(6):
        case 0 if container is not document:
            del container[key]
        case 1:
            container[key] = json.loads(json.dumps(other[other_key]))
        case 2 if isinstance(container[key], int | float):
            container[key] += dice.choice((-1, 1, 1e-9, 1000))
        case 3 if isinstance(container, list):
            container.insert(key, json.loads(json.dumps(container[key])))
        case _:
            container[key] = json.loads(json.dumps(dice.choice(HOSTILE_VALUES)))
    return document[0]


def rearrange(items: list[Any], dice: Random, others: int) -> bool:
    """Remove, repeat or exchange items; return False, and leave them, in ``others`` of 3 + ``others`` cases."""
    at, other = dice.randrange(len(items)), dice.randrange(len(items))
    match dice.randrange(3 + others):
        case 0:
            del items[at]
        case 1:
            items.insert(other, items[at])
        case 2:
            items[at], items[other] = items[other], items[at]
        case _:
            return False
    return True


def _json(data: bytes, dice: Random) -> bytes:
    if dice.random() < 0.2:  # numbers as only text has them: NaN, or of hundreds of digits
        return _token(data, NUMBER, HOSTILE_TEXTS, dice)
    return json.dumps(_value(json.loads(data), dice)).encode()


def _lines(data: bytes, dice: Random) -> bytes:
    lines = data.split(b"\n")
    if rearrange(lines, dice, 4):
        return b"\n".join(lines)
    at = dice.randrange(len(lines))
    match dice.randrange(4):
        case 0:
            lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]
        case 1:
            lines[at] = _token(lines[at], WORD, WORD.findall(data), dice)
        case _:
            try:
                lines[at] = json.dumps(_value(json.loads(lines[at]), dice), separators=(",", ":")).encode()
            except ValueError:
                lines[at] = _token(lines[at], NUMBER, [*HOSTILE_TEXTS, *NUMBER.findall(data)], dice)
    return b"\n".join(lines)


def _token(line: bytes, pattern: re.Pattern[bytes], values: list[bytes], dice: Random) -> bytes:
    match = dice.choice(list(pattern.finditer(line)))
    return line[: match.start()] + dice.choice(values) + line[match.end() :]


def _numbers(data: bytes, dice: Random) -> bytes:
    """Replace a little-endian number, which binary files align, most of them, to its size."""
    size = dice.choice((1, 2, 4, 4, 8))
    at = dice.randrange(max(1, len(data) - size)) // size * size
    if size == 8 and dice.random() < 0.5:
        return data[:at] + struct.pack("<d", dice.choice(HOSTILE_FLOATS)) + data[at + 8 :]
    value = int.from_bytes(data[at : at + size], "little") + dice.choice((-1, 1))
    value = dice.choice((value, *HOSTILE_INTEGERS)) % 2 ** (8 * size)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _gzip(data: bytes, dice: Random) -> bytes:
    return gzip.compress(changed(gzip.decompress(data), dice), 1, mtime=0)


def _pickle(data: bytes, dice: Random) -> bytes:
    from topoflow.capture import plain_pickle  # builds plain values only, whatever a corpus holds

    return pickle.dumps(_value(plain_pickle.read("dump", data), dice), protocol=2)


def _parquet(data: bytes, dice: Random) -> bytes:
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(data))
    column = dice.randrange(table.num_columns)
    name, values = table.column_names[column], table.column(column).to_pylist()
    if dice.random() < 0.2:
        table = table.remove_column(column)
    else:
        hostile = dice.choice([value for value in HOSTILE_VALUES if not isinstance(value, int) or abs(value) < 2**63])
        rows = range(len(values)) if dice.random() < 0.5 else [dice.randrange(len(values))]
        for row in rows:
            values[row] = hostile
        table = table.set_column(column, name, pyarrow.array(values))
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _sqlite(data: bytes, dice: Random) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = dice.choice([name for name in tables if name.startswith("trial")] if dice.random() < 0.7 else tables)
        cells = database.execute(f'SELECT rowid, * FROM "{table}"')
        names, rows = [column[0] for column in cells.description[1:]], cells.fetchall()
        row, column = dice.choice(rows), dice.randrange(len(names))
        old = row[1 + column]
        new = dice.choice((None, 0, -1, 2**62, 1e308, "", "x", b"\xff\0"))
        if isinstance(old, str):
            with suppress(ValueError):
                new = json.dumps(_value(json.loads(old), dice))
        database.execute(f'UPDATE "{table}" SET "{names[column]}" = ? WHERE rowid = ?', (new, row[0]))
        database.commit()
        return database.serialize()


def _arrays(data: bytes, dice: Random) -> bytes:
    """Change an array of an archive that may have a checksum behind it, which the reader's own repair then renews."""
    with np.load(io.BytesIO(data), allow_pickle=False) as packed:
        arrays = dict(packed)
    name = dice.choice(list(arrays))
    array = arrays[name]
    if array.dtype.kind == "U" and array.ndim == 0:
        arrays[name] = np.array(json.dumps(_value(json.loads(str(array)), dice)))
    else:
        match dice.randrange(4):
            case 0:
                arrays[name] = array.reshape(-1)[: dice.randrange(array.size + 1)]
            case 1:
                arrays[name] = array.astype(dice.choice(("f8", "f4", "i8", "u1", "U9", "?", "c16")))
            case 2:
                arrays[name] = array[None]
            case _:
                array.reshape(-1)[dice.randrange(array.size)] = dice.choice((0, 1, -1, 127, 1e308, float("nan")))
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _varint(value: int) -> bytes:
    value %= 2**64
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a file, each after its length."""
    at = 0
    while at < len(data):
        size, at = _read_varint(data, at)
        if at + size > len(data):
            raise ValueError("a message is longer than its file")
        yield data[at : at + size]
        at += size


def _fields(message: bytes) -> list[Field]:
    at, fields = 0, []
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, end = _read_varint(message, at)
        else:
            size, at = _read_varint(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            end = at + size
            value = message[at:end]
        if not number or end > len(message):
            raise ValueError("a field is longer than its message")
        fields.append((number, kind, value))
        at = end
    return fields


def _encoded(fields: list[Field]) -> bytes:
    parts = []
    for number, kind, value in fields:
        length = _varint(len(value)) if kind == 2 else b""
        parts.append(_varint(number << 3 | kind) + length + (_varint(value) if kind == 0 else value))
    return b"".join(parts)


def _protobuf(data: bytes, dice: Random) -> bytes:
    messages = list(_messages(data))
    if not rearrange(messages, dice, 5):
        at = dice.randrange(len(messages))
        messages[at] = _message(messages[at], dice)
    return b"".join(_varint(len(message)) + message for message in messages)


def _message(message: bytes, dice: Random) -> bytes:
    fields = _fields(message)
    at = dice.randrange(len(fields))
    number, kind, value = fields[at]
    match dice.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields.insert(at, fields[at])
        case 2:
            fields[at] = dice.choice(range(1, 20)), kind, value
        case _ if kind == 0:
            fields[at] = number, kind, dice.choice((value + 1, value - 1, *HOSTILE_INTEGERS))
        case _ if kind == 2:
            try:
                inner = _message(value, dice)
            except (ValueError, IndexError, KeyError):
                inner = dice.choice((b"", value[:-1], value * 2, b"\xff", b"x"))
            fields[at] = number, kind, inner
        case _:
            fields[at] = number, kind, struct.pack("<d", dice.choice(HOSTILE_FLOATS))[-len(value) :]
    return _encoded(fields)
