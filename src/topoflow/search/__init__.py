"""The search for a strategy and a network.

The package has the same name as the function ``topoflow.search(...)``. Python sets an imported package as an attribute
of its parent, which would hide the function, so this module is callable.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *arguments: Any, **keys: Any) -> Any:
        return import_module("topoflow.api.functions").search(*arguments, **keys)


sys.modules[__name__].__class__ = _CallableModule
