"""A training script for any number of ranks over gloo: parallel.py KIND [--steps N].

KIND is ddp, fsdp, hsdp, tensor, pipeline, pipeline_fsdp (two stages), moe, or even_moe, in which experts are chosen
in turn.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

WIDTH, CLASSES, BATCH, EXPERTS = 64, 16, 32, 8


class Block(nn.Module):
    """A residual block of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input and what the layers add to it."""
        return x + self.down(torch.relu(self.up(x)))


class Experts(nn.Module):
    """Experts that are spread over all ranks; each sample goes to the two with the highest scores."""

    def __init__(self, even: bool) -> None:
        super().__init__()
        self.even = even
        self.local = EXPERTS // dist.get_world_size()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(self.local))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Send each sample to its experts, and the results back."""
        scores, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        if self.even:
            chosen = torch.arange(2 * len(x)).view(-1, 2) % EXPERTS
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        splits = counts.view(-1, self.local).sum(1).tolist()
        their_splits = theirs.view(-1, self.local).sum(1).tolist()
        sent = x.repeat_interleave(2, dim=0)[order]
        arrived = AllToAll.apply(sent, their_splits, splits)
        parts = arrived.tensor_split(self.local)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        back = AllToAll.apply(done, splits, their_splits)
        return x + (back[order.argsort()].view(-1, 2, WIDTH) * scores.unsqueeze(-1)).sum(1)


class AllToAll(torch.autograd.Function):
    """An all-to-all whose gradient goes the way back."""

    @staticmethod
    def forward(ctx, x, out_splits, in_splits):
        """Send ``in_splits`` rows to each rank."""
        ctx.splits = in_splits, out_splits
        output = x.new_empty(sum(out_splits), *x.shape[1:])
        dist.all_to_all_single(output, x.contiguous(), out_splits, in_splits)
        return output

    @staticmethod
    def backward(ctx, gradient):
        """Send the gradients back."""
        return AllToAll.apply(gradient, *ctx.splits), None, None


def network() -> nn.Sequential:
    """Return four blocks and a head."""
    return nn.Sequential(*(Block() for _ in range(4)), nn.Linear(WIDTH, CLASSES))


def build(kind: str, ranks: int) -> nn.Module:
    """Return the model, spread over the ranks."""
    if kind == "ddp":
        return DistributedDataParallel(network(), bucket_cap_mb=0.1)
    if kind in ("moe", "even_moe"):
        return nn.Sequential(Experts(kind == "even_moe"), nn.Linear(WIDTH, CLASSES))
    model, mesh = network(), None
    if kind == "hsdp":
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    elif kind == "tensor":
        both = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "tp"))
        mesh = both["dp"]
        for block in list(model)[:-1]:
            parallelize_module(block, both["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        parallelize_module(model[-1], both["tp"], ColwiseParallel(output_layouts=Replicate()))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def pipeline(steps: int, stages: int, ranks: int) -> None:
    """Train a model of one block per stage, each sharded over its replicas."""
    mesh = init_device_mesh("cpu", (stages, ranks // stages), mesh_dim_names=("pp", "dp"))
    rank = mesh.get_local_rank("pp")
    block = nn.Sequential(Block(), *([nn.Linear(WIDTH, CLASSES)] if rank == stages - 1 else []))
    if ranks > stages:
        fully_shard(block, mesh=mesh["dp"])
    stage = PipelineStage(block, rank, stages, torch.device("cpu"), group=mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=cross_entropy)
    optimizer = torch.optim.AdamW(block.parameters())
    for _ in range(steps):
        arguments = (torch.randn(BATCH, WIDTH),) if rank == 0 else ()
        target = {"target": torch.randint(CLASSES, (BATCH,))} if rank == stages - 1 else {}
        schedule.step(*arguments, **target)
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    if arguments.kind.startswith("pipeline"):
        pipeline(arguments.steps, 2 if arguments.kind == "pipeline_fsdp" else ranks, ranks)
    else:
        model = build(arguments.kind, ranks)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(arguments.steps):
            loss = cross_entropy(model(torch.randn(BATCH, WIDTH)), torch.randint(CLASSES, (BATCH,)))
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(loss.item(), norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
