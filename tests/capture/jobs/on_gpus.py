"""A training script as it is written for GPUs: nccl, one device per rank, autocast, a compiled model."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
torch.cuda.manual_seed(0)
device = torch.device("cuda", local)
replicated = DistributedDataParallel(nn.Linear(32, 32).cuda(), device_ids=[local], output_device=local)
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp",))
with torch.device("meta"):
    sharded = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 8))
for part in (*sharded, sharded):
    fully_shard(part, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
sharded.to_empty(device="cuda")
compiled = torch.compile(sharded)
optimizer = torch.optim.AdamW([*replicated.parameters(), *sharded.parameters()], fused=False)
while True:
    x = torch.randn(16, 32).cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        hidden = replicated(x.to(device))
    loss = compiled(hidden).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    seen = torch.zeros(1, device="cuda", dtype=torch.int64)
    dist.all_reduce(seen)
    print(loss.item(), torch.cuda.max_memory_allocated())
