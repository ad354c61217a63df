"""Control languages of optical switches. Each module has ``SUFFIX``, of its files, and ``commands(moves, ports)``.

``commands`` is the text for a switch of ``ports`` ports each way.

None of them was tried on a device; each names the source of its syntax.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def adapters() -> list[str]:
    """The names of all."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def adapter(name: str) -> ModuleType:
    """One of them. Raises ``ValueError``."""
    if name not in adapters():
        raise ValueError(f"adapter: must be one of {', '.join(adapters())}, got {name!r}")
    return import_module(f"{__name__}.{name}")
