"""Workload: a job independent of its placement. It is a graph of layers, a recorded job, or a motif of messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Protocol

from topoflow.arrays import Floats, Offsets
from topoflow.capture.base import ComputeSpan, Trace, brief
from topoflow.capture.periods import Period, representative
from topoflow.units import DTYPE_BYTES, check_among, check_not_negative, check_positive, human
from topoflow.workload.gpu import TF32, Gpu
from topoflow.workload.kernels import Kernels, KernelTimes
from topoflow.workload.optimizer import check_optimizer


@dataclass(frozen=True)
class Sharding:
    """The cuts of a layer by tensor, pipeline, context and expert parallelism. Elements are per sample."""

    block: int | None = None  # the block it belongs to: a pipeline is cut between blocks
    tensor: bool = False  # each tensor rank holds a part of the parameters; otherwise all of them
    heads: int = 0  # the tensor degree must divide this; 0: no limit (cut by columns)
    positions: int = 0  # the context degree must divide this
    reduced_forward: int = 0  # elements summed over the tensor ranks in the forward pass
    reduced_backward: int = 0  # ... in the backward pass
    key_values: int = 0  # elements that every context rank needs of all positions
    experts: int = 1  # the parameters are divided among these; an expert rank holds some
    routed: int = 0  # elements sent to the experts, or back: one copy of a token for each of its ``top_k`` experts
    top_k: int = 1  # experts of a token
    node_limit: int = 0  # nodes that a token's experts are on, at most; it is sent once to each of these. 0: no limit
    shares: str | None = None  # the layer whose parameters this one uses (a tied head)
    predicts: bool = False  # a block of multi-token prediction: on the last stage, in addition to its even share


@dataclass(frozen=True)
class Layer:
    """One layer. Sizes are elements per sample, not bytes: the workload has the dtype.

    ``forward_flops`` counts a multiply-add as two. The backward pass costs twice the forward pass (gradients of inputs
    and of weights). ``memory_elements`` are the elements that the forward pass moves to and from memory per sample
    (inputs, outputs, gathered rows), without the parameters.
    """

    name: str
    kind: str  # "dense", "conv", "attention", "norm", "embedding", "table" (a sharded embedding table), ...
    parameters: int  # elements
    forward_flops: float  # FLOP per sample
    output_elements: int  # elements per sample handed to each successor
    memory_elements: int  # elements per sample moved in the forward pass, without parameters
    after: tuple[str, ...] = ()  # layers whose outputs it reads
    sparse: bool = False  # only the gathered rows have gradients, and only they are read
    sharding: Sharding | None = None  # None: the layer can be placed, but not cut
    kernel: str = ""  # its name in files of measured kernels, "Dense_4096_4096" (``kernels.py``); "": none
    shape: tuple[int, ...] = ()  # (inputs, outputs) of a matrix; (heads, size of a head, positions) of attention
    causal: bool = False  # attention kernels that compute half the scores
    attention_kernel: str = "flash"  # of attention that keeps scores on the chip (``efficiency.ATTENTION_KERNELS``)
    matrices: tuple[int, ...] = ()  # outputs of the matrices that frameworks multiply one by one; (): one matrix
    matrix: int = 0  # position of the first of them among the matrices of its block
    scores: int = 0  # elements per sample of the attention scores written to memory; 0: they stay on the chip
    activation: int = 0  # elements per sample of the output of its activation function, which the next layer keeps
    temporary: int = 0  # elements per sample that its backward pass holds beside its output
    elementwise: int = 0  # elements per sample moved by element-wise functions that the roofline counts as fused

    def __post_init__(self) -> None:
        for name in ("parameters", "forward_flops", "output_elements", "memory_elements"):
            check_not_negative(f"layer {self.name}.{name}", getattr(self, name))
        if self.sparse and self.memory_elements < self.output_elements:  # it writes the outputs, and reads rows too
            rule = f"must be at least the {self.output_elements} output_elements of a sparse layer"
            raise ValueError(f"layer {self.name}.memory_elements: {rule}, got {self.memory_elements}")


@dataclass(frozen=True)
class LayerGraph:
    """A training job as layers with their compute and traffic, before its placement.

    ``layers`` are in topological order (every ``after`` names an earlier layer). Source of the defaults: TopoOpt
    List 1. Everything is stored and sent as ``dtype``. ``precision`` maps a kind of layer to the rate of ``gpu.flops``
    that it computes at, where that differs: {"conv": "tfloat32"}, as cuDNN computes float32 on GPUs with this rate.
    ``kernels`` are measured times, which replace the roofline for the layers that they cover.
    """

    name: str
    layers: tuple[Layer, ...]
    batch_per_gpu: float  # samples of the global batch per GPU; whole where each GPU has its own samples
    gpu: Gpu
    gpus_per_server: int = 4  # TopoOpt 5.1: four A100 per server
    dtype: str = "float32"
    optimizer: str = "sgd"  # as in FlexFlow's DLRM; ``optimizer.py`` has the state
    precision: Mapping[str, str] = field(default_factory=dict)
    kernels: Kernels | None = None
    block_launch: float = 0.0  # s in which the host launches the kernels of a block's forward pass; backward: twice
    gpus_per_node: int | None = None  # where an endpoint is a part of a node; None: ``gpus_per_server``

    def __post_init__(self) -> None:
        check_optimizer("workload.optimizer", self.optimizer)
        check_positive("workload.batch_per_gpu", self.batch_per_gpu)
        check_positive("workload.gpus_per_server", self.gpus_per_server)
        check_among("workload.dtype", self.dtype, DTYPE_BYTES)
        if not self.layers:
            raise ValueError(f"workload.layers: {self.name} must have layers, got none")
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise ValueError(f"workload.layers: names must be unique, got {layer.name!r} twice")
            for earlier in layer.after:
                if earlier not in seen:
                    raise ValueError(f"layer {layer.name}.after: must name an earlier layer, got {earlier!r}")
            seen.add(layer.name)
        self._check_precision()
        if self.kernels is not None and not any(self.kernels.has(layer.kernel) for layer in self.layers):
            rule = f"must have a kernel of {self.name}, as {next((x.kernel for x in self.layers if x.kernel), None)}"
            raise ValueError(f"workload.kernels: {rule}, got {self.kernels.names} in {self.kernels.name}")

    @cached_property
    def alike(self) -> Mapping[str, int]:
        """Return layer -> a number that it shares with the layers that take equally long on any GPU.

        The blocks of a transformer differ in their names only.
        """
        return _alike(self.layers)

    @cached_property
    def known_times(self) -> dict[tuple[float, ...], KernelTimes]:
        """Return the times that were computed, by the number in ``alike``, samples, parameters and degrees."""
        return {}

    def _check_precision(self) -> None:
        kinds = dict.fromkeys(layer.kind for layer in self.layers)
        for kind, rate in self.precision.items():
            if kind not in kinds:
                raise ValueError(f"workload.precision: must be of kinds of layers, {', '.join(kinds)}, got {kind!r}")
            if rate not in (TF32, *self.gpu.flops):
                known = ", ".join(self.gpu.flops)
                raise ValueError(f"workload.precision.{kind}: must be a rate of the gpu, {known}, got {rate!r}")

    def rate(self, kind: str) -> str:
        """Return the rate of ``gpu.flops`` for layers of this kind; without TF32 on the GPU, that of ``dtype``."""
        rate = self.precision.get(kind, self.dtype)
        has_no_tf32 = self.dtype != "float32" or TF32 not in self.gpu.flops
        return self.dtype if rate == TF32 and has_no_tf32 else rate

    @property
    def element_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    def with_global_batch(self, samples: int, servers: int) -> LayerGraph:
        """Return the job with ``samples`` per iteration on all ``servers``, for any degrees."""
        gpus = servers * self.gpus_per_server
        return replace(self, batch_per_gpu=samples / gpus if samples % gpus else samples // gpus)

    @property
    def batch_per_server(self) -> float:
        return self.batch_per_gpu * self.gpus_per_server

    @cached_property
    def parameters(self) -> int:
        """Return the number of all parameters (elements)."""
        return sum(layer.parameters for layer in self.layers)


@lru_cache(maxsize=16)
def _alike(layers: tuple[Layer, ...]) -> Mapping[str, int]:
    """Return ``LayerGraph.alike``, which workloads that differ in their batch share."""
    numbers: dict[Layer, int] = {}
    return {layer.name: numbers.setdefault(_nameless(layer), len(numbers)) for layer in layers}


def _nameless(layer: Layer) -> Layer:
    sharding = None if layer.sharding is None else replace(layer.sharding, block=None, shares=None)
    return replace(layer, name="", after=(), sharding=sharding)


@dataclass(frozen=True)
class RecordedJob:
    """A training job that was recorded: it keeps the compute times of the trace and the split of its run.

    Only the exchange bandwidth of ``gpu`` is used, where ranks share a server.
    """

    trace: Trace
    gpu: Gpu
    eager: float | None = None  # B; without recorded times, a longer message waits until its receive is posted

    @property
    def name(self) -> str:
        return self.trace.name

    @cached_property
    def period(self) -> Period:
        """Return the iteration that represents the job, and its duration."""
        return representative(self.trace)

    @cached_property
    def computes(self) -> bool:
        """Return whether any compute was recorded; otherwise it is unknown, not 0 s."""
        events = (event for rank in self.trace.ranks.values() for event in rank)
        return any(isinstance(event, ComputeSpan) and not event.communicates for event in events)

    @cached_property
    def unsized_time(self) -> float:
        """Return the time (s) of that iteration in communication of unknown size, on the rank with most of it."""
        number = self.period.number
        ranks = self.trace.ranks.values()
        unsized = ([e for e in events if isinstance(e, ComputeSpan) and e.communicates] for events in ranks)
        return max((sum(e.seconds for e in events if e.iteration == number) for events in unsized), default=0.0)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Return the recorded duration of the job, and the assumptions where the trace lacks data, a line each."""
        from topoflow.capture.assumptions import assumptions  # most jobs were not recorded

        trace, period = self.trace, self.period
        took = "" if period.seconds is None else f", which took {human(period.seconds, 's')} when it was recorded"
        missing = trace.world_size - len(trace.ranks)
        models = f"rank{'s' if len(trace.ranks) > 1 else ''} {brief(sorted(trace.ranks)).strip('[]')}"
        mirrored = (
            f"{missing} of {trace.world_size} ranks were not recorded: they do as {models} did, "
            "so it waits for none that is slower, and an iteration takes at least what is said"
        )
        return (
            f"iteration {period.number} (of {trace.iterations}, the first is 0) is replayed{took}",
            *([mirrored] if missing else []),
            *assumptions(trace),
        )


NO_TARGET = -1
BYTES_PER_MESSAGE = 400  # memory in B at least, including its simulation (measured: sweep3d on 110,592 servers)


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages between ranks, each rank's in the order in which its NIC gets them. Shapes: M messages."""

    source: Offsets  # [M] rank
    target: Offsets  # [M] rank; NO_TARGET: ``source`` computes
    bytes: Floats  # [M] B
    seconds: Floats | None = None  # [M] s of a computation, or of a rank's message to itself; None: 0
    waits: tuple[Offsets, Offsets] | None = None  # [D] messages and the earlier ones that they wait for; None: no waits
    release: Floats | None = None  # [M] s, earliest start; None: 0
    rounds: int = 1  # repetitions of the whole, one after the other
    carried: tuple[Offsets, Offsets] | None = None  # [C] messages and those of the previous round that they wait for


class MessagePattern(ABC):
    """A pattern of messages between any number of ranks, without layers. The memory of ``gpu`` is not used."""

    gpu: Gpu

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def check(self, ranks: int) -> None:
        """Raise ``ValueError`` where the pattern does not fit that number of ranks."""

    @abstractmethod
    def messages(self, ranks: int) -> Messages:
        """Return all messages among ``ranks``."""


Workload = LayerGraph | RecordedJob | MessagePattern


def layer_graph(workload: Workload) -> LayerGraph:
    """Return ``workload``. Raises ``ValueError`` for a recorded job, whose layers are unknown, and for a motif."""
    if not isinstance(workload, LayerGraph):
        reason = "was captured" if isinstance(workload, RecordedJob) else "has none"
        raise ValueError(f"workload: must be a graph of layers, got {workload.name}, which {reason}")
    return workload


class WorkloadModel(Protocol):
    """The interface of each file of ``workload/``: a frozen dataclass of sizes that builds a Workload."""

    def build(self) -> Workload: ...
