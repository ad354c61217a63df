"""Record one small job in the formats that PyTorch writes: Kineto profiles and execution traces, one file per rank.

    torchrun --nproc-per-node 2 examples/record_formats.py examples/traces

The job is data parallel training of a small network over gloo, on the CPU. Two steps are profiled
(``kineto_rank*``), two more are observed (``pytorch_et_rank*``). Gloo does not describe its collectives (group, rank)
in an execution trace, so while it is observed the script writes the row of each as PyTorch's NCCL backend does, by
PyTorch's own macro. That needs a C++ compiler and ninja.
"""

import argparse
import gzip
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule
from torch.utils.cpp_extension import load_inline

ROW = """
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/extension.h>

void row(at::Tensor buffer, int64_t number, int64_t rank, int64_t ranks) {
  std::vector<at::Tensor> tensors = {buffer};
  RECORD_PARAM_COMMS_DATA(
      std::make_tuple(number, false), std::make_tuple(std::string("0"), std::string("default_pg")), tensors, tensors,
      rank, std::string("allreduce"), buffer.numel(), buffer.numel(), buffer.scalar_type(), std::vector<int64_t>(),
      std::vector<int64_t>(), 0, 1, ranks);
}
"""
STEPS, WIDTH, CLASSES, BATCH = 2, 512, 10, 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES))
    model = DistributedDataParallel(network, bucket_cap_mb=1)  # two buckets
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch) / "trace.json"
        with profiled(on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(trace))) as profiler:
            train(model, profiler)
        pack(trace, folder / f"kineto_rank{rank}.json.gz")

        model.register_comm_hook(load_inline("param_comms", ROW, functions=["row"]).row, all_reduce_with_row)
        with profiled(execution_trace_observer=ExecutionTraceObserver().register_callback(str(trace))) as profiler:
            train(model, profiler)
        pack(trace, folder / f"pytorch_et_rank{rank}.json.gz")
    dist.destroy_process_group()


def profiled(**settings: Any) -> profile:
    """A profile of the next steps, on the CPU."""
    steps = schedule(wait=0, warmup=0, active=STEPS, repeat=1)
    return profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=steps, **settings)


def train(model: nn.Module, profiler: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(torch.randn(BATCH, WIDTH)), torch.randint(CLASSES, (BATCH,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()


def all_reduce_with_row(row: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's all-reduce of a bucket, with the row that ProcessGroupNCCL::allreduce writes."""
    gradients = bucket.buffer().div_(dist.get_world_size())
    row(gradients, bucket.index(), dist.get_rank(), dist.get_world_size())
    dist.all_reduce(gradients)
    reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    reduced.set_result(gradients)
    return reduced


def pack(trace: Path, into: Path) -> None:
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_bytes(gzip.compress(trace.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
