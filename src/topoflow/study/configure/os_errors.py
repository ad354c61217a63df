"""Name the key of a file in an error of the operating system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def named(files: Mapping[str, object]) -> Iterator[None]:
    """An ``OSError`` about one of the files, or a folder that it is in, as a ``ValueError`` that names its key."""
    try:
        yield
    except OSError as error:
        for key, value in files.items():
            if error.filename is not None and _is_within(str(value), str(error.filename)):
                raise ValueError(f"{key}={value}: {error.strerror}") from error
        raise


def of_group(group: str, config: Mapping[str, object]) -> dict[str, object]:
    """The values of a config group, any of which may be a file, by their keys."""
    return {f"{group}.{key}": value for key, value in config.items()}


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
