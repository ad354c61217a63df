"""A world in which one process is one rank: every process group is PyTorch's fake one, every GPU the processor."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d
from torch.distributed.fsdp._fully_shard import _fsdp_param
from torch.overrides import TorchFunctionMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader

CPU = "cpu"
WORKERS = ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")
QUIET = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed", "manual_seed_all")


@contextmanager
def one_rank(rank: int, world_size: int, ranks_per_node: int) -> Iterator[None]:
    """Let a script believe that it is ``rank`` of a job that ``torchrun`` started on nodes with GPUs."""
    local = min(ranks_per_node, world_size)
    environment = {
        "RANK": rank,
        "WORLD_SIZE": world_size,
        "LOCAL_RANK": rank % local,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": rank // local,
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": 29500,
        "TORCHDYNAMO_DISABLE": 1,
    }
    os.environ.update({name: str(value) for name, value in environment.items()})
    import_module("torch._dynamo").config.disable = True  # what is compiled runs as it is written
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    with ExitStack() as stack:
        stack.enter_context(OnProcessor())

        def replaced(owner: Any, name: str, function: Callable[..., Any]) -> None:
            stack.enter_context(patch.object(owner, name, function))

        make_group = distributed_c10d._new_process_group_helper

        def make_fake_group(size: int, place: int, ranks: Any, backend: Any, *args: Any, **kwargs: Any) -> Any:
            return make_group(size, place, ranks, "fake", *args, **{**kwargs, "backend_options": None})

        for owner in (dist, distributed_c10d):
            replaced(owner, "init_process_group", lambda *args, **kwargs: None)
        replaced(distributed_c10d, "_new_process_group_helper", make_fake_group)
        replaced(_fsdp_param, "_chunk_with_empty", Chunks)
        replaced(torch.cuda, "_lazy_init", lambda: None)
        for name in QUIET:
            replaced(torch.cuda, name, lambda *args, **kwargs: None)
        make_mesh = device_mesh.init_device_mesh
        for owner in (dist, device_mesh):
            if hasattr(owner, "init_device_mesh"):
                replaced(owner, "init_device_mesh", lambda device, *args, **kwargs: make_mesh(CPU, *args, **kwargs))
        _on_cpu(replaced, torch.autocast, "__init__", "device_type")
        _without(replaced, torch.nn.parallel.DistributedDataParallel, "device_ids", "output_device")
        _without(replaced, DataLoader, *WORKERS)
        replaced(torch, "save", lambda *args, **kwargs: None)
        yield


def _on_cpu(replaced: Callable[..., None], owner: Any, name: str, argument: str) -> None:
    """Let a constructor take the processor as its first argument."""
    construct = getattr(owner, name)

    def construct_on_cpu(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop(argument, None)
        construct(self, CPU, *args[1:], **kwargs)

    replaced(owner, name, construct_on_cpu)


def _without(replaced: Callable[..., None], owner: Any, *arguments: str) -> None:
    """Let a constructor forget arguments."""
    construct = owner.__init__
    signature = inspect.signature(construct)

    def construct_without(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        for name in arguments:
            bound.arguments.pop(name, None)
        construct(*bound.args, **bound.kwargs)

    replaced(owner, "__init__", construct_without)


class OnProcessor(TorchFunctionMode):
    """Puts tensors on the processor where a script asks for a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda or (func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int):
            func, args, kwargs = torch.Tensor.to, (args[0], CPU), {}
        result = func(*map(_processor, args), **{name: _processor(value) for name, value in (kwargs or {}).items()})
        if func is torch.Tensor.to and result is args[0] and isinstance(result, torch.nn.Parameter):
            return result.detach()  # a module swaps a parameter with what it became, not with itself
        return result


def _processor(value: Any) -> Any:
    """Return the processor for a GPU, and anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device(CPU) if value.type == "cuda" else value
    return CPU if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) else value


class Chunks:
    """The chunks of a tensor for the ranks of a group, each made when it is asked for: FSDP needs two of 1,024."""

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self._tensor = tensor
        self._dim = dim
        self._size = -(-tensor.size(dim) // num_chunks)

    def __getitem__(self, index: int) -> torch.Tensor:
        start, end = index * self._size, self._tensor.size(self._dim)
        if start >= end and index > 0:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, start, min(self._size, end - start))
