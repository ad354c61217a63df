"""The communication hook of DistributedDataParallel.

DDP compares the hook's annotations with its types, so they must not be strings: nothing is imported from __future__.
"""

from typing import Any

import torch
import torch.distributed as dist


def reduce_bucket(rings: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean of a bucket over the ranks of ``rings`` (PermutedRings), divided first as by DDP itself."""
    flat = bucket.buffer()
    flat.div_(len(rings.ranks))
    started = [work.get_future() for work in rings.start(flat, dist.ReduceOp.SUM)]

    def reduced(parts: torch.futures.Future[list[Any]]) -> torch.Tensor:
        for part in parts.value():
            part.value()  # raises what a ring has raised
        return flat

    return torch.futures.collect_all(started).then(reduced)
