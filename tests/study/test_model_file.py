"""``workload=FILE.json``: the config.json of Hugging Face says the same model as the preset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate

from topoflow.cli import main
from topoflow.study.configure.composition import composed, initialized
from topoflow.study.configure.model_file import with_model_file

LLAMA3 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
}
QWEN3 = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "use_sliding_window": False,
    "sliding_window": None,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 6144,
    "intermediate_size": 16384,
    "num_hidden_layers": 56,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32768,
    "max_position_embeddings": 65536,
    "sliding_window": None,
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}
PRESETS = {
    "llama3_8b": LLAMA3,
    "deepseek_v3": DEEPSEEK,
    "qwen3_30b_a3b": QWEN3,
    "mixtral_8x22b": MIXTRAL,
    "transformer": GPT2,
}


def written(folder: Path, config: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def layers(workload: str, *more: str) -> Any:
    with initialized():
        config = composed("compare", with_model_file([f"workload={workload}", *more]))
    return instantiate(config.workload).build().layers


@pytest.mark.parametrize("preset", PRESETS)
def test_a_file_of_hugging_face_has_the_layers_of_the_preset(preset: str, tmp_path: Path) -> None:
    path = written(tmp_path, PRESETS[preset])
    sequence = "workload.sequence=4096" if preset != "transformer" else "workload.sequence=1024"
    assert layers(str(path), sequence) == layers(preset, sequence)


def test_keys_of_the_command_line_replace_those_of_the_file(tmp_path: Path) -> None:
    arguments = with_model_file([f"workload={written(tmp_path, LLAMA3)}", "workload.layers=2"])
    assert [key for key in arguments if key.startswith("workload.layers")] == ["workload.layers=2"]
    assert "workload=transformer" in arguments


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "mamba"}, "model_type"),
        ([], "model_type"),
        (LLAMA3 | {"hidden_size": "4096"}, "hidden_size"),
        (LLAMA3 | {"num_hidden_layers": 0}, "num_hidden_layers"),
        (LLAMA3 | {"sliding_window": 1024}, "sliding_window"),
        (QWEN3 | {"decoder_sparse_step": 2}, "decoder_sparse_step"),
        ({key: value for key, value in DEEPSEEK.items() if key != "kv_lora_rank"}, "kv_lora_rank"),
    ],
)
def test_what_cannot_be_said_is_one_line(
    config: object, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, config)
    assert main(["compare", f"workload={path}", "servers=2"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith(f"topoflow compare: {path}: {field}: must be")


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "workload=nowhere.json", "servers=2"]) == 2
    assert "workload: must be a file that can be read, got nowhere.json" in capsys.readouterr().err
