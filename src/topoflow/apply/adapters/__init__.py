"""Control languages of optical switches.

Each module has ``SUFFIX``, the suffix of its files, and ``commands(moves, ports)``, which returns the text for a switch
with ``ports`` input and ``ports`` output ports. No module was tried on a device; each names the source of its syntax.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from topoflow.units import check_among


def adapters() -> list[str]:
    """Return the names of all adapters, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def adapter(name: str) -> ModuleType:
    """Return the module of the adapter ``name``. Raises ``ValueError`` if there is none."""
    check_among("adapter", name, adapters())
    return import_module(f"{__name__}.{name}")
