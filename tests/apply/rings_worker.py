"""Laws of PermutedRings among real processes, over real sockets: ``python rings_worker.py LAW,.. RANKS FOLDER``.

The ranks are forked, so that torch is imported once. Each law is a function of (rank, ranks, folder); the program exits
with 0 if all held on every rank. Under torchrun, ``python rings_worker.py LAW torchrun`` is one rank.
"""

from __future__ import annotations

import inspect
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import fsdp
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from topoflow.apply import groups
from topoflow.apply.fsdp import RingAllGather, RingReduceScatter
from topoflow.apply.torch import PermutedRings
from topoflow.emulate.rank import follow

SENT = 200  # offset of tcpi_bytes_sent in struct tcp_info; linux/tcp.h, since Linux 4.19
Connection = tuple[str, str]


def connections() -> dict[Connection, int]:
    """Bytes sent on every TCP connection of this process, by (own end, other end)."""
    sent = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as opened:
                ends = (str(opened.getsockname()), str(opened.getpeername()))
                info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
        except OSError:
            continue  # closed in the meantime, not connected, or not TCP
        sent[ends] = struct.unpack_from("Q", info, SENT)[0]
    return sent


def sent_to_ranks(before: dict[Connection, int], ranks: int) -> list[int]:
    """Bytes [ranks] that this process has sent to each other since ``before``."""
    grown = {ends: sent - before.get(ends, 0) for ends, sent in connections().items()}
    everybody: list[Any] = [None] * ranks
    dist.all_gather_object(everybody, grown)
    owner = {ends: rank for rank, theirs in enumerate(everybody) for ends in theirs}
    sent = [0] * ranks
    for (local, remote), amount in grown.items():
        if (remote, local) in owner:
            sent[owner[remote, local]] += amount
    return sent


def value(count: int, rank: int) -> torch.Tensor:
    return ((torch.arange(count) * 7 + rank * 13) % 11).float()


def check_sum(rings: PermutedRings, count: int, ranks: int, dtype: torch.dtype) -> None:
    tensor = value(count, dist.get_rank()).to(dtype)
    rings.all_reduce(tensor)
    expected = sum(value(count, rank) for rank in range(ranks))
    assert torch.equal(tensor.double(), expected.double()), f"{count} {dtype}"


def bytes_take_the_strides(rank: int, ranks: int, _: Path) -> None:
    """2 (n-1)/n S in all, each stride's share of it to the rank that the stride names, and nothing to others."""
    strides, weights = [1, ranks - 2], [0.75, 0.25]
    rings = PermutedRings(strides, weights)
    tensor = torch.ones(1 << 20)
    rings.all_reduce(tensor)  # connects
    dist.barrier()
    before = connections()
    dist.barrier()
    for _ in range(4):
        rings.all_reduce(tensor)
    sent = sent_to_ranks(before, ranks)
    ring_bytes = 4 * 2 * (ranks - 1) / ranks * 4 * tensor.numel()
    for peer in range(ranks):
        weight = sum(w for s, w in zip(strides, weights, strict=True) if (rank + s) % ranks == peer)
        # Headers of messages, and the barriers and objects of this test.
        assert abs(sent[peer] - weight * ring_bytes) < 0.01 * ring_bytes, (
            f"{rank} -> {peer}: {sent[peer]} B of {ring_bytes * weight}"
        )
    assert abs(sum(sent) - ring_bytes) < 0.01 * ring_bytes


def sums_are_right(rank: int, ranks: int, _: Path) -> None:
    """Any size, less than there are rings too; several types; tensors that are not contiguous; other reductions."""
    rings = PermutedRings([1, ranks - 2])
    for count in (1, 2, 31, 32, 33, 1000, 65537):
        check_sum(rings, count, ranks, torch.float32)
    for dtype in (torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.float16):
        check_sum(rings, 4001, ranks, dtype)
    full = value(400, rank).view(20, 20)
    half = full.t()[::2]
    rings.all_reduce(half)
    expected = sum(value(400, r).view(20, 20).t()[::2] for r in range(ranks))
    assert torch.equal(half, expected)
    largest = value(999, rank)
    rings.all_reduce(largest, dist.ReduceOp.MAX)
    assert torch.equal(largest, torch.stack([value(999, r) for r in range(ranks)]).amax(0))
    empty = torch.ones(0)
    rings.all_reduce(empty)
    rings.close()


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(33, 65),
        torch.nn.Tanh(),
        torch.nn.Linear(65, 129),
        torch.nn.Tanh(),
        torch.nn.Linear(129, 3),
    ]
    return torch.nn.Sequential(*layers)


def losses(trained: Any, rank: int, steps: int, accumulate: int = 1) -> list[float]:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    history = []
    for _ in range(steps):
        for part in range(accumulate):
            inputs = torch.randn(8, 33, generator=generator)
            if part + 1 < accumulate:
                with trained.no_sync():
                    trained(inputs).square().mean().backward()
            else:
                loss = trained(inputs).square().mean()
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(float(loss.detach()))
    return history


def ddp_learns_the_same(rank: int, ranks: int, _: Path) -> None:
    """With the hook and without; also with gradients that are accumulated under no_sync."""
    compare_ddp(rank, ranks, [(40, 1), (10, 3)])


def ddp_learns_the_same_for_500_steps(rank: int, ranks: int, _: Path) -> None:
    compare_ddp(rank, ranks, [(500, 1)])


def compare_ddp(rank: int, ranks: int, runs: list[tuple[int, int]]) -> None:
    rings = PermutedRings([1, ranks - 2])
    for steps, accumulate in runs:
        plain = losses(DistributedDataParallel(model()), rank, steps, accumulate)
        ours = DistributedDataParallel(model(), bucket_cap_mb=0.01)
        rings.register(ours)
        assert torch.allclose(
            torch.tensor(losses(ours, rank, steps, accumulate)), torch.tensor(plain), rtol=1e-4, atol=1e-6
        )


def fsdp_learns_the_same(rank: int, ranks: int, _: Path) -> None:
    """Uneven shards: no size is a multiple of the ranks'."""

    def sharded() -> Any:
        module = model()
        for layer in module:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        return fully_shard(module)

    plain = losses(sharded(), rank, 30)
    ours = sharded()
    PermutedRings([1, ranks - 2]).register(ours)
    assert torch.allclose(torch.tensor(losses(ours, rank, 30)), torch.tensor(plain), rtol=1e-4, atol=1e-6)


def a_script_follows_its_plan(rank: int, ranks: int, folder: Path) -> None:
    """Emulated: all layers of FSDP2, and models of DDP, take the rings of plan.json, whose groups are made once."""

    def sharded() -> Any:
        module = model()
        for layer in module:
            if isinstance(layer, torch.nn.Linear):
                fsdp.fully_shard(layer)
        return fsdp.fully_shard(module)

    plain = losses(sharded(), rank, 10)
    before = len(dist.distributed_c10d._world.pg_map)
    shard, wrap = fsdp.fully_shard, DistributedDataParallel.__init__
    counts = {"gathered": 0, "scattered": 0}
    calls = {"gathered": RingAllGather, "scattered": RingReduceScatter}

    def counted(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def count(*arguments: Any, **keywords: Any) -> None:
            counts[name] += 1
            call(*arguments, **keywords)

        return count

    originals = {name: kind.__call__ for name, kind in calls.items()}
    try:
        for name, kind in calls.items():
            setattr(kind, "__call__", counted(name, originals[name]))  # noqa: B010
        follow(str(folder / "plan.json"))
        ours = sharded()
        assert torch.allclose(torch.tensor(losses(ours, rank, 10)), torch.tensor(plain), rtol=1e-4, atol=1e-6)
        assert counts["gathered"] >= 10 * 3
        assert counts["scattered"] == 10 * 3
        trained = DistributedDataParallel(model())
        losses(trained, rank, 2)
        assert len(dist.distributed_c10d._world.pg_map) == before + 2, "one process group for each ring"
    finally:
        fsdp.fully_shard = shard
        DistributedDataParallel.__init__ = wrap
        for name, kind in calls.items():
            setattr(kind, "__call__", originals[name])  # noqa: B010


def a_subgroup_has_rings_of_its_own(rank: int, ranks: int, _: Path) -> None:
    """Rings among some ranks only, in the group's own numbers; the others do not take part."""
    members = list(range(1, ranks))
    group = dist.new_group(members)
    if rank in members:
        rings = PermutedRings([1, len(members) - 1], group=group)
        tensor = torch.full((5000,), float(rank))
        rings.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((5000,), float(sum(members))))
    dist.barrier()


def before_torch_2_12(rank: int, ranks: int, folder: Path) -> None:
    """Where ``new_group`` sorts its ranks, groups are made without it, and the bytes take the same strides."""
    new_group = dist.new_group

    def sorting(ranks: Any = None, **others: Any) -> Any:
        return new_group(ranks, **others)

    dist.new_group = sorting
    assert "sort_ranks" not in inspect.signature(groups.dist.new_group).parameters
    try:
        bytes_take_the_strides(rank, ranks, folder)
        sums_are_right(rank, ranks, folder)
    finally:
        dist.new_group = new_group


def a_dead_rank_is_an_error(rank: int, ranks: int, _: Path) -> None:
    trained = DistributedDataParallel(model())
    PermutedRings([1, ranks - 2]).register(trained)
    losses(trained, rank, 2)
    if rank == 1:
        os._exit(0)  # without a word
    try:
        losses(trained, rank, 2)
    except RuntimeError:
        os._exit(0)
    raise AssertionError("a dead rank went unnoticed")


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    raise AssertionError("no error")


def what_is_wrong_is_one_line(rank: int, ranks: int, folder: Path) -> None:
    groups_before = len(dist.distributed_c10d._world.pg_map)
    plan = folder / f"{rank}.json"
    plan.write_text("{}")
    wrong: dict[str, Callable[[], object]] = {
        "strides: must be whole numbers from 1": lambda: PermutedRings([0]),
        "strides: must be whole numbers": lambda: PermutedRings([1, ranks]),
        "strides: must be whole": lambda: PermutedRings([1.5]),
        "strides: must be given": lambda: PermutedRings(),
        "weights: must be one for each": lambda: PermutedRings([1], [0.5, 0.5]),
        "weights: must sum to 1": lambda: PermutedRings([1, ranks - 1], [0.5, 0.4]),
        "weights: must be positive": lambda: PermutedRings([1, ranks - 1], [1.5, -0.5]),
        "orders: must be permutations": lambda: PermutedRings(orders=[[0] * ranks]),
        "orders: must be at least one": lambda: PermutedRings(orders=[]),
        f"{plan}.format: must": lambda: PermutedRings.from_plan(plan),
    }
    for prefix, call in wrong.items():
        message = refusal(call)
        assert message.startswith(prefix), message
        assert "\n" not in message
    assert len(dist.distributed_c10d._world.pg_map) == groups_before, "no group was made"
    rings = PermutedRings([1])
    assert refusal(lambda: rings.register(model())).startswith("model: must be DistributedDataParallel")


LAWS = {
    check.__name__: check
    for check in list(globals().values())
    if inspect.isfunction(check) and len(inspect.signature(check).parameters) == 3
}


def run(checks: str, rank: int, ranks: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60)
    )
    for check in checks.split(","):
        LAWS[check](rank, ranks, folder)
        dist.barrier()
    dist.destroy_process_group()


def main(checks: str, ranks: int, folder: Path) -> int:
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            try:
                run(checks, rank, ranks, folder)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed = 0
    while children:
        child, status = os.wait()
        children.remove(child)
        if status and not failed:  # the others may wait for it
            failed = 1
            for sibling in children:
                os.kill(sibling, signal.SIGKILL)
    return failed


if __name__ == "__main__":
    if sys.argv[2] == "torchrun":
        dist.init_process_group("gloo")
        LAWS[sys.argv[1]](dist.get_rank(), dist.get_world_size(), Path())
        dist.destroy_process_group()
    else:
        sys.exit(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
