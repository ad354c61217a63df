"""Parallel: a transformer cut by tensor, pipeline, context and expert parallelism; the remaining GPUs are replicas.

    tensor      every matrix is cut among ranks that all see the same samples
    context     the positions of a sample are cut among ranks
    expert      each rank holds some of the experts; ranks exchange tokens
    pipeline    each rank holds some of the blocks; microbatches pass through in the order of a schedule

Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021;
Dubey et al., "The Llama 3 Herd of Models", 2024, section 3.3.2 (context); Lepikhin et al., "GShard", 2020 (experts).
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.grid import OPTIONS, ParallelGrid
from topoflow.strategy.placement import count_microbatches, servers_to_place
from topoflow.strategy.schedules import stages_per_rank
from topoflow.units import check_whole
from topoflow.workload.base import LayerGraph, Sharding, Workload

ROUNDING = 1e-9  # relative error that a whole number of samples may have


@dataclass(frozen=True)
class Parallel:
    """The rule of parallel degrees; the data degree follows from the GPUs. No degree changes the global batch.

    A replica has tensor * context * pipeline GPUs and that many times ``batch_per_gpu`` samples. They are divided into
    ``microbatches``, or into microbatches of ``micro_batch`` samples; None: one sample each in a pipeline, all samples
    at once without one. Each pipeline rank has ``virtual`` stages, or those that ``schedule`` needs. ZeRO (``zero``)
    divides the state among the data, context and expert ranks of each of ``replicate`` replicas. If
    ``sequence_parallel``, tensor ranks divide the positions of layers that they do not cut; if ``async_tensor`` or
    ``async_expert``, collectives of these ranks overlap with the compute of their pass.
    """

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    microbatches: int | None = None
    virtual: int = 1
    bucket_bytes: int = 80_000_000
    micro_batch: int | None = None
    recompute: str = "none"
    zero: int = 0
    replicate: int = 1
    prefetch: int = 1
    reduce_dtype: str | None = None
    schedule: str | None = None
    sequence_parallel: bool = True
    async_tensor: bool = False
    async_expert: bool = False

    def place(self, workload: Workload, servers: int | None) -> ParallelGrid:
        """Return the grid. Raises ``ValueError`` where ``workload`` or ``servers`` cannot be divided like this."""
        job, servers = servers_to_place("parallel", workload, servers)
        self._check_degrees()
        _check_layers(job, self)
        if servers % self.pipeline:
            raise ValueError(
                f"parallel.pipeline: must divide the {servers} servers, as a stage has whole ones, got {self.pipeline}"
            )
        ranks = servers // self.pipeline * job.gpus_per_server
        cut = self.tensor * self.context * self.expert * self.replicate
        if ranks % cut:
            product = "tensor * context * expert" + (" * replicate" if self.replicate > 1 else "")
            raise ValueError(f"parallel: {product} must divide the {ranks} GPUs of a stage, got {cut}")
        virtual = stages_per_rank(self.schedule, self.virtual, self.pipeline)
        return ParallelGrid(
            tensor=self.tensor,
            context=self.context,
            expert=self.expert,
            data=ranks // cut,
            pipeline=self.pipeline,
            microbatches=self._microbatches(job),
            gpus_per_server=job.gpus_per_server,
            stages=_stages(job, self.pipeline, virtual),
            bucket_bytes=self.bucket_bytes,
            **{name: getattr(self, name) for name in OPTIONS},
        )

    def divides(self, workload: LayerGraph) -> bool:
        """Return whether every replica has whole samples."""
        samples = workload.batch_per_gpu * self.tensor * self.context * self.pipeline
        return round(samples) > 0 and abs(samples - round(samples)) <= ROUNDING * samples

    def replica_samples(self, workload: LayerGraph) -> int:
        """Return the samples of one replica in an iteration. Raises ``ValueError`` if the number is not whole."""
        gpus = self.tensor * self.context * self.pipeline
        samples = workload.batch_per_gpu * gpus
        if not self.divides(workload):
            rule = "must be a multiple of the replicas of the model"
            raise ValueError(f"global_batch: {rule}, got {samples:g} samples for each, of {gpus} GPUs")
        return round(samples)

    def _microbatches(self, workload: LayerGraph) -> int:
        samples = self.replica_samples(workload)
        if self.micro_batch is not None:
            if self.microbatches is not None:
                raise ValueError(f"parallel.microbatches: must be null with micro_batch, got {self.microbatches}")
            return count_microbatches(samples, self.micro_batch)
        if self.microbatches is None:
            return samples if self.pipeline > 1 else 1
        if samples % self.microbatches:
            raise ValueError(
                f"parallel.microbatches: must divide the {samples} samples of a replica, got {self.microbatches}"
            )
        return self.microbatches

    def _check_degrees(self) -> None:
        for name in ("tensor", "pipeline", "context", "expert", "microbatches", "virtual", "replicate"):
            if name != "microbatches" or self.microbatches is not None:
                check_whole(f"parallel.{name}", getattr(self, name), 1)


def shardings(workload: LayerGraph) -> list[Sharding]:
    """Return the cut of each layer. Raises ``ValueError`` for a workload that is no transformer."""
    cuts = [layer.sharding for layer in workload.layers if layer.sharding is not None]
    if len(cuts) < len(workload.layers) or not cuts:
        raise ValueError(f"strategy: parallel must have a transformer (transformer, moe, bert), got {workload.name}")
    return cuts


def _check_layers(workload: LayerGraph, degrees: Parallel) -> None:
    """Raise ``ValueError`` for a degree that does not divide the layers."""
    for sharding in shardings(workload):
        if sharding.heads and sharding.heads % degrees.tensor:
            raise ValueError(
                f"parallel.tensor: must divide the {sharding.heads} key-value heads of {workload.name}, "
                f"got {degrees.tensor}"
            )
        if sharding.positions and sharding.positions % degrees.context:
            raise ValueError(
                f"parallel.context: must divide the {sharding.positions} positions of {workload.name}, "
                f"got {degrees.context}"
            )
        if sharding.experts > 1 and sharding.experts % degrees.expert:
            raise ValueError(
                f"parallel.expert: must divide the {sharding.experts} experts of {workload.name}, got {degrees.expert}"
            )
    if degrees.expert > 1 and all(sharding.experts == 1 for sharding in shardings(workload)):
        raise ValueError(f"parallel.expert: must be 1 for {workload.name}, which has no experts, got {degrees.expert}")


def blocks(workload: LayerGraph) -> int:
    """Return the number of blocks of ``workload`` that are spread over the stages."""
    return len({cut.block for cut in shardings(workload) if cut.block is not None and not cut.predicts})


def _stages(workload: LayerGraph, pipeline: int, virtual: int) -> tuple[tuple[str, ...], ...]:
    """Return the layers of each stage: blocks are spread evenly, with the layers around them.

    Blocks of multi-token prediction are on the last stage in addition (``mtp_on_this_rank`` of Megatron-LM's
    multi_token_prediction.py).
    """
    number, count = blocks(workload), pipeline * virtual
    slots = stage_slots(number, count)
    if slots < count:
        field = "pipeline" if virtual == 1 else "pipeline * virtual"
        raise ValueError(f"parallel.{field}: must be at most the {number} blocks of {workload.name}, got {count}")
    stages: list[list[str]] = [[] for _ in range(count)]
    stage = 0
    for layer in workload.layers:
        block = None if layer.sharding is None else layer.sharding.block
        if block is not None:
            stage = min((block + (slots - number) // 2) * count // slots, count - 1)
        elif stage and slots > number:
            stage = count - 1
        stages[stage].append(layer.name)
    return tuple(map(tuple, stages))


def stage_slots(number: int, stages: int) -> int:
    """Return the units of equal size that are spread over the ``stages``: the ``number`` of blocks, or two more.

    The embedding and the head count as a block each where only this makes the stages even, as the 126 blocks of Llama 3
    405B on 16 ranks with 8 stages each (Dubey et al., 2024, section 3.3.2; in Megatron-LM,
    ``--account-for-embedding-in-pipeline-split`` and ``--account-for-loss-in-pipeline-split``).
    """
    return number + 2 if number % stages and (number + 2) % stages == 0 else number
