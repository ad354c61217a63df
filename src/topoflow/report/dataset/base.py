"""Dataset: a folder of Parquet files with a row per point of a sweep. Each file is complete or absent.

The metadata of a file have the SHA-256 of its other bytes, which reveals damage and does not disturb other readers.

worlds.parquet/_dataset.json                the sweep; readers of Parquet folders ignore this name
worlds.parquet/part-00000000.parquet        rows of the points 0 to 4,095
worlds.parquet/part-00004096.parquet        ...
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from topoflow import __version__
from topoflow.case.rows import ResultRow
from topoflow.fields import shorten
from topoflow.files import read_bytes, write_atomically

SUFFIX = ".parquet"  # of the folder's name
MANIFEST = "_dataset.json"
FORMAT = "topoflow dataset 2"
MAX_POINTS = 2**24
CHECKSUM, NO_DIGEST = "topoflow.sha256", 64 * "0"  # metadata key of a file's digest; its placeholder while hashing
PART = 4096  # points of a file, which is one row group of 300 kB
SWEPT = "swept."  # prefix of the columns of keys


@dataclass(frozen=True)
class Dataset:
    """A sweep whose rows a folder has, or will have."""

    folder: Path
    points: int
    keys: tuple[str, ...]  # keys that differ between points
    numbers: frozenset[str]  # keys whose values are all numbers
    command: str  # writes and continues the dataset
    identity: str  # digest of the sweep and the program

    @classmethod
    def open(cls, folder: Path) -> Dataset:
        """Open a dataset. Raises ``ValueError`` for a folder that is none, ``OSError`` where it cannot be read."""
        path = folder / MANIFEST
        if folder.is_dir() and not path.is_file():
            raise ValueError(f"{folder}: must be a dataset of `topoflow compare out=NAME{SUFFIX}`, got no {MANIFEST}")
        try:
            manifest = json.loads(read_bytes(path))
            kinds = {"format": str, "points": int, "keys": list, "numbers": list, "command": str, "identity": str}
            for key, kind in kinds.items():
                if type(manifest[key]) is not kind:
                    raise ValueError(f"{key}: must be {kind.__name__}, got {manifest[key]!r}")
            if manifest["format"] != FORMAT:
                raise ValueError(f"format: must be {FORMAT}, got {manifest['format']!r}")
            if not 1 <= manifest["points"] <= MAX_POINTS:
                raise ValueError(f"points: must be within 1..{MAX_POINTS}, got {shorten(manifest['points'])}")
            keys, numbers = tuple(map(str, manifest["keys"])), frozenset(map(str, manifest["numbers"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: must be what `topoflow compare` writes, got {error}") from error
        return cls(folder, manifest["points"], keys, numbers, manifest["command"], manifest["identity"])

    def begin(self) -> None:
        """Write the manifest. Raises ``ValueError`` where the folder has another sweep or other files."""
        if (self.folder / MANIFEST).exists():
            if Dataset.open(self.folder).identity != self.identity:
                rule = "must be a new folder, or that of the same sweep by the same program"
                raise ValueError(f"out: {rule}, got {self.folder} with another")
            return
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise ValueError(f"out: must be a new folder or a dataset, got {self.folder} with other files")
        about = {key: value for key, value in asdict(self).items() if key != "folder"}
        about |= {"format": FORMAT, "version": __version__, "keys": list(self.keys), "numbers": sorted(self.numbers)}
        write_atomically(self.folder / MANIFEST, json.dumps(about, indent=1).encode() + b"\n")

    def path(self, first: int) -> Path:
        """Return the file whose first point is ``first``."""
        return self.folder / f"part-{first:08d}.parquet"

    @property
    def parts(self) -> Iterator[range]:
        """Return the points of each file, whether or not it is written."""
        return (range(first, min(first + PART, self.points)) for first in range(0, self.points, PART))

    @property
    def written(self) -> list[range]:
        """Return the points of the existing files, intact or damaged."""
        return [part for part in self.parts if self.path(part[0]).is_file()]

    def is_whole(self, part: range) -> bool:
        """Return whether the file of the points ``part`` exists and is as this dataset wrote it."""
        try:
            return self.wrote(part, read_bytes(self.path(part[0])))
        except (OSError, ValueError):
            return False

    def wrote(self, part: range, content: bytes) -> bool:
        """Return whether this is the content of the file of the points ``part``."""
        stored, hashed = _digest_in(content)
        return stored == self._digest(part, hashed)

    def _digest(self, part: range, content: bytes) -> bytes:
        """Return the digest of a file, which includes sweep and points, so that an exchanged file counts as damaged."""
        prefix = f"{self.identity} {part[0]} {len(part)} "
        return sha256(prefix.encode() + content).hexdigest().encode()

    @property
    def columns(self) -> Mapping[str, str]:
        """Return the type of each column: text, int, float or bool. ``topoflow.case.rows.COLUMNS`` describes them."""
        kinds = {"str": "text", "int": "int", "float": "float"}  # with or without None
        types = {field.name: str(field.type).removesuffix(" | None") for field in fields(ResultRow)}
        of_rows = {name: kinds[kind] for name, kind in types.items() if name != "world"}
        swept = {f"{SWEPT}{key}": "float" if key in self.numbers else "text" for key in self.keys}
        return {"point": "int", **swept, **of_rows, "fits": "bool", "is_ideal": "bool", "error": "text"}

    def swept(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Return the columns of the keys, given their values as typed."""
        return {f"{SWEPT}{key}": float(values[key]) if key in self.numbers else values[key] for key in self.keys}

    def write(self, part: range, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the file of the points ``part`` atomically. A column that a row lacks is null."""
        import pyarrow as pa
        from pyarrow import parquet

        types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
        columns = [(name, types[kind]) for name, kind in self.columns.items()]
        schema = pa.schema(columns, metadata={CHECKSUM: NO_DIGEST})
        file = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_pylist(list(rows), schema=schema), file)
        content = file.getvalue().to_pybytes()
        before, _, after = content.rpartition(NO_DIGEST.encode())
        write_atomically(self.path(part[0]), before, self._digest(part, content), after)


def _digest_in(content: bytes) -> tuple[bytes, bytes]:
    """Return the digest stored in a file, and its content with a placeholder instead; no digest if there is none."""
    at = content.rfind(CHECKSUM.encode()) + len(CHECKSUM) + 2  # between key and value: type and length (Thrift)
    stored = content[at : at + len(NO_DIGEST)]
    return stored, content[:at] + NO_DIGEST.encode() + content[at + len(NO_DIGEST) :]


def is_dataset(out: object) -> bool:
    """Return whether ``out`` asks for a dataset instead of a report."""
    return isinstance(out, str | Path) and str(out).endswith(SUFFIX)
