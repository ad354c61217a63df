"""The keys of ``topoflow.compare`` and ``topoflow.search``, with their types: those of ``configs/compare.yaml``.

A list sweeps a key. What a key means, and its default, stands in the file: ``topoflow config compare`` prints it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import Any, TypedDict, TypeVar, Union

from topoflow.engine.base import Fidelity
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.prices import Prices
from topoflow.strategy.base import Strategy, StrategyRule
from topoflow.workload.base import Workload, WorkloadModel
from topoflow.workload.gpu import Gpu

Value = TypeVar("Value")
Function = TypeVar("Function", bound=Callable[..., Any])
OneOrMore = Union[Value, Sequence[Value]]  # noqa: UP007  a list sweeps the key
Settings = Mapping[str, Any]  # of a file: keys and values


class JobKeys(TypedDict, total=False):
    """Keys of a job on a network."""

    workload: OneOrMore[str | Workload | WorkloadModel | Settings]
    strategy: OneOrMore[str | Strategy | StrategyRule | Settings]
    fabric: OneOrMore[str | Fabric | FabricDesign | Settings]
    gpu: OneOrMore[str | Gpu | Settings]
    prices: OneOrMore[str | Prices | Settings]
    servers: OneOrMore[int | None]
    gpus: OneOrMore[int | None]
    global_batch: OneOrMore[int | None]
    micro_batch: OneOrMore[int | None]
    efficiency: OneOrMore[str | PathLike[str]]
    bandwidth_gbps: OneOrMore[float]
    degree: OneOrMore[int]
    latency_us: OneOrMore[float]
    all_reduce: OneOrMore[str]
    routing: OneOrMore[str]
    strides: Sequence[int] | Sequence[Sequence[int]] | None
    seed: OneOrMore[int]
    fidelity: OneOrMore[str | Fidelity]
    bound: Settings
    fitting: Settings
    fluid: Settings
    packet: Settings
    slotted: Settings
    device: str
    threads: int | None
    executor: str | Executor | Settings | None
    out: str | PathLike[str] | None
    wandb: str | Settings | None
    tensorboard: str | Settings | None
    mlflow: str | Settings | None


class CompareKeys(JobKeys, total=False):
    """Keys of ``topoflow.compare``."""

    node: OneOrMore[str | None]
    gpus_per_node: OneOrMore[int | None]
    fold: bool | str | None
    nccl: Settings
    reliability: Settings
    rings: OneOrMore[str]
    placement: str | PathLike[str] | None
    request: str | int | None
    fail: Settings


class SearchKeys(JobKeys, total=False):
    """Keys of ``topoflow.search``."""

    search: Settings
    study: str | Settings | None
    resume: bool


def shows_keys(keys: type) -> Callable[[Function], Function]:
    """Let ``help`` show the keys of a function with ``**keys`` as arguments with their types."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
        ]
        for name, hint in keys.__annotations__.items():  # a ForwardRef each, of the class and those that it extends
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, annotation=hint.__forward_arg__))
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate
