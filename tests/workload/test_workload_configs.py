"""What every model with layers must obey; a new file in ``configs/workload`` is tested without an edit here."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

from topoflow.units import register_resolvers
from topoflow.workload.base import Layer, Workload

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
RECORDED = ("captured", "taskgraph")
MODELS = sorted(path.stem for path in (CONFIGS / "workload").glob("*.yaml") if path.stem not in RECORDED)
GPUS = sorted(path.stem for path in (CONFIGS / "gpu").glob("*.yaml"))


def config(model: str, gpu: str = "a100") -> Any:
    register_resolvers()
    files = {"workload": CONFIGS / "workload" / f"{model}.yaml", "gpu": CONFIGS / "gpu" / f"{gpu}.yaml"}
    return OmegaConf.create({group: OmegaConf.load(path) for group, path in files.items()})


def build(model: str, gpu: str = "a100", **sizes: Any) -> Workload:
    workload: Workload = instantiate(config(model, gpu).workload, **sizes).build()
    return workload


def test_the_six_models_of_topoopt_and_a_transformer_are_there() -> None:
    assert {"dlrm", "candle", "bert", "ncf", "resnet50", "vgg16", "transformer"} <= set(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_a_config_says_what_the_class_says(model: str) -> None:
    written = config(model).workload
    target = get_class(written["_target_"])
    for field in fields(target):
        if field.default is not MISSING:
            assert written[field.name] == field.default, f"{model}.{field.name}"


@pytest.mark.parametrize("model", MODELS)
def test_every_layer_but_the_last_is_read(model: str) -> None:
    layers = build(model).layers
    read = {earlier for layer in layers for earlier in layer.after}
    assert [layer.name for layer in layers if layer.name not in read] == [layers[-1].name]


@pytest.mark.parametrize("model", MODELS)
def test_a_layer_moves_at_least_what_it_hands_on(model: str) -> None:
    for layer in build(model).layers:
        assert layer.memory_elements >= layer.output_elements > 0, layer.name


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_runs_on_every_gpu(model: str, gpu: str) -> None:
    workload = build(model, gpu)
    assert workload.dtype in workload.gpu.flops
    for layer in workload.layers:
        assert workload.gpu.seconds(layer.forward_flops, layer.memory_elements, workload.dtype) > 0, layer.name


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_and_a_server_are_what_was_asked(model: str) -> None:
    workload = build(model, batch_per_gpu=3, gpus_per_server=2)
    assert workload.batch_per_server == 6
    assert workload.parameters == build(model).parameters


def test_a_sparse_layer_reads_at_least_what_it_puts_out() -> None:
    with pytest.raises(ValueError, match=r"^layer E\.memory_elements: must be at least the 9 output_elements"):
        Layer("E", "table", 10, 1.0, 9, 8, sparse=True)
