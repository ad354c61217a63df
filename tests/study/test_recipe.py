"""Recipes of Megatron-LM and torchtitan as keys, and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hydra.utils import instantiate

import topoflow
from topoflow.strategy.parallel import Parallel
from topoflow.study.configure.composition import composed, initialized
from topoflow.study.configure.recipe import megatron_options, recipe_keys, torchtitan_options, with_recipe
from topoflow.workload.gpu import Gpu
from topoflow.workload.transformer import Transformer

GPT = """#!/bin/bash
# --num-layers 1
MODEL=(
    --num-layers 4
    --hidden-size 512
    --num-attention-heads 8
    --seq-length 128
    --vocab-size 1024
)
torchrun ${DISTRIBUTED[@]} pretrain_gpt.py ${MODEL[@]} --micro-batch-size 2 \\
    --global-batch-size=16 --bf16 --tensor-model-parallel-size 2 --use-distributed-optimizer --lr 1e-4
"""
LLAMA = """--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention
--num-query-groups 8 --seq-length 8192 --vocab-size 128256 --swiglu --disable-bias-linear --normalization RMSNorm
--untie-embeddings-and-output-weights --position-embedding-type rope --bf16 --grad-reduce-in-bf16 --fp8-format hybrid
--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 --recompute-granularity full
--recompute-method uniform --recompute-num-layers 1 --global-batch-size 128
"""
DEEPSEEK = """--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --ffn-hidden-size 18432
--moe-ffn-hidden-size 2048 --num-experts 256 --moe-router-topk 8 --moe-shared-expert-intermediate-size 2048
--moe-layer-freq "([0]*3+[1]*58)*1" --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128
--qk-pos-emb-head-dim 64 --v-head-dim 128 --seq-length 4096 --vocab-size 129280 --swiglu --disable-bias-linear
--untie-embeddings-and-output-weights --position-embedding-type rope --bf16 --use-distributed-optimizer
--global-batch-size 256 --expert-model-parallel-size 8 --recompute-granularity full --recompute-method block
--moe-token-dispatcher-type flex --moe-enable-deepep --moe-router-num-groups 8 --moe-router-group-topk 4
--recompute-num-layers 0
"""
TITAN = """
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 16
seq_len = 8192
compile = true
[parallelism]
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
"""


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_script_of_megatron_is_read_as_keys(tmp_path: Path) -> None:
    keys = recipe_keys(write(tmp_path, "gpt.sh", GPT))
    expected = {
        "workload": "transformer",
        "workload.layers": "4",
        "workload.feed_forward": "2048",
        "workload.key_value_heads": "8",
        "workload.learned_positions": "true",
        "workload.tied": "true",
        "workload.dtype": "bfloat16",
        "strategy": "parallel",
        "strategy.tensor": "2",
        "strategy.zero": "1",
        "strategy.reduce_dtype": "float32",
        "strategy.recompute": "none",
        "micro_batch": "2",
        "global_batch": "16",
    }
    assert expected.items() <= keys.items()


def test_a_llama_of_megatron_is_read_as_keys(tmp_path: Path) -> None:
    keys = recipe_keys(write(tmp_path, "llama.txt", LLAMA))
    expected = {
        "workload.feed_forward": "14336",
        "workload.key_value_heads": "8",
        "workload.gated": "true",
        "workload.tied": "false",
        "workload.bias": "false",
        "workload.learned_positions": "false",
        "++workload.precision.dense": "float8_e4m3fn",
        "strategy.pipeline": "4",
        "strategy.virtual": "4",
        "strategy.recompute": "full",
        "micro_batch": "1",
    }
    assert expected.items() <= keys.items()
    assert "strategy.reduce_dtype" not in keys


def test_a_mixture_with_latent_attention_has_the_layers_of_the_preset(tmp_path: Path) -> None:
    keys = recipe_keys(write(tmp_path, "deepseek.sh", DEEPSEEK))
    assert keys["strategy.recompute"] == "none"
    with initialized():
        models = [
            composed("compare", [f"{key}={value}" for key, value in overrides.items()]).workload
            for overrides in (keys, {"workload": "deepseek_v3"})
        ]
    layers = [instantiate(model, gpus_per_server=8).build().layers for model in models]
    assert layers[0] == layers[1]


def test_multi_token_prediction_is_a_key_and_another_dispatcher_sends_a_copy_for_each_expert(tmp_path: Path) -> None:
    keys = recipe_keys(write(tmp_path, "a.sh", DEEPSEEK.replace("flex", "alltoall") + " --mtp-num-layers 1"))
    assert keys["workload.mtp_layers"] == "1"
    assert "workload.node_limit" not in keys


def test_a_configuration_of_torchtitan_is_read_as_keys(tmp_path: Path) -> None:
    """256 GPUs are 32 data ranks of 16 samples each."""
    keys = recipe_keys(write(tmp_path, "70b.toml", TITAN), {"servers": "32"})
    expected = {
        "workload": "llama3_70b",
        "workload.sequence": "8192",
        "workload.eager_loss": "false",
        "strategy.tensor": "8",
        "strategy.zero": "3",
        "strategy.reduce_dtype": "float32",
        "strategy.recompute": "full",
        "micro_batch": "16",
        "global_batch": "512",
    }
    assert expected.items() <= keys.items()


def test_gpus_count_as_their_servers_do(tmp_path: Path) -> None:
    file = write(tmp_path, "70b.toml", TITAN)
    assert recipe_keys(file, {"gpus": "256"}) == recipe_keys(file, {"servers": "32"})
    (result,) = topoflow.compare(recipe=str(file), gpus=256, node="hgx_h100", fabric="ideal_switch")
    assert (result.row.gpus, result.settings.config["global_batch"]) == (256, 512)


def test_a_given_key_replaces_that_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "gpt.sh", GPT)
    arguments = with_recipe(["strategy.tensor=4", f"recipe={file}", "servers=2"])
    assert [argument for argument in arguments if argument.startswith("strategy.tensor=")] == ["strategy.tensor=4"]
    assert arguments[-2:] == ["strategy.tensor=4", "servers=2"]
    assert with_recipe(["servers=2"]) == ["servers=2"]


def test_a_recipe_is_simulated_as_its_keys_are(tmp_path: Path) -> None:
    file = write(tmp_path, "gpt.sh", GPT)
    settings = {"servers": 2, "fabric": "ideal_switch"}
    by_file = topoflow.compare(recipe=file, **settings)
    by_keys = topoflow.compare(*(f"{key}={value}" for key, value in recipe_keys(file).items()), **settings)
    assert [row.iteration_time for row in by_file] == [row.iteration_time for row in by_keys]


@pytest.mark.parametrize(
    "rule",
    [
        Parallel(tensor=4, pipeline=2, zero=1, micro_batch=1, reduce_dtype="float32"),
        Parallel(pipeline=2, virtual=2, micro_batch=2, recompute="full"),
        Parallel(context=2, zero=3, replicate=2, micro_batch=1, recompute="selective"),
        Parallel(tensor=8, micro_batch=1, sequence_parallel=False),
        Parallel(tensor=8, micro_batch=1, async_tensor=True),
    ],
)
def test_a_grid_that_is_written_is_read_again(tmp_path: Path, rule: Parallel) -> None:
    gpu = Gpu("gpu", {"bfloat16": 1e12}, 1e12, 1e11, 1e12)
    model = Transformer(gpu, layers=4, hidden=512, heads=8, key_value_heads=8, sequence=128, gpus_per_server=8)
    workload = model.build().with_global_batch(64, 4)
    grid = rule.place(workload, 4)
    sizes = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 128 --vocab-size 1024\n"
    keys = recipe_keys(write(tmp_path, "found.txt", sizes + str(megatron_options(workload, grid))))
    names = ("tensor", "pipeline", "context", "expert", "virtual", "zero", "replicate", "recompute", "reduce_dtype")
    read = {name: keys.get(f"strategy.{name}", str(getattr(Parallel(), name))) for name in names}
    assert read == {name: str(getattr(rule, name)) for name in names}
    for name in ("sequence_parallel", "async_tensor", "async_expert"):
        assert keys[f"strategy.{name}"] == str(getattr(rule, name)).lower()
    assert (keys["micro_batch"], keys["global_batch"]) == (str(rule.micro_batch), "64")


@pytest.mark.parametrize(
    "rule",
    [
        Parallel(tensor=4, pipeline=2, zero=1, micro_batch=1, reduce_dtype="float32"),
        Parallel(pipeline=2, virtual=2, zero=1, micro_batch=2, recompute="full", schedule="zb_v"),
        Parallel(context=2, zero=3, replicate=2, micro_batch=1, recompute="selective_op"),
        Parallel(tensor=4, zero=3, micro_batch=1, async_tensor=True),
    ],
)
def test_a_grid_that_is_written_for_torchtitan_is_read_again(tmp_path: Path, rule: Parallel) -> None:
    gpu = Gpu("gpu", {"bfloat16": 1e12}, 1e12, 1e11, 1e12)
    model = Transformer(gpu, layers=4, hidden=512, heads=8, key_value_heads=8, sequence=128, gpus_per_server=8)
    workload = model.build().with_global_batch(64, 4)
    grid = rule.place(workload, 4)
    text = '[model]\nflavor = "8B"\n' + str(torchtitan_options(workload, grid))
    keys = recipe_keys(write(tmp_path, "found.toml", text))
    names = ("tensor", "pipeline", "context", "virtual", "zero", "replicate", "recompute")
    read = {name: keys.get(f"strategy.{name}", str(getattr(Parallel(), name))) for name in names}
    assert read == {name: str(getattr(rule, name)) for name in names}
    assert (keys["micro_batch"], keys["global_batch"]) == (str(rule.micro_batch), "64")
    assert keys.get("strategy.schedule", "one_f_one_b") == (rule.schedule or "one_f_one_b")
    assert keys["strategy.reduce_dtype"] == (rule.reduce_dtype or "bfloat16")
    assert keys["strategy.async_tensor"] == str(rule.async_tensor).lower()


def test_a_grid_that_a_program_cannot_train_is_not_written(tmp_path: Path) -> None:
    gpu = Gpu("gpu", {"bfloat16": 1e12}, 1e12, 1e11, 1e12)
    model = Transformer(gpu, layers=4, hidden=512, heads=8, key_value_heads=8, sequence=128, gpus_per_server=8)
    workload = model.build().with_global_batch(64, 4)
    zero_bubble = Parallel(pipeline=2, zero=1, micro_batch=2, schedule="zb_v").place(workload, 4)
    assert megatron_options(workload, zero_bubble) is None
    assert torchtitan_options(workload, Parallel(zero=0, micro_batch=1).place(workload, 4)) is None
    repeating = Parallel(tensor=2, zero=3, micro_batch=1)
    assert torchtitan_options(workload, repeating.place(workload, 4)) is not None
    assert torchtitan_options(workload, replace(repeating, sequence_parallel=False).place(workload, 4)) is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.sh", "python train.py", "must be options of Megatron-LM, as --num-layers 32, got none"),
        (
            "a.sh",
            GPT.replace("--num-layers 4", "--num-layers ${N}"),
            "--num-layers: must be a whole number, got '${N}'",
        ),
        (
            "a.sh",
            GPT.replace("--vocab-size 1024", ""),
            "--vocab-size: must be given, or workload.vocabulary=, got neither",
        ),
        (
            "a.sh",
            GPT + " --tp-comm-overlap",
            "--tp-comm-overlap: must come with --sequence-parallel, got none",
        ),
        (
            "a.sh",
            GPT + " --disable-tp-comm-overlap-ag",
            "--disable-tp-comm-overlap-ag: must be left out, as topoflow has no key for it, got it",
        ),
        (
            "a.sh",
            GPT + " --multi-latent-attention",
            "--multi-latent-attention: must come with --num-experts, got none",
        ),
        ("a.sh", GPT + " --mtp-num-layers 1", "--mtp-num-layers: must come with --num-experts, got none"),
        (
            "a.sh",
            DEEPSEEK.replace("--kv-lora-rank 512", ""),
            "--kv-lora-rank: must be given with --multi-latent-attention, got none",
        ),
        (
            "a.sh",
            DEEPSEEK.replace("([0]*3+[1]*58)*1", "([0,1]*30)"),
            "--moe-layer-freq: must be 1 or as ([0]*3+[1]*58), layers without experts first, got",
        ),
        (
            "a.sh",
            DEEPSEEK.replace("-intermediate-size 2048", "-intermediate-size 3000"),
            "--moe-shared-expert-intermediate-size: must be a multiple of the 2048 of an expert, got 3000",
        ),
        ("a.sh", "", "must be options of Megatron-LM, as --num-layers 32, got none"),
        ("a.sh", GPT + " 'open", "must be a command line, got No closing quotation"),
        (
            "a.sh",
            LLAMA.replace("uniform", "block"),
            "--recompute-method: must be uniform, of 1 layer each, got block of",
        ),
        ("a.toml", "[model", "must be TOML, got "),
        ("a.toml", TITAN.replace("70B", "3B"), "model.flavor: must be 8B, 70B, 405B of llama3, got llama3 3B"),
        ("a.toml", TITAN, "training.global_batch_size: must be in the file, or gpus= or servers= one number"),
        (
            "a.toml",
            TITAN.replace('"full"', '"selective"'),
            "activation_checkpoint.selective_ac_option: must be op, got 2",
        ),
    ],
)
def test_what_cannot_be_said_is_one_line_with_the_file_and_the_option(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    file = write(tmp_path, name, text)
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the beginning of the message is compared
        recipe_keys(file)
    assert str(error.value).startswith(f"{file}: {message}")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^recipe: must be a file that can be read, got .*none\.sh"):
        recipe_keys(tmp_path / "none.sh")


def test_a_search_writes_the_degrees_that_it_found(tmp_path: Path) -> None:
    file = write(tmp_path, "gpt.sh", GPT)
    result = topoflow.search(recipe=file, servers=2, fabric="fat_tree", out=tmp_path / "out", gpu="h100")
    keys = recipe_keys(write(tmp_path, "both.sh", GPT + (tmp_path / "out" / "megatron.txt").read_text()))
    grid = result.plan.strategy["grid"]
    assert (int(keys["strategy.tensor"]), int(keys["strategy.zero"])) == (grid["tensor"], grid["zero"])
    assert keys["global_batch"] == "16"
