"""The mesh of a job's ranks, of axes or of the arguments of its trainer: ``capture import --layout AXES_OR_FILE``.

A file is read as by ``recipe=FILE``: a command line of Megatron-LM, or a TOML of torchtitan. The data axis has the
ranks that the other axes leave over. The ranks that share experts are neighbors along the context axis, and along the
data axis where that has too few; along the tensor axis first if experts are not cut by tensors.

    Megatron-LM    tp, cp, dp, pp                  --use-tp-pp-dp-mapping: tp, cp, pp, dp
    torchtitan     tp, cp, dp_shard, dp_replicate, pp

Sources: megatron/core/parallel_state.py of Megatron-LM core_v0.14.0 (``RankGenerator``, order ``tp-cp-ep-dp-pp``);
torchtitan/distributed/parallel_dims.py, June 2025. Both name the axis that varies fastest here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from topoflow.capture.layout import MeshLayout
from topoflow.study.configure.recipe import (
    is_torchtitan,
    number_of,
    option_words,
    parallelism_of,
    text_of,
    toml_of,
)

KEY = "layout"
MEGATRON_AXES = {
    "tp": "tensor-model-parallel-size",
    "cp": "context-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "ep": "expert-model-parallel-size",
}
TORCHTITAN_AXES = {
    "tp": "tensor_parallel_degree",
    "cp": "context_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "ep": "expert_parallel_degree",
    "dp_replicate": "data_parallel_replicate_degree",
}
SHARD = "data_parallel_shard_degree"
SHARED = ("cp", "dp", "dp_shard")  # axes along which ranks may share experts


@dataclass(frozen=True)
class JobLayout:
    """The axes of a job, the one that varies fastest first; ``rest`` has the ranks that the others leave over."""

    source: str
    axes: Mapping[str, int]
    rest: str | None = None
    experts: int = 1  # ranks that share experts
    shared: Sequence[str] = SHARED  # axes that these are along

    def of(self, world_size: int | None) -> MeshLayout:
        """Return the layout of ``world_size`` ranks; axes along which some ranks share experts are in two parts."""
        sizes, experts = dict(self.axes), self.experts
        if self.rest is not None:
            others = prod(size for name, size in sizes.items() if name != self.rest)
            if world_size is None or world_size % others:
                raise ValueError(f"{self.source}: degrees must divide the ranks of the job, got {others}, {world_size}")
            sizes[self.rest] = world_size // others
        axes: dict[str, int] = {}
        for name, size in sizes.items():
            together = min(size, experts) if name in self.shared else 1
            if size % together or experts % together:
                raise ValueError(f"{self.source}: expert ranks must divide {name}={size}, got {self.experts}")
            axes |= {f"{name}_ep": together, name: size // together} if 1 < together < size else {name: size}
            experts //= together
        if experts > 1:
            raise ValueError(f"{self.source}: must have the ranks that share experts, got {self.experts} in {sizes}")
        return MeshLayout(axes)


def job_layout(text: str) -> JobLayout:
    """Return the layout that axes, or the arguments of a trainer in a file, say."""
    file = Path(text)
    if not file.is_file():
        return JobLayout(KEY, MeshLayout.parse(text).axes)
    content = text_of(KEY, file)
    return _torchtitan(file, content) if is_torchtitan(file) else _megatron(file, content)


def _megatron(file: Path, text: str) -> JobLayout:
    options = option_words(file, text)
    size = {axis: number_of(f"{file}: --{name}", options.get(name, "1")) for axis, name in MEGATRON_AXES.items()}
    last = ("pp", "dp") if "use-tp-pp-dp-mapping" in options else ("dp", "pp")
    axes = {axis: size.get(axis, 1) for axis in ("tp", "cp", *last)}
    name = "expert-tensor-parallel-size"
    cut = number_of(f"{file}: --{name}", options.get(name, size["tp"]))
    shared = _shared(f"{file}: --{name}", size["tp"], cut)
    before_stages = shared if last[0] == "dp" else [axis for axis in shared if axis != "dp"]
    return JobLayout(str(file), axes, "dp", size["ep"], before_stages)


def _torchtitan(file: Path, text: str) -> JobLayout:
    table = parallelism_of(file, toml_of(file, text))
    size = {axis: number_of(f"{file}: {name}", table.get(name, 1)) for axis, name in TORCHTITAN_AXES.items()}
    shard = table.get(SHARD, -1)
    size["dp_shard"] = 1 if shard == -1 else number_of(f"{file}: {SHARD}", shard)
    axes = {axis: size[axis] for axis in ("tp", "cp", "dp_shard", "dp_replicate", "pp")}
    name = "expert_tensor_parallel_degree"
    cut = number_of(f"{file}: {name}", table.get(name, 1))
    shared = _shared(f"{file}: {name}", size["tp"], cut)
    return JobLayout(str(file), axes, "dp_shard" if shard == -1 else None, size["ep"], shared)


def _shared(field: str, tensor: int, cut: int) -> Sequence[str]:
    """Return the axes along which ranks share experts, each of which ``cut`` tensor ranks divide."""
    if cut not in (1, tensor):
        raise ValueError(f"{field}: must be 1 or the {tensor} tensor ranks, got {cut}")
    return SHARED if cut == tensor else ("tp", *SHARED)
