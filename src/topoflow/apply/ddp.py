"""A communication hook for DistributedDataParallel.

DDP compares the hook's annotations with types, so they must not be strings: this module imports no ``annotations``.
"""

from typing import Any

import torch
import torch.distributed as dist


def reduce_bucket(rings: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Return a future of the bucket's mean over the ranks of ``rings`` (``PermutedRings``).

    The bucket is divided before it is summed, as in DDP itself.
    """
    flat = bucket.buffer()
    flat.div_(len(rings.ranks))
    started = [work.get_future() for work in rings.start(flat, dist.ReduceOp.SUM)]

    def reduced(parts: torch.futures.Future[list[Any]]) -> torch.Tensor:
        for part in parts.value():
            part.value()  # raises the error of a ring that failed
        return flat

    return torch.futures.collect_all(started).then(reduced)
