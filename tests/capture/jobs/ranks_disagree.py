"""For 2 ranks: what rank 0 sends as float32, rank 1 takes for int32; gloo does not mind."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    dist.send(torch.ones(8, dtype=torch.float32), dst=1)
else:
    dist.recv(torch.ones(8, dtype=torch.int32), src=0)
dist.destroy_process_group()
