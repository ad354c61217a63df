"""topoflow: which network and which way of splitting the job make an iteration fastest, and at what price?

    import topoflow

    results = topoflow.compare(workload="dlrm", servers=16, fabric=["fat_tree", "topoopt"], bandwidth_gbps=[25, 100])
    results                             # a table, and the answer in a sentence
    results.fastest.iteration_time      # s
    results.to_pandas()
    results.save("runs/dlrm")           # report.html with pictures, result.json, Parquet tables

``compare``, ``search``, ``simulate`` and ``load`` do what the commands of these names do, on the same keys or on
objects made in Python. What they need is imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from topoflow.api.functions import compare, load, search, simulate
    from topoflow.api.results import Results
    from topoflow.case.base import Result

_PLACES = {
    "compare": "topoflow.api.functions",
    "search": "topoflow.api.functions",
    "simulate": "topoflow.api.functions",
    "load": "topoflow.api.functions",
    "Result": "topoflow.case.base",
    "Results": "topoflow.api.results",
}
__all__ = ["Result", "Results", "compare", "load", "search", "simulate"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'topoflow' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
