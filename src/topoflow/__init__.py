"""topoflow: which network and which way of splitting the job make an iteration fastest, and at what price?

    import topoflow

    results = topoflow.compare(workload="dlrm", servers=16, fabric=["fat_tree", "topoopt"], bandwidth_gbps=[25, 100])
    results                             # a table, and the answer in a sentence
    results.fastest.iteration_time      # s
    results.to_pandas()
    results.save("runs/dlrm")           # report.html with pictures, result.json, Parquet tables

``compare``, ``search``, ``simulate`` and ``load`` do what the commands of these names do, on the same keys or on
objects made in Python. ``topoflow.gpus.h100()`` and ``topoflow.fabrics.torus(dims=[4, 4])`` make presets, ``dir`` lists
them. What is needed is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from topoflow.api.functions import compare, load, search, simulate
    from topoflow.api.model import Model
    from topoflow.api.presets import Presets
    from topoflow.api.results import Results
    from topoflow.capture.base import Trace
    from topoflow.case.base import Result
    from topoflow.engine.base import Timeline, World
    from topoflow.fabric.base import Fabric
    from topoflow.fabric.prices import Prices
    from topoflow.search.base import Plan
    from topoflow.strategy.base import Strategy
    from topoflow.workload.base import Workload
    from topoflow.workload.gpu import Gpu

    fabrics: Presets
    fidelities: Presets
    gpus: Presets
    prices: Presets
    strategies: Presets
    workloads: Presets

_MODULES = {
    "topoflow.api.functions": ("compare", "load", "search", "simulate"),
    "topoflow.api.model": ("Model",),
    "topoflow.api.presets": ("fabrics", "fidelities", "gpus", "prices", "strategies", "workloads"),
    "topoflow.api.results": ("Results",),
    "topoflow.capture.base": ("Trace",),
    "topoflow.case.base": ("Result",),
    "topoflow.engine.base": ("Timeline", "World"),
    "topoflow.fabric.base": ("Fabric",),
    "topoflow.fabric.prices": ("Prices",),
    "topoflow.search.base": ("Plan",),
    "topoflow.strategy.base": ("Strategy",),
    "topoflow.workload.base": ("Workload",),
    "topoflow.workload.gpu": ("Gpu",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [
    "Fabric",
    "Gpu",
    "Model",
    "Plan",
    "Prices",
    "Result",
    "Results",
    "Strategy",
    "Timeline",
    "Trace",
    "Workload",
    "World",
    "compare",
    "fabrics",
    "fidelities",
    "gpus",
    "load",
    "prices",
    "search",
    "simulate",
    "strategies",
    "workloads",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'topoflow' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
