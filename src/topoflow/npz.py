"""Arrays in one file with a checksum, for checkpoints. The format cannot hold code (no pickle)."""

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

CHECKSUM = hashlib.sha256().digest_size  # B of the SHA-256 that follows the archive


def text(plain: object) -> NDArray[Any]:
    """Return plain values as an array that holds their JSON."""
    return np.array(json.dumps(plain))


def write(path: Path, arrays: Mapping[str, NDArray[Any]], *, compressed: bool = True) -> None:
    """Replace the file atomically: an interruption leaves the old file or the new one."""
    file = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(file, **arrays)
    content = file.getvalue()
    write_atomically(path, content + hashlib.sha256(content).digest())


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of a file after checking its checksum, since numpy and zipfile do not detect all damage.

    Raises ``ValueError`` where the checksum differs, the content is no archive of arrays, or does not fit in memory.
    """
    data = read_bytes(path)
    content, checksum = data[:-CHECKSUM], data[-CHECKSUM:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError("its checksum is of another content")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            check_memory("arrays", "a checkpoint", sum(entry.file_size for entry in packed.infolist()))
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    except ValueError:
        raise
    except Exception as error:  # zipfile, zlib, numpy and tokenize raise a dozen kinds for what they did not write
        raise ValueError(f"it is no archive of arrays: {type(error).__name__}: {error}") from error
