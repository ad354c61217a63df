"""FlatBuffers tables read with every offset checked, so that a damaged file is a ValueError and never a crash.

The ``flatbuffers`` package knows the numbers' encodings but trusts offsets (a negative one would read from the end).
Layout: https://flatbuffers.dev/internals/ : a table begins with the signed distance back to its vtable; a vtable is its
own size, the table's size, then one 16-bit offset per slot, 0 for a field with its default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatbuffers import encode
from flatbuffers import number_types as types


@dataclass(frozen=True)
class Record:
    """One table at ``position`` of ``data``; ``place`` names it in messages."""

    place: str
    data: bytes
    position: int

    def has(self, slot: int) -> bool:
        """Return whether the field of ``slot`` is there."""
        return self._field(slot) is not None

    def unsigned32(self, slot: int) -> int:
        """The uint32 of ``slot``, 0 by default."""
        return int(self._number(slot, types.Uint32Flags))

    def unsigned64(self, slot: int) -> int:
        """The uint64 of ``slot``, 0 by default."""
        return int(self._number(slot, types.Uint64Flags))

    def signed16(self, slot: int) -> int:
        """The int16 of ``slot``, 0 by default."""
        return int(self._number(slot, types.Int16Flags))

    def float32(self, slot: int) -> float:
        """The float32 of ``slot``, 0 by default."""
        return float(self._number(slot, types.Float32Flags))

    def unsigned64s(self, slot: int) -> tuple[int, ...]:
        """The vector of uint64 of ``slot``, empty by default."""
        first, count = self._vector(slot, 8)
        return tuple(int(self._read(types.Uint64Flags, first + 8 * index)) for index in range(count))

    def records(self, slot: int, name: str) -> list[Record]:
        """Return the vector of tables of ``slot``; each lies in the file once."""
        first, count = self._vector(slot, 4)
        records = []
        for index in range(count):
            at = first + 4 * index
            target = at + int(self._read(types.UOffsetTFlags, at))
            records.append(Record(f"{self.place}: {name}[{index}]", self.data, target))
        if len({record.position for record in records}) < count:
            raise ValueError(f"{self.place}: {name} must be different tables, got one twice")
        return records

    def _number(self, slot: int, flags: Any) -> Any:
        at = self._field(slot)
        return 0 if at is None else self._read(flags, at)

    def _vector(self, slot: int, width: int) -> tuple[int, int]:
        """(first element, how many)."""
        at = self._field(slot)
        if at is None:
            return 0, 0
        start = at + int(self._read(types.UOffsetTFlags, at))
        count = int(self._read(types.UOffsetTFlags, start))
        if start + 4 + count * width > len(self.data):
            raise ValueError(f"{self.place}: must lie within the file, got a list of {count}")
        return start + 4, count

    def _field(self, slot: int) -> int | None:
        """Return the position of the field of ``slot``; None where it has its default."""
        table = self.position - int(self._read(types.SOffsetTFlags, self.position))
        if slot >= int(self._read(types.VOffsetTFlags, table)):
            return None
        offset = int(self._read(types.VOffsetTFlags, table + slot))
        return self.position + offset if offset else None

    def _read(self, flags: Any, at: int) -> Any:
        if not 0 <= at <= len(self.data) - flags.bytewidth:
            raise ValueError(f"{self.place}: must lie within the file of {len(self.data)} bytes, got offset {at}")
        return encode.Get(flags.packer_type, self.data, at)


def root(name: str, data: bytes) -> Record:
    """The root table of the file ``name``."""
    start = Record(name, data, 0)
    return Record(name, data, int(start._read(types.UOffsetTFlags, 0)))
