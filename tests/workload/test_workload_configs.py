"""What every model with layers must obey; a new file in ``configs/workload`` is tested without an edit here."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

from tests.conftest import configuration
from topoflow.study.configure.keys import check
from topoflow.study.configure.own_files import composed_of_files
from topoflow.study.configure.points import PointComposer
from topoflow.study.configure.sources import OWN
from topoflow.workload.base import Layer, Workload

CONFIGS = Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs"
RECORDED = ("captured", "taskgraph")
MOTIFS = ("all_to_all", "flows", "motif")
LAYERLESS = {**dict.fromkeys(RECORDED, "as_captured"), **dict.fromkeys(MOTIFS, "ranks")}  # and their strategy
MODELS = sorted(path.stem for path in (CONFIGS / "workload").glob("*.yaml") if path.stem not in LAYERLESS)
GROUPS = ("workload", "strategy", "fabric", "gpu", "prices")
GPUS = sorted(path.stem for path in (CONFIGS / "gpu").glob("*.yaml"))


def config(model: str, gpu: str = "a100") -> Any:
    return configuration(f"workload={model}", f"gpu={gpu}")


def build(model: str, gpu: str = "a100", **sizes: Any) -> Workload:
    workload: Workload = instantiate(config(model, gpu)["workload"], **sizes).build()
    return workload


PARAMETERS = {  # billions, as their publications say
    "llama2_7b": 6.74,
    "llama2_13b": 13.0,
    "llama2_70b": 69.0,
    "llama3_8b": 8.0,
    "llama3_70b": 70.6,
    "llama3_405b": 405.9,
    "gpt3_175b": 174.6,
    "megatron_22b": 22.0,
    "megatron_530b": 529.6,
    "megatron_1t": 1008.0,
    "moe": 46.7,
    "mixtral_8x22b": 140.6,
    "deepseek_moe_16b": 16.4,
    "deepseek_v2": 236.0,
    "deepseek_v3": 671.0,
    "qwen3_30b_a3b": 30.5,
    "qwen3_235b_a22b": 235.0,
    "grok1": 314.0,
    "nemotron4_340b": 341.0,
}


def test_the_six_models_of_topoopt_and_a_transformer_are_there() -> None:
    assert {"dlrm", "candle", "bert", "ncf", "resnet50", "vgg16", "transformer"} <= set(MODELS)


@pytest.mark.parametrize("model", PARAMETERS)
def test_a_model_has_the_parameters_that_its_publication_says(model: str) -> None:
    assert build(model).parameters / 1e9 == pytest.approx(PARAMETERS[model], rel=0.006)


@pytest.mark.parametrize("model", [model for model in MODELS if model not in PARAMETERS or model == "moe"])
def test_a_config_says_what_the_class_says(model: str) -> None:
    written = config(model)["workload"]
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


@pytest.mark.parametrize(
    ("model", "gpu"),
    [*((model, "a100") for model in MODELS), *((model, gpu) for model in ("bert", "moe") for gpu in GPUS)],
)
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


@pytest.mark.parametrize("model", [*MODELS, *LAYERLESS])
def test_each_workload_names_a_strategy_that_suits_it_and_the_command_line_another(model: str) -> None:
    """``hybrid`` places embedding tables: it is of models that have such tables, and of no other."""
    verb = "search" if model in ("dlrm", "transformer") else "compare"
    _, choices = composed_of_files(verb, [f"workload={model}"])
    name = next(value for key, value in choices.items() if key.startswith("strategy"))
    other, _ = composed_of_files(verb, [f"workload={model}", "strategy=fsdp"])
    assert other["strategy"]["_target_"] == "topoflow.strategy.fsdp.Fsdp"
    if model in LAYERLESS:
        assert name == LAYERLESS[model]
        return
    assert (name == "hybrid") == any(layer.sparse for layer in build(model).layers)


COMMENTED = sorted(path.relative_to(CONFIGS) for path in CONFIGS.glob("*/*.yaml") if path.parent.name != "experiment")
FIELDS = {key for path in [*CONFIGS.glob("*/*.yaml"), CONFIGS / "compare.yaml"] for key in OmegaConf.load(path)}


@pytest.mark.parametrize("path", COMMENTED, ids=str)
def test_keys_in_comments_are_keys_that_work(path: Path) -> None:
    """What a comment sets can be typed: ``workload.layers=6``, not ``layers=6``."""
    text = "\n".join(line.partition("#")[2] for line in (CONFIGS / path).read_text().splitlines())
    typed = [(key, value) for key, value in re.findall(r"(?<![\w.`-])([\w.]+)=([\w./]+)", text)]
    keys = [(key, value) for key, value in typed if key.rpartition(".")[2] in FIELDS]
    groups = {key: value for key, value in keys if key.partition(".")[0] == key and key in GROUPS}
    points = PointComposer("compare", check, OWN)
    for key, value in keys:
        chosen = {path.parts[0]: path.stem, **groups} | {key: value}
        composition, changes = points.composition([f"{name}={choice}" for name, choice in chosen.items()])
        composition.tree.with_interpolations(changes)
