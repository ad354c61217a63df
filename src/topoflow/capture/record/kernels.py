"""Kernels in front of those of torch's c10d namespaces: they see each call, from Python or C++, of any thread.

PyTorch calls a kernel of the dispatch key ``BackendSelect`` just before that of the device, after dispatch modes and
tensor subclasses have made plain operators of what the script asked for (``c10/core/DispatchKey.h``). So nothing but
these operators is slowed, unlike by a dispatch mode.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed._functional_collectives  # defines operators

from topoflow.capture.record.c10d import NAMESPACES

KEY = torch._C.DispatchKey.BackendSelect
Seen = Callable[[Any, Callable[..., Any], Any, Any], Any]  # operator, the call itself, its arguments -> result


class DispatchKernels:
    """``seen(operator, call, args, kwargs)`` stands for each call, and returns what ``call`` returns.

    ``threads`` are in such a call: those that it makes itself, as a functional collective does, are not seen.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._libraries: list[torch.library.Library] = []
        self.threads: set[int] = set()

    def install(self) -> None:
        """Register a kernel for each operator."""
        self._libraries = [torch.library.Library(namespace, "IMPL") for namespace in NAMESPACES]
        names = [name.partition("::") for name in torch._C._dispatch_get_all_op_names()]
        for library in self._libraries:
            for name in (name for namespace, _, name in names if namespace == library.ns):
                packet, _, overload = name.partition(".")
                operator = getattr(getattr(getattr(torch.ops, library.ns), packet), overload or "default")
                library.impl(name, partial(self._kernel, operator), "BackendSelect", with_keyset=True)

    def remove(self) -> None:
        """Remove the kernels."""
        for library in self._libraries:
            library._destroy()

    def _kernel(self, operator: Any, keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        call, thread = partial(operator.redispatch, keys.remove(KEY)), threading.get_ident()
        if thread in self.threads:
            return call(*args, **kwargs)
        self.threads.add(thread)
        try:
            return self._seen(operator, call, args, kwargs)
        finally:
            self.threads.remove(thread)
