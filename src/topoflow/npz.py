"""Arrays in one file, with a checksum: what topoflow keeps on disk to continue from. Nothing in it can be run."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.files import read_bytes, write_atomically
from topoflow.memory import check_memory

CHECKSUM = hashlib.sha256().digest_size  # B of the archive's SHA-256, which follows it


def text(plain: object) -> NDArray[Any]:
    """Plain values as an array: their JSON."""
    return np.array(json.dumps(plain))


def write(path: Path, arrays: Mapping[str, NDArray[Any]], *, compressed: bool = True) -> None:
    """Replace the file, at once: whoever is interrupted leaves the old one or the new one."""
    file = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(file, **arrays)
    content = file.getvalue()
    write_atomically(path, content + hashlib.sha256(content).digest())


def read(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays, once the checksum is right: what numpy and zipfile make of changed bytes is anything.

    Raises ``ValueError`` where it is not, or they do not fit in memory.
    """
    whole = read_bytes(path)
    content, checksum = whole[:-CHECKSUM], whole[-CHECKSUM:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError("its checksum is of another content")
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        check_memory("arrays", "a checkpoint", sum(each.file_size for each in packed.infolist()))
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)
