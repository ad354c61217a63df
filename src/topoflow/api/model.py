"""``topoflow.Model``: models of PyTorch as workloads."""

from __future__ import annotations

from typing import Any

from topoflow.api.presets import gpus
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.module import module_graph

DEFAULT_GPU = "a100"  # as of ``topoflow.compare``


class Model:
    """Models of PyTorch as workloads of ``compare`` and ``search``."""

    @staticmethod
    def from_module(module: Any, example: Any, *, gpu: str | Gpu = DEFAULT_GPU, **settings: Any) -> LayerGraph:
        """Return the layers of an ``nn.Module``, without memory for its weights, which may be on ``meta``.

        ``example`` is a batch that the module is called with: a tensor, a tuple of arguments or a mapping of keywords;
        the first dimension of its first tensor is the batch. ``settings`` are fields of the graph: ``batch_per_gpu``
        (default: that of the example), ``gpus_per_server``, ``dtype``, ``optimizer``, ``name``. Raises ``ValueError``
        in one line where shapes depend on values.
        """
        target_gpu = getattr(gpus, gpu)() if isinstance(gpu, str) else gpu
        return module_graph(module, example, target_gpu, **settings)
