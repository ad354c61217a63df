"""For 2 ranks: rank 1 raises after the first all-reduce; rank 0 ends well."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(8))
if dist.get_rank() == 1:
    raise RuntimeError(f"the script's own error, with {sys.argv[1:]}")
