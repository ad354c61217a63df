"""The layers of a PyTorch module, from a forward pass on shapes: it takes no memory for weights, and no values.

A call of a module that has parameters and no children is a layer. So is an operator elsewhere that multiplies matrices,
pools or normalizes, and ``scaled_dot_product_attention``. Any other operator, such as an activation function, a bias, a
sum of two branches or a copy, belongs to the latest layer whose output it reads, and its result is that layer's output:

    x = embedding(tokens)                 layer 0
    h = projection(relu(up(norm(x))))     layers 1, 2 (with its activation), 3
    x = x + h                             layer 3, which now also reads layer 0

Element counts are those of the whole batch of the example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from topoflow.capture.predict.mailbox import Mailbox
from topoflow.capture.predict.memory import Memory
from topoflow.capture.predict.shapes import Shapes
from topoflow.capture.record.operators import EMBEDDINGS, work_of

NORMS = ("norm",)  # in names of operators
POOLS = ("pool", "upsample")  # likewise
GATHERS = ("embedding", "table", "attention")  # kinds of layers that do not read all of their inputs once
GATHERED = -1  # in place of a storage: all that such a layer reads
BAGS = "aten::_embedding_bag"
ATTENTION = functional.scaled_dot_product_attention
ATTENTION_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
UNREAD = "parameters are not read by the forward pass: they are left out"
SPARSE = 5  # position of the argument of BAGS that asks for gradients of the gathered rows alone


@dataclass
class ModuleLayer:
    """A layer of a module; sizes are elements of the whole batch."""

    name: str
    path: str  # of the module that called it
    kind: str = "other"
    parameters: int = 0
    flops: float = 0.0
    read: dict[int, int] = field(default_factory=dict)  # storage that it reads -> elements
    output: int = 0
    elementwise: int = 0  # elements moved by the operators that follow its own
    after: set[int] = field(default_factory=set)  # layers whose outputs it reads
    shape: tuple[int, ...] = ()  # (inputs, outputs) of a matrix; (heads, size of a head, positions) of attention
    key_values: int = 0
    causal: bool = False
    sparse: bool = False
    shares: int | None = None  # the layer that uses the same parameters first
    window: int = 0  # pixels of one side of the kernel of a convolution
    channels: int = 0  # outputs of a convolution


@dataclass(frozen=True)
class ModuleTrace:
    """The layers of a module in the order of its forward pass."""

    layers: tuple[ModuleLayer, ...]
    batch: int  # samples of the example
    dtype: str  # of most parameters
    assumed: Mapping[str, int]  # what is left out or was not known -> how often


def layers_of(module: nn.Module, example: Any) -> ModuleTrace:
    """Return the layers of a module that is called with ``example``: a tensor, a tuple, or a mapping of keywords.

    The first dimension of its first tensor is the batch. Raise ``ValueError`` if there is none, or if shapes depend on
    values.
    """
    shapes = Shapes(Mailbox(Path(), 0, lambda rank: rank), Memory())
    tensors = [leaf for leaf in tree_iter(example) if isinstance(leaf, torch.Tensor)]
    if not tensors or not tensors[0].dim() or not tensors[0].shape[0]:
        raise ValueError("example: must have a tensor whose first dimension is the batch, got none")
    with torch.enable_grad(), shapes:
        parameters = {name: _shape_of(tensor) for name, tensor in module.named_parameters()}
        state = parameters | {name: _shape_of(tensor) for name, tensor in module.named_buffers()}
        arguments = tree_map_only(torch.Tensor, _shape_of, example)
        calls = _Calls(module, parameters)
        with calls, calls.functions:
            if isinstance(arguments, Mapping):
                functional_call(module, state, kwargs=dict(arguments))
            else:
                functional_call(module, state, tuple(arguments) if isinstance(arguments, Sequence) else (arguments,))
    if not calls.layers:
        raise ValueError(f"module: must have layers with parameters, got {type(module).__name__}")
    assumed = shapes.assumed + Counter({UNREAD: calls.unread})
    return ModuleTrace(tuple(calls.layers), int(tensors[0].shape[0]), calls.dtype, assumed)


def _shape_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of this shape in the mode that runs: without memory for floats, with values for integers."""
    if not tensor.is_floating_point() and not tensor.is_complex():
        return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor.cpu()
    like = torch.empty(tensor.shape, dtype=tensor.dtype)
    return like.requires_grad_(tensor.requires_grad)


class _Attention(TorchFunctionMode):
    """Gives each call of attention a layer of its own, whatever kernels it runs.

    A function of PyTorch, such as that of ``nn.MultiheadAttention``, calls it past the mode: its name is replaced.
    """

    def __init__(self, calls: _Calls) -> None:
        super().__init__()
        self._calls = calls
        self._name = patch.object(functional, "scaled_dot_product_attention", self._called)

    def __enter__(self) -> _Attention:
        self._name.start()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._name.stop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (self._called if func is ATTENTION else func)(*args, **(kwargs or {}))

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        arguments = {**dict(zip(ATTENTION_ARGUMENTS, args, strict=False)), **kwargs}
        query, key, value = (arguments[name] for name in ("query", "key", "value"))
        with self._calls.attention(query, key, value, bool(arguments.get("is_causal"))):
            return ATTENTION(*args, **kwargs)


class _Calls(TorchDispatchMode):
    """Sees the operators of a forward pass, and which module calls them."""

    def __init__(self, module: nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.layers: list[ModuleLayer] = []
        self.functions = _Attention(self)
        self._paths = {submodule: path for path, submodule in module.named_modules()}
        self._stack: list[nn.Module] = []
        self._sites: list[int | None] = []  # the layer that everything belongs to, of each module that runs
        self._names = Counter[str]()
        self._parameters = {_storage(tensor): {name} for name, tensor in parameters.items()}
        self._sizes = {name: tensor.numel() for name, tensor in parameters.items()}
        self._first: dict[str, int] = {}  # parameter -> the first layer that reads it
        self._owner: dict[int, int] = {}  # storage -> the layer whose output it is
        self._kept: list[torch.Tensor] = []  # so that no storage gets the id of another
        kinds = Counter[str]()
        for tensor in parameters.values():
            kinds[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
        self.dtype = kinds.most_common(1)[0][0] if kinds else "float32"

    @property
    def unread(self) -> int:
        """Return the number of parameters that nothing has read."""
        return sum(size for name, size in self._sizes.items() if name not in self._first)

    def __enter__(self) -> _Calls:
        self._hooks = [register_module_forward_pre_hook(self._enter_module), register_module_forward_hook(self._leave)]
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        for hook in self._hooks:
            hook.remove()

    @contextmanager
    def attention(self, query: Any, key: Any, value: Any, causal: bool) -> Iterator[None]:
        """Let what runs belong to one layer of attention."""
        if self._sites and self._sites[-1] is not None and self.layers[self._sites[-1]].kind == "attention":
            yield
            return
        heads, positions, size = query.shape[-3], query.shape[-2], query.shape[-1]
        layer = self._add("attention", "attention")
        layer.shape = (heads, (size + value.shape[-1]) // 2, positions)
        layer.flops = 2.0 * prod(query.shape[:-1]) * key.shape[-2] * (size + value.shape[-1])
        layer.key_values = key.numel() + value.numel()
        layer.read = {GATHERED: query.numel() + layer.key_values}
        layer.causal = causal
        self._sites.append(len(self.layers) - 1)
        yield
        self._sites.pop()

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        self._stack.append(module)
        is_leaf = not any(module.children()) and any(True for _ in module.parameters(recurse=False))
        site = self._sites[-1] if self._sites else None
        if is_leaf and site is None:
            self._add("", "other")
            site = len(self.layers) - 1
        self._sites.append(site)

    def _leave(self, module: nn.Module, inputs: Any, result: Any) -> None:
        self._stack.pop()
        self._sites.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.namespace == "aten":
            self._see(func, args, kwargs, result)
        return result

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Add an operator to the layer that it belongs to."""
        inputs, outputs = _tensors((args, kwargs)), _tensors(result)
        self._kept += [*inputs, *outputs]
        used = {name for tensor in inputs for name in self._parameters.get(_storage(tensor), ())}
        read = {_storage(tensor): tensor.numel() for tensor in inputs if _storage(tensor) not in self._parameters}
        if used and not read:  # a view or a copy of parameters
            for tensor in outputs:
                self._parameters.setdefault(_storage(tensor), used)
            return
        if not func._schema.is_mutable and {_storage(tensor) for tensor in outputs} <= read.keys():  # a view
            return
        sources = {self._owner[storage] for storage in read if storage in self._owner}
        at = self._layer_of(func, args, kwargs, result, bool(used) and not sources)
        if at is not None:
            layer = self.layers[at]
            if layer.kind not in GATHERS:
                layer.read |= {storage: size for storage, size in read.items() if self._owner.get(storage) != at}
            self._use(at, used)
        elif sources:  # it follows the latest of these
            at = max(sources)
            layer = self.layers[at]
            layer.elementwise += sum(read.values()) + sum(tensor.numel() for tensor in outputs)
            self._use(at, used)
        else:
            return
        layer.after |= sources - {at}
        for place, tensor in enumerate(outputs):
            layer.output = layer.output if place else tensor.numel()
            self._owner[_storage(tensor)] = at

    def _layer_of(self, func: Any, args: Any, kwargs: Any, result: Any, begins: bool) -> int | None:
        """Return the layer that an operator is a part of, maybe a new one; None if it follows one.

        ``begins``: it reads parameters and no layer.
        """
        name = func._schema.name
        short = name.removeprefix("aten::").strip("_")
        work = work_of(func, args, kwargs, result)
        flops = 0.0 if work is None else work.flops
        site = self._sites[-1] if self._sites else None
        if site is None:
            if not flops and not begins and not any(word in short for word in (*POOLS, *NORMS)):
                return None
            self._add(short, "other")
            site = len(self.layers) - 1
        layer = self.layers[site]
        if layer.kind != "attention":
            layer.flops += flops
            self._classify(layer, name, short, args, flops)
        return site

    def _classify(self, layer: ModuleLayer, name: str, short: str, args: Any, flops: float) -> None:
        """Set the kind of a layer by an operator of it."""
        if name in EMBEDDINGS:
            weight, indices = args[0], args[1]
            layer.kind = "table" if name.startswith(BAGS) else "embedding"
            layer.sparse = layer.kind == "table" and len(args) > SPARSE and bool(args[SPARSE])
            layer.read = {GATHERED: indices.numel() * weight.shape[-1]}
        elif "convolution" in short:
            layer.kind, layer.window, layer.channels = "conv", int(args[1].shape[-1]), int(args[1].shape[0])
        elif flops and layer.kind not in ("conv", "embedding", "table"):
            matrices = [tensor.shape for tensor in _tensors(args) if tensor.dim() >= 2][-2:]
            layer.kind, layer.shape = "dense", (int(matrices[0][-1]), int(matrices[-1][-1]))
        elif layer.kind == "other" and any(word in short for word in NORMS):
            layer.kind = "norm"
        elif layer.kind == "other" and any(pool in short for pool in POOLS):
            layer.kind = "pool"

    def _use(self, at: int, names: set[str]) -> None:
        """Count parameters for the first layer that reads them."""
        for name in sorted(names):
            if name not in self._first:
                self._first[name] = at
                self.layers[at].parameters += self._sizes[name]
            elif self._first[name] != at:
                self.layers[at].shares = self._first[name]

    def _add(self, suffix: str, kind: str) -> ModuleLayer:
        """Append a layer of the module that runs."""
        path = self._paths.get(self._stack[-1], "") if self._stack else ""
        name = ".".join(part for part in (path, suffix) if part) or "module"
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}#{self._names[name]}"
        self.layers.append(ModuleLayer(name, path, kind))
        return self.layers[-1]


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_iter(value) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
