"""Reading and writing of files: everything that topoflow reads or keeps goes through here.

gzip is recognised by its first three bytes, never by the file's name.
"""

from __future__ import annotations

import fcntl
import glob
import gzip
import os
import secrets
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

GZIP_MAGIC = b"\x1f\x8b\x08"  # with the method byte: a block file of 35,615 ranks begins with the first two bytes
LARGEST_FILE = 2 * 2**30  # B; a few steps of one rank are 10-500 MB of JSON
# Largest ratio of unpacked to packed size: traces reach 10 to 30, tables of equal rows 100. A "gzip bomb" reaches 1000,
# and parsing it takes even more: 27 B of memory for every byte of "[[],[],[],..]".
LARGEST_RATIO = 200
SMALL_FILE = 16 * 2**20  # B; the ratio is not checked below this size
PART = ".part"  # suffix of files that are still being written
NEW_PART = 60.0  # s; an older part that is not locked belongs to a writer that was killed


class CutOffGzip(ValueError):
    """A gzip file without its end."""


def read_bytes(path: Path) -> bytes:
    """Return the unpacked content of ``path``. Raises ``ValueError`` for damaged gzip, a large file or a pipe."""
    _check_regular(path)
    with naming(path), path.open("rb") as raw:
        packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        size = raw.seek(0, os.SEEK_END)
        raw.seek(0)
        max_bytes = min(LARGEST_FILE, max(SMALL_FILE, LARGEST_RATIO * size)) if packed else LARGEST_FILE
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            # A buffer of that size is allocated.
            data = stream.read(1 + (max_bytes if packed else min(max_bytes, size)))
        except EOFError as error:
            raise CutOffGzip(f"{path}: must be a complete gzip file, got {error}") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: must be a complete gzip file, got {error}") from error
    if len(data) > max_bytes:
        raise ValueError(f"{path}: must unpack to at most {max_bytes} bytes, got more; profile fewer steps")
    return data


def read_cut_off_gzip(path: Path) -> bytes:
    """Return the content of a gzip file without its end. Raises ``ValueError`` for one that is damaged as well."""
    unpacked, unpacker = bytearray(), zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    with naming(path), path.open("rb") as raw:
        try:
            while packed := raw.read(2**16):
                unpacked += unpacker.decompress(packed)
        except zlib.error as error:
            raise ValueError(f"{path}: must be a complete gzip file, got {error}") from error
    return bytes(unpacked)


def write_atomically(path: Path, *data: bytes | memoryview) -> None:
    """Write all ``data`` to a file in the same folder and rename it to ``path``, so that it is never half-written.

    This holds for concurrent writers and for a power failure. Missing folders are created; a pipe or a device is not
    replaced (``ValueError``). A name that ends in ``.gz`` is packed; equal data give equal bytes (no time stamp). Parts
    that writers of ``path`` have left who were killed are removed.
    """
    if path.suffix == ".gz":
        data = (gzip.compress(b"".join(data), mtime=0),)
    _check_regular(path)
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_old_parts(path)
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
        try:
            with part.open("xb") as file:
                _lock(file)
                file.writelines(data)
                to_disk(file)
                os.replace(part, path)
            _folder_to_disk(path.parent)
        finally:
            part.unlink(missing_ok=True)


def _remove_old_parts(path: Path) -> None:
    """Remove parts of ``path`` that no living process has locked; a new one may not be locked yet."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
        with suppress(OSError), part.open("rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > NEW_PART:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


def _lock(file: BinaryIO) -> None:
    """Lock a part until it is closed, where the file system has locks."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)


def _folder_to_disk(folder: Path) -> None:
    """Flush a folder to the disk, so that a power failure does not undo a rename; some file systems cannot."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: str, content: bytes) -> None:
    """Write or replace a small file; it takes a tenth of the 50 us of ``Path.write_bytes``."""
    data = memoryview(content)
    with naming(path):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)


def make_folder(path: str) -> None:
    """Make a folder unless it exists; missing parents are made too, on a slower path."""
    try:
        os.mkdir(path)
    except OSError:
        os.makedirs(path, exist_ok=True)


def _check_regular(path: Path) -> None:
    """Raise ``ValueError`` for a pipe or a device.

    Reading a pipe may block forever and a device never ends; a file that replaced /dev/null would harm all programs.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path}: must be a regular file, got a pipe or a device")


def to_disk(file: BinaryIO) -> None:
    """Flush ``file`` to the disk, so that a rename cannot become visible before the content."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Set the file name of an ``OSError`` to ``path`` if it has none (full or broken disk) or names a part file."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(PART):
            error.filename = str(path)
        raise
