"""Turn what Hydra and OmegaConf raise into one line that names the key, what it must be, and the value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from topoflow.study.configure.sources import INITIALIZED, Sources

LIBRARIES = ("hydra", "omegaconf", "yaml")


@contextmanager
def one_line(overrides: Sequence[str], name: str, sources: Sources = INITIALIZED) -> Iterator[None]:
    """Raise ``ValueError`` in one line for what Hydra or OmegaConf raises in the block.

    ``overrides`` are those of the configuration ``name`` of ``sources``, by default of an initialized Hydra.
    """
    try:
        yield
    except Exception as error:
        if not is_of_libraries(error):
            raise
        from topoflow.study.configure.library_errors import named

        with sources.hydra():
            named(error, overrides, name, sources)


def is_of_libraries(error: BaseException) -> bool:
    """Return whether Hydra, OmegaConf or YAML have raised an error, without importing them."""
    return any(kind.__module__.partition(".")[0] in LIBRARIES for kind in type(error).__mro__)


def reason(error: BaseException) -> str:
    """Return an exception's message on one line, without Hydra's pointers to its documentation."""
    lines = [line.strip() for line in str(error).splitlines()]
    useful = [line for line in lines if line and not line.startswith(("See https", "full_key:", "object_type="))]
    return "; ".join(line for line in useful if not line.startswith("Error parsing override")) or type(error).__name__
