"""Models of Hugging Face as keys of the command line: ``workload=FILE.json``, a ``config.json``.

    {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, ...}
    workload=transformer workload.hidden=4096 workload.layers=32 workload.heads=32 ...

The file does not say how long sequences are in training: they are ``SEQUENCE``, or as long as the model's positions if
these are fewer, and a GPU has one, unless keys say otherwise. Biases of Qwen2's queries, keys and values are left out.

Source: the configuration classes of transformers 4.57, src/transformers/models/*/configuration_*.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topoflow.fields import parse_json, shorten
from topoflow.files import read_bytes

KEYS = ("workload", "model")
SEQUENCE = 4096
GATED = ("llama", "mistral", "qwen2", "qwen3")  # SwiGLU, rotary positions, RMS norms
MIXTURES = ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3", "kimi_k2")
TYPES = ("gpt2", *GATED, "nemotron", *MIXTURES)


def with_model_file(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the keys of ``workload=FILE.json`` in place of it; keys that are given stay.

    Raise ``ValueError`` in one line with the file and the field that cannot be said.
    """
    given_keys = {argument.lstrip("+").partition("=")[0] for argument in arguments}
    result: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        file = value.strip("'\"")
        if key in KEYS and file.endswith(".json"):
            keys = model_keys(Path(file))
            result += [f"{name}={text}" for name, text in keys.items() if name not in given_keys - set(KEYS)]
        else:
            result.append(argument)
    return result


def model_keys(file: Path) -> dict[str, str]:
    """Return the keys of a ``config.json``. Raise ``ValueError`` for an architecture that cannot be said."""
    try:
        config = parse_json(str(file), read_bytes(file))
    except OSError as error:
        raise ValueError(f"workload: must be a file that can be read, got {file} ({error.strerror})") from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in TYPES:
        raise ValueError(f"{file}: model_type: must be one of {', '.join(TYPES)}, got {shorten(kind)}")
    read = _Config(file, config)
    sizes = _gpt2(read) if kind == "gpt2" else _mixture(read, kind) if kind in MIXTURES else _dense(read, kind)
    name = "moe" if kind in MIXTURES else "transformer"
    sizes["batch_per_gpu"] = 1  # as in our presets
    return {"workload": name} | {f"workload.{key}": str(value).lower() for key, value in sizes.items()}


class _Config:
    """The fields of a ``config.json``."""

    def __init__(self, file: Path, fields: Mapping[str, Any]) -> None:
        self.file, self.fields = file, fields

    def number(self, name: str, default: int | None = None, least: int = 1) -> int:
        value = self.fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{self.file}: {name}: must be a whole number of at least {least}, got {shorten(value)}")
        return value

    def must_be(self, name: str, *values: object) -> None:
        """Raise ``ValueError`` where a field has a value that no key can say; ``values`` begin with the default."""
        value = self.fields.get(name, values[0])
        if value not in values:
            raise ValueError(f"{self.file}: {name}: must be {values[0]!r}, got {shorten(value)}")

    @property
    def tied(self) -> bool:
        return bool(self.fields.get("tie_word_embeddings", False))

    def sequence(self, positions: str) -> int:
        return min(SEQUENCE, self.number(positions, SEQUENCE))


def _gpt2(config: _Config) -> dict[str, int | bool]:
    hidden, heads = config.number("n_embd"), config.number("n_head")
    return {
        "layers": config.number("n_layer"),
        "hidden": hidden,
        "heads": heads,
        "key_value_heads": heads,
        "feed_forward": config.number("n_inner", 4 * hidden),
        "vocabulary": config.number("vocab_size"),
        "sequence": config.sequence("n_positions"),
    }


def _common(config: _Config) -> dict[str, int | bool]:
    window = config.fields.get("sliding_window")
    sequence = config.sequence("max_position_embeddings")
    if config.fields.get("use_sliding_window", window is not None) and config.number("sliding_window", 0, 0) < sequence:
        raise ValueError(f"{config.file}: sliding_window: must be null or at least {sequence}, got {shorten(window)}")
    heads = config.number("num_attention_heads")
    return {
        "layers": config.number("num_hidden_layers"),
        "hidden": config.number("hidden_size"),
        "heads": heads,
        "key_value_heads": config.number("num_key_value_heads", heads),
        "head_size": config.number("head_dim", 0, 0),
        "vocabulary": config.number("vocab_size"),
        "sequence": sequence,
        "tied": config.tied,
    }


def _dense(config: _Config, kind: str) -> dict[str, int | bool]:
    return _common(config) | {
        "feed_forward": config.number("intermediate_size"),
        "learned_positions": False,
        "gated": kind in GATED,
        "bias": False,
    }


def _mixture(config: _Config, kind: str) -> dict[str, int | bool]:
    sizes = _common(config) | {"top_k": config.number("num_experts_per_tok")}
    if kind == "mixtral":
        return sizes | {
            "experts": config.number("num_local_experts"),
            "feed_forward": config.number("intermediate_size"),
        }
    sizes["feed_forward"] = config.number("moe_intermediate_size")
    if kind == "qwen3_moe":
        config.must_be("decoder_sparse_step", 1)
        config.must_be("mlp_only_layers", [], None)
        return sizes | {"experts": config.number("num_experts")}
    config.must_be("moe_layer_freq", 1)
    rotary = config.number("qk_rope_head_dim")
    groups = config.number("n_group", 1)  # of experts; one on each node (DeepSeek-V3), or GPU (DeepSeek-V2)
    return sizes | {
        "experts": config.number("n_routed_experts"),
        "shared_experts": config.number("n_shared_experts", 0, 0),
        "dense_layers": config.number("first_k_dense_replace", 0, 0),
        "dense_feed_forward": config.number("intermediate_size"),
        "head_size": config.number("qk_nope_head_dim") + rotary,
        "key_value_rank": config.number("kv_lora_rank"),
        "query_rank": config.number("q_lora_rank", 0, 0),
        "rotary_size": rotary,
        "value_size": config.number("v_head_dim"),
        "node_limit": config.number("topk_group", 0, 0) if kind != "deepseek_v2" and groups > 1 else 0,
    }
