"""For 4 ranks: each operation of torch.distributed that gloo has, with sizes that tell them apart."""

import threading

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional


def floats(elements: int) -> torch.Tensor:
    return torch.ones(elements)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
odd = dist.new_group([3, 1], sort_ranks=False)

dist.all_reduce(floats(100))
dist.broadcast(floats(101), src=2)
dist.reduce(floats(102), dst=1)
dist.all_gather([floats(103) for _ in range(ranks)], floats(103))
dist.all_gather_into_tensor(floats(104 * ranks), floats(104))
dist.reduce_scatter(floats(105), [floats(105) for _ in range(ranks)])
dist.reduce_scatter_tensor(floats(106), floats(106 * ranks))
dist.all_to_all_single(floats(107 * ranks), floats(107 * ranks))
dist.gather(floats(108), [floats(108) for _ in range(ranks)] if rank == 3 else None, dst=3)
dist.scatter(floats(109), [floats(109) for _ in range(ranks)] if rank == 3 else None, src=3)
dist.barrier()

# rank i sends i + j + 1 rows of 10 to rank j, so what i receives from j is as long
rows = [rank + peer + 1 for peer in range(ranks)]
dist.all_to_all_single(torch.ones(sum(rows), 10), torch.ones(sum(rows), 10), rows, rows)
dist.all_to_all([floats(120) for _ in range(ranks)], [floats(120) for _ in range(ranks)])

if rank in (1, 3):  # the group's order is 3, 1
    dist.all_reduce(torch.ones(110, dtype=torch.float64), group=odd)
    dist.broadcast(floats(111), src=1, group=odd)

if rank == 0:
    dist.send(floats(112), dst=2)
    dist.isend(floats(113), dst=3, tag=7).wait()
elif rank == 2:
    dist.recv(floats(112), src=0)
elif rank == 3:
    assert dist.recv(floats(113), tag=7) == 0  # from any source; the tag keeps it apart from the exchange below
right, left = (rank + 1) % ranks, (rank - 1) % ranks
exchange = [dist.P2POp(dist.isend, floats(114), right), dist.P2POp(dist.irecv, floats(114), left)]
for work in dist.batch_isend_irecv(exchange):
    work.wait()

dist.broadcast_object_list(["an object"] if rank == 0 else [None], src=0)
with dist._coalescing_manager():
    dist.all_reduce(floats(115))
    dist.all_reduce(floats(116))
everyone = list(range(ranks))
assert (functional.all_reduce(floats(117), "sum", everyone) + 0)[0] == ranks
assert len(functional.all_gather_tensor(floats(118), 0, everyone) + 0) == 118 * ranks

work = dist.all_reduce(floats(119), async_op=True)
floats(1000).cumsum(0)
work.wait()

works = []  # else gloo's thread may be the last to hold the work, and abort if it frees the tensor while Python ends
beside = threading.Thread(target=lambda: works.append(dist.all_reduce(floats(122), async_op=True)))
beside.start()
beside.join()
works[0].wait()
dist.destroy_process_group()
