"""The search for a strategy and a network. The room has the name of a function, ``topoflow.search(...)``, and is both:
Python makes a package an attribute of the package that it is in, whatever else has that name.
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
