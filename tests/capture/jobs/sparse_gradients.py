"""Two steps of an embedding whose gradient is sparse: DDP all-reduces its entries, one more on rank 1."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Embedding(1000, 16, sparse=True))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.arange(4 + dist.get_rank())).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
