"""Python runs this before anything else: ``topoflow._C`` becomes the emulated one, and torch gets GPUs."""

from __future__ import annotations

import os
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from typing import Any

LIBRARY = os.environ.get("TOPOFLOW_EMULATED")


class Emulated(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "topoflow._C":
            return spec_from_file_location(name, LIBRARY)
        if name != "torch":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def with_gpus(module: Any) -> None:
                execute(module)
                import fake_cuda

                fake_cuda.install()

            spec.loader.exec_module = with_gpus
        return spec


if LIBRARY is not None:
    import sys

    sys.meta_path.insert(0, Emulated())
