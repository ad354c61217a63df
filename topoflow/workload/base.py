"""Workload: what a job needs, free of placement. A graph of layers, a recorded job, or a motif of messages alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from topoflow.arrays import Floats, Offsets
from topoflow.capture.assumptions import assumptions
from topoflow.capture.base import Compute, Trace
from topoflow.capture.periods import Period, representative
from topoflow.units import DTYPE_BYTES, check_not_negative, check_positive, human
from topoflow.workload.gpu import TF32, Gpu
from topoflow.workload.kernels import Kernels
from topoflow.workload.optimizer import check_optimizer


@dataclass(frozen=True)
class Sharding:
    """How tensor, pipeline, context and expert parallelism cut a layer (``sharding.py``). Elements are per sample."""

    block: int | None = None  # the block it belongs to: a pipeline is cut between blocks
    tensor: bool = False  # each tensor rank holds a part of the parameters; otherwise all of them
    heads: int = 0  # what the tensor degree must divide; 0: its columns, always enough
    positions: int = 0  # what the context degree must divide
    reduced_forward: int = 0  # elements summed over the tensor ranks in the forward pass
    reduced_backward: int = 0  # ... in the backward pass
    key_values: int = 0  # elements that every context rank needs of all positions
    experts: int = 1  # among which its parameters are divided; an expert rank holds some
    routed: int = 0  # elements that travel to the experts, or back
    shares: str | None = None  # the layer whose parameters it uses (a tied head)


@dataclass(frozen=True)
class Layer:
    """One layer, per sample. Elements, not bytes: the workload knows the dtype.

    ``forward_flops`` counts a multiply-add as two. The backward pass costs ``backward_flops`` (default twice
    the forward: gradients of inputs and of weights). ``memory_elements`` is what the forward pass moves to
    and from memory per sample, without the parameters (inputs, outputs, gathered rows).
    """

    name: str
    kind: str  # "dense", "conv", "attention", "norm", "embedding", "table" (a sharded embedding table), ...
    parameters: int  # elements
    forward_flops: float  # FLOP per sample
    output_elements: int  # elements per sample handed to each successor
    memory_elements: int  # elements per sample moved in the forward pass, without parameters
    after: tuple[str, ...] = ()  # layers whose outputs it reads
    sparse: bool = False  # only the rows that were read have gradients; its parameters are not streamed
    sharding: Sharding | None = None  # None: it can be placed, but not cut
    kernel: str = ""  # what files of measured kernels call it, "Dense_4096_4096" (``kernels.py``); "": nothing
    shape: tuple[int, ...] = ()  # inputs and outputs of a matrix; heads, size of a head and positions of attention
    causal: bool = False  # attention of which kernels compute half the scores
    scores: int = 0  # elements per sample of the scores that attention writes to memory; 0: they stay on the chip
    elementwise: int = 0  # elements per sample moved by functions that the roofline takes as fused into it

    def __post_init__(self) -> None:
        for name in ("parameters", "forward_flops", "output_elements", "memory_elements"):
            check_not_negative(f"layer {self.name}.{name}", getattr(self, name))
        if self.sparse and self.memory_elements < self.output_elements:  # it writes those, and reads rows for them
            rule = f"must be at least the {self.output_elements} output_elements of a sparse layer"
            raise ValueError(f"layer {self.name}.memory_elements: {rule}, got {self.memory_elements}")


@dataclass(frozen=True)
class LayerGraph:
    """A training job before anyone decided where it runs: its layers and what each of them computes and sends.

    ``layers`` are in topological order (every ``after`` names an earlier layer). Source of the defaults: TopoOpt
    List 1. ``precision`` maps a kind of layer to the rate of ``gpu.flops`` that it computes at, where that is not the
    rate of ``dtype``, in which everything is stored and sent: {"conv": "tfloat32"} for what cuDNN does with float32 on
    GPUs that have this rate. ``kernels`` are measured times, which count for the layers that they have instead of the
    roofline.
    """

    name: str
    layers: tuple[Layer, ...]
    batch_per_gpu: float  # of all GPUs; whole where each GPU has samples of its own
    gpu: Gpu
    gpus_per_server: int = 4  # TopoOpt 5.1: four A100 per server
    dtype: str = "float32"
    optimizer: str = "sgd"  # what FlexFlow's DLRM is trained with; its state is in ``optimizer.py``
    precision: Mapping[str, str] = field(default_factory=dict)
    kernels: Kernels | None = None

    def __post_init__(self) -> None:
        check_optimizer("workload.optimizer", self.optimizer)
        check_positive("workload.batch_per_gpu", self.batch_per_gpu)
        check_positive("workload.gpus_per_server", self.gpus_per_server)
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"workload.dtype: must be one of {', '.join(DTYPE_BYTES)}, got {self.dtype!r}")
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

    def _check_precision(self) -> None:
        kinds = dict.fromkeys(layer.kind for layer in self.layers)
        for kind, rate in self.precision.items():
            if kind not in kinds:
                raise ValueError(f"workload.precision: must be of kinds of layers, {', '.join(kinds)}, got {kind!r}")
            if rate not in (TF32, *self.gpu.flops):
                known = ", ".join(self.gpu.flops)
                raise ValueError(f"workload.precision.{kind}: must be a rate of the gpu, {known}, got {rate!r}")

    def rate(self, kind: str) -> str:
        """The rate of ``gpu.flops`` at which layers of this kind compute. TF32 is float32's, where the GPU has it."""
        rate = self.precision.get(kind, self.dtype)
        has_no_tf32 = self.dtype != "float32" or TF32 not in self.gpu.flops
        return self.dtype if rate == TF32 and has_no_tf32 else rate

    @property
    def element_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    def with_global_batch(self, samples: int, servers: int) -> LayerGraph:
        """Return the job with ``samples`` in an iteration on all ``servers``, whatever their degrees."""
        gpus = servers * self.gpus_per_server
        return replace(self, batch_per_gpu=samples / gpus if samples % gpus else samples // gpus)

    @property
    def batch_per_server(self) -> float:
        return self.batch_per_gpu * self.gpus_per_server

    @property
    def parameters(self) -> int:
        """All parameters, elements."""
        return sum(layer.parameters for layer in self.layers)


@dataclass(frozen=True)
class RecordedJob:
    """A training job that was recorded: its compute times are those of the trace, and it keeps the split of its run.

    Of ``gpu`` only ``local_bandwidth`` counts, where ranks share a server.
    """

    trace: Trace
    gpu: Gpu
    eager: float | None = None  # B; a longer message waits for its posted receive where no times say what it did

    @property
    def name(self) -> str:
        return self.trace.name

    @cached_property
    def period(self) -> Period:
        """The iteration that stands for the job, and how long it was."""
        return representative(self.trace)

    @cached_property
    def computes(self) -> bool:
        """Whether any compute was recorded; otherwise it is unknown, not 0 s."""
        events = (event for rank in self.trace.ranks.values() for event in rank)
        return any(isinstance(event, Compute) and not event.communicates for event in events)

    @cached_property
    def unsized_time(self) -> float:
        """s of that iteration, on the rank with most of it, in communication of unknown size."""
        number = self.period.number
        ranks = self.trace.ranks.values()
        unsized = ([e for e in events if isinstance(e, Compute) and e.communicates] for events in ranks)
        return max((sum(e.seconds for e in events if e.iteration == number) for events in unsized), default=0.0)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """How long the job took when it was recorded, and what is assumed where the record says nothing."""
        trace, period = self.trace, self.period
        took = "" if period.seconds is None else f", which took {human(period.seconds, 's')} when it was recorded"
        missing = trace.world_size - len(trace.ranks)
        mirrored = f"{missing} of {trace.world_size} ranks were not recorded: they do as rank {min(trace.ranks)} did"
        return (
            f"iteration {period.number} (of {trace.iterations}, the first is 0) is replayed{took}",
            *([mirrored] if missing else []),
            *assumptions(trace),
        )


NOBODY = -1
BYTES_PER_MESSAGE = 400  # B at least, until it has been simulated (measured: sweep3d on 110,592 servers)


@dataclass(frozen=True, eq=False)
class Messages:
    """What ranks send each other, each rank's in the order in which its NIC gets them. M messages."""

    source: Offsets  # [M] rank
    target: Offsets  # [M] rank; NOBODY: ``source`` computes
    bytes: Floats  # [M] B
    seconds: Floats | None = None  # [M] s to compute, or that pass with a rank's message to itself; None: none
    waits: tuple[Offsets, Offsets] | None = None  # [D] messages and the earlier ones that they wait for; None: for none
    release: Floats | None = None  # [M] s, not before; None: at once
    rounds: int = 1  # times that all of this happens, one after the other
    carried: tuple[Offsets, Offsets] | None = None  # [C] messages and those of the round before that they wait for


class Motif(ABC):
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
        """All of them."""


Workload = LayerGraph | RecordedJob | Motif


def layer_graph(workload: Workload) -> LayerGraph:
    """``workload``. Raises ``ValueError`` for a recorded job, whose layers are unknown, and for a motif."""
    if not isinstance(workload, LayerGraph):
        what = "was captured" if isinstance(workload, RecordedJob) else "has none"
        raise ValueError(f"workload: must be a graph of layers, got {workload.name}, which {what}")
    return workload


class WorkloadModel(Protocol):
    """What each file of ``workload/`` defines: a frozen dataclass of sizes that builds a Workload."""

    def build(self) -> Workload: ...
