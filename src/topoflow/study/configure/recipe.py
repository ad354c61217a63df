"""Recipes of other programs as keys of the command line: ``recipe=FILE``.

A file whose name ends in ``.toml`` is a configuration of torchtitan, any other text a command line of Megatron-LM, or a
shell script with one. Keys that the command line gives itself replace those of the file.

    torchrun ... pretrain_gpt.py --num-layers 32 --tensor-model-parallel-size 8 --use-distributed-optimizer ...
    workload=transformer workload.layers=32 strategy=parallel strategy.tensor=8 strategy.zero=1 ...

Options that only change what a run reads, logs or learns are not read. An option that changes the time of a step and
has no key is an error. One thing is always as these programs recommend it: gradients are reduced while the backward
pass computes (``--overlap-grad-reduce``).

Sources: megatron/training/arguments.py of Megatron-LM core_v0.14.0; torchtitan/config_manager.py, June 2025.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from topoflow.files import read_bytes
from topoflow.strategy.grid import ParallelGrid
from topoflow.units import check_count
from topoflow.workload.base import LayerGraph

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEY = "recipe"
GPUS_PER_SERVER = 8  # of a DGX; the files do not say it
FP8, FP4 = "float8_e4m3fn", "float4_e2m1fn_x2"
LLAMA3 = {"8B": "llama3_8b", "70B": "llama3_70b", "405B": "llama3_405b"}  # flavors of torchtitan -> workloads
# Options of Megatron-LM that are one key each: a whole number.
MEGATRON = {
    "num-layers": "workload.layers",
    "hidden-size": "workload.hidden",
    "num-attention-heads": "workload.heads",
    "seq-length": "workload.sequence",
    "vocab-size": "workload.vocabulary",
    "tensor-model-parallel-size": "strategy.tensor",
    "pipeline-model-parallel-size": "strategy.pipeline",
    "context-parallel-size": "strategy.context",
    "expert-model-parallel-size": "strategy.expert",
    "num-distributed-optimizer-instances": "strategy.replicate",
    "micro-batch-size": "micro_batch",
    "global-batch-size": "global_batch",
    "num-experts": "workload.experts",
    "moe-router-topk": "workload.top_k",
    "mtp-num-layers": "workload.mtp_layers",
}
NEEDED = ("num-layers", "hidden-size", "num-attention-heads", "seq-length", "vocab-size", "global-batch-size")
REFUSED = (
    "disable-tp-comm-overlap-ag",
    "disable-tp-comm-overlap-rs",
    "optimizer-cpu-offload",
    "cpu-offloading",
    "window-size",
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "pipeline-model-parallel-layout",
    "expert-tensor-parallel-size",
    "use-torch-fsdp2",
)
LATENT = {  # options of multi-head latent attention
    "kv-lora-rank": "workload.key_value_rank",
    "qk-pos-emb-head-dim": "workload.rotary_size",
    "v-head-dim": "workload.value_size",
}
SHARDED = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def with_recipe(arguments: Sequence[str], chosen: Sequence[str] = ()) -> list[str]:
    """Return the arguments with the keys of ``recipe=FILE`` in place of it, without those that are given or ``chosen``.

    Raise ``ValueError`` in one line with the file and the option that cannot be said.
    """
    files = [argument.partition("=")[2].strip("'\"") for argument in arguments if argument.partition("=")[0] == KEY]
    others = [argument for argument in arguments if argument.partition("=")[0] != KEY]
    if not files:
        return others
    if len(files) > 1 or not files[0]:
        raise ValueError(f"{KEY}: must be one file, got {', '.join(files) or 'none'}")
    keys = dict(argument.lstrip("+").partition("=")[::2] for argument in others)
    file_keys = recipe_keys(Path(files[0]), keys)
    left_out = {*keys, *chosen}
    return [*(f"{key}={value}" for key, value in file_keys.items() if key.lstrip("+") not in left_out), *others]


def recipe_keys(file: Path, typed_keys: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the keys of a file; ``typed_keys`` has those of the command line, which a file may leave out."""
    text = text_of(KEY, file)
    return _torchtitan(file, text, typed_keys or {}) if is_torchtitan(file) else _megatron(file, text, typed_keys or {})


def text_of(key: str, file: Path) -> str:
    """Return the text of a file that ``key`` names."""
    try:
        return read_bytes(file).decode("utf-8")
    except OSError as error:
        raise ValueError(f"{key}: must be a file that can be read, got {file} ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: must be text in UTF-8, got {error.reason}") from error


def is_torchtitan(file: Path) -> bool:
    """Return whether a file is a configuration of torchtitan, by its name."""
    return file.suffix == ".toml"


# --- Megatron-LM


def _megatron(file: Path, text: str, typed_keys: Mapping[str, str]) -> dict[str, str]:
    options = option_words(file, text)
    for name in REFUSED:
        if name in options:
            raise ValueError(
                f"{file}: --{name}: must be left out, as topoflow has no key for it, got {options[name] or 'it'}"
            )
    for name in NEEDED:
        if name not in options and MEGATRON[name] not in typed_keys:
            raise ValueError(f"{file}: --{name}: must be given, or {MEGATRON[name]}=, got neither")
    numbers = {name: number_of(f"{file}: --{name}", options[name]) for name in MEGATRON if name in options}
    keys = {"workload": "transformer", "strategy": "parallel"}
    keys |= {key: str(numbers[name]) for name, key in MEGATRON.items() if name in numbers}
    keys.setdefault("micro_batch", "1")
    keys["workload.gpus_per_server"] = str(GPUS_PER_SERVER)
    heads = numbers.get("num-attention-heads", 1)
    groups = number_of(f"{file}: --num-query-groups", options.get("num-query-groups", "1"))
    if "kv-channels" in options:
        keys["workload.head_size"] = str(number_of(f"{file}: --kv-channels", options["kv-channels"]))
    keys["workload.key_value_heads"] = str(groups if "group-query-attention" in options else heads)
    wide = options.get("moe-ffn-hidden-size", "") or options.get("ffn-hidden-size", "")
    if wide or "hidden-size" in numbers:
        by_default = 4 * numbers.get("hidden-size", 0)
        if "swiglu" in options:
            by_default = by_default * 2 // 3 // 64 * 64
        keys["workload.feed_forward"] = str(number_of(f"{file}: --ffn-hidden-size", wide) if wide else by_default)
    if "num-experts" in numbers:
        if not {"swiglu", "disable-bias-linear", "untie-embeddings-and-output-weights"} <= options.keys():
            rule = "must come with --swiglu, --disable-bias-linear and --untie-embeddings-and-output-weights"
            raise ValueError(f"{file}: --num-experts: {rule}, got {numbers['num-experts']}")
        keys["workload"] = "moe"
        keys.setdefault("workload.top_k", "2")
        keys |= _latent_attention(file, options) | _expert_layers(file, options, int(keys["workload.feed_forward"]))
    elif alone := {"multi-latent-attention", "mtp-num-layers"} & options.keys():
        raise ValueError(f"{file}: --{min(alone)}: must come with --num-experts, got none")
    else:
        keys["workload.gated"] = _said("swiglu" in options)
        keys["workload.tied"] = _said("untie-embeddings-and-output-weights" not in options)
        keys["workload.bias"] = _said("disable-bias-linear" not in options)
        rotary = options.get("position-embedding-type", "learned_absolute") in ("rope", "none")
        keys["workload.learned_positions"] = _said(not (rotary or "use-rotary-position-embeddings" in options))
        keys["workload.attention"] = "unfused" if options.get("attention-backend") == "unfused" else "flash"
    return keys | _megatron_training(file, options, numbers)


def _latent_attention(file: Path, options: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of multi-head latent attention, if the options have it."""
    if "multi-latent-attention" not in options:
        return {}
    for name in (*LATENT, "qk-head-dim"):
        if name not in options:
            raise ValueError(f"{file}: --{name}: must be given with --multi-latent-attention, got none")
    keys = {key: str(number_of(f"{file}: --{name}", options[name])) for name, key in LATENT.items()}
    size = number_of(f"{file}: --qk-head-dim", options["qk-head-dim"]) + int(keys["workload.rotary_size"])
    if "q-lora-rank" in options:
        keys["workload.query_rank"] = str(number_of(f"{file}: --q-lora-rank", options["q-lora-rank"]))
    return keys | {"workload.head_size": str(size)}


def _expert_layers(file: Path, options: Mapping[str, str], wide: int) -> dict[str, str]:
    """Return the keys of shared experts, and of first layers without experts; an expert is ``wide``."""
    keys, shared = {}, options.get("moe-shared-expert-intermediate-size")
    if shared is not None:
        size = number_of(f"{file}: --moe-shared-expert-intermediate-size", shared)
        if size % wide:
            rule = f"must be a multiple of the {wide} of an expert"
            raise ValueError(f"{file}: --moe-shared-expert-intermediate-size: {rule}, got {size}")
        keys["workload.shared_experts"] = str(size // wide)
    # DeepEP sends a token once to each node, the other dispatchers once to each expert
    if options.get("moe-token-dispatcher-type") == "flex" and "moe-router-group-topk" in options:
        limit = number_of(f"{file}: --moe-router-group-topk", options["moe-router-group-topk"])
        keys["workload.node_limit"] = str(limit)
    pattern = options.get("moe-layer-freq", "1").replace(" ", "").removesuffix("*1")
    dense = re.fullmatch(r"\[0\]\*(\d+)\+\[1\]\*\d+", pattern)
    if dense:
        keys["workload.dense_layers"] = dense[1]
        keys["workload.dense_feed_forward"] = str(
            number_of(f"{file}: --ffn-hidden-size", options.get("ffn-hidden-size", ""))
        )
    elif pattern != "1":
        rule = "must be 1 or as ([0]*3+[1]*58), layers without experts first"
        raise ValueError(f"{file}: --moe-layer-freq: {rule}, got {options['moe-layer-freq']}")
    return keys


def _megatron_training(file: Path, options: Mapping[str, str], numbers: Mapping[str, int]) -> dict[str, str]:
    keys = {"workload.dtype": "bfloat16" if "bf16" in options else "float16" if "fp16" in options else "float32"}
    if "fp8-format" in options:
        keys["++workload.precision.dense"] = FP8
    if "fp4-format" in options:
        keys["++workload.precision.dense"] = FP4
    if "bf16" in options and "grad-reduce-in-bf16" not in options:
        keys["strategy.reduce_dtype"] = "float32"
    keys["strategy.zero"] = "1" if "use-distributed-optimizer" in options else "0"
    if "use-custom-fsdp" in options or "use-megatron-fsdp" in options:
        sharded = options.get("data-parallel-sharding-strategy", "no_shard")
        if sharded not in SHARDED:
            rule = f"must be one of {', '.join(SHARDED)}"
            raise ValueError(f"{file}: --data-parallel-sharding-strategy: {rule}, got {sharded}")
        keys["strategy.zero"] = str(SHARDED[sharded])
    recompute = "selective" if "recompute-activations" in options else options.get("recompute-granularity", "none")
    if recompute not in ("none", "selective", "full"):
        raise ValueError(f"{file}: --recompute-granularity: must be selective or full, got {recompute}")
    if options.get("recompute-num-layers") == "0":
        recompute = "none"
    if recompute == "full" and (options.get("recompute-method"), options.get("recompute-num-layers", "1")) != (
        "uniform",
        "1",
    ):
        got = f"{options.get('recompute-method')} of {options.get('recompute-num-layers', '1')} layers"
        raise ValueError(f"{file}: --recompute-method: must be uniform, of 1 layer each, got {got}")
    keys["strategy.recompute"] = recompute
    alone = numbers.get("tensor-model-parallel-size", 1) == 1  # Megatron-LM ignores the option there
    keys["strategy.sequence_parallel"] = _said(alone or "sequence-parallel" in options)
    if "tp-comm-overlap" in options and not (alone or "sequence-parallel" in options):
        raise ValueError(f"{file}: --tp-comm-overlap: must come with --sequence-parallel, got none")
    keys["strategy.async_tensor"] = _said("tp-comm-overlap" in options)
    keys["strategy.async_expert"] = _said("overlap-moe-expert-parallel-comm" in options)
    per_rank = options.get("num-virtual-stages-per-pipeline-rank")
    if "num-layers-per-virtual-pipeline-stage" in options:
        layers = number_of(
            f"{file}: --num-layers-per-virtual-pipeline-stage", options["num-layers-per-virtual-pipeline-stage"]
        )
        stages = numbers.get("pipeline-model-parallel-size", 1) * layers
        if numbers["num-layers"] % stages:
            rule = f"must divide the {numbers['num-layers']} layers of the pipeline's ranks"
            raise ValueError(f"{file}: --num-layers-per-virtual-pipeline-stage: {rule}, got {layers}")
        per_rank = str(numbers["num-layers"] // stages)
    if per_rank is not None:
        keys["strategy.virtual"] = str(number_of(f"{file}: --num-virtual-stages-per-pipeline-rank", per_rank))
    return keys


def option_words(file: Path, text: str) -> dict[str, str]:
    """Return the options of a command line or shell script by their name; a switch has an empty value."""
    joined = re.sub(r"\\\r?\n", " ", re.sub(r"(?m)^\s*#.*$", "", text))
    try:
        words = shlex.split(joined.replace("(", " ").replace(")", " "), comments=True)
    except ValueError as error:
        raise ValueError(f"{file}: must be a command line, got {error}") from error
    options: dict[str, str] = {}
    for word, following in pairwise([*words, "--"]):
        if word.startswith("--") and len(word) > 2:
            name, _, value = word[2:].partition("=")
            options[name.replace("_", "-")] = value or ("" if following.startswith("-") else following)
    if not options:
        raise ValueError(f"{file}: must be options of Megatron-LM, as --num-layers 32, got none")
    return options


# --- torchtitan

PARALLELISM = {
    "tensor_parallel_degree": "strategy.tensor",
    "pipeline_parallel_degree": "strategy.pipeline",
    "context_parallel_degree": "strategy.context",
    "data_parallel_replicate_degree": "strategy.replicate",
}
# torch's names -> ours, and stages of a rank: torchtitan's default for multi-stage schedules
SCHEDULES = {
    "1f1b": ("one_f_one_b", 1),
    "gpipe": ("gpipe", 1),
    "interleaved1f1b": ("interleaved", 2),
    "interleavedzerobubble": ("zb_h1", 2),
    "zbvzerobubble": ("zb_v", 2),
    "dualpipev": ("dualpipe_v", 2),
}


def _torchtitan(file: Path, text: str, typed_keys: Mapping[str, str]) -> dict[str, str]:
    tables = toml_of(file, text)
    model, training = table_of(file, tables, "model"), table_of(file, tables, "training")
    parallel = parallelism_of(file, tables)
    workload = LLAMA3.get(str(model.get("flavor"))) if model.get("name", "llama3") == "llama3" else None
    if workload is None:
        got = f"{model.get('name')} {model.get('flavor')}"
        raise ValueError(f"{file}: model.flavor: must be {', '.join(LLAMA3)} of llama3, got {got}")
    degrees = {
        key: number_of(f"{file}: parallelism.{name}", parallel.get(name, 1)) for name, key in PARALLELISM.items()
    }
    tensor, pipeline, context, _ = degrees.values()
    local = number_of(
        f"{file}: training.local_batch_size", training.get("local_batch_size", training.get("batch_size", 8))
    )
    keys = {"workload": workload, "strategy": "parallel", "workload.gpus_per_server": str(GPUS_PER_SERVER)}
    keys["workload.sequence"] = str(number_of(f"{file}: training.seq_len", training.get("seq_len", 2048)))
    keys["workload.attention"] = "flash2"  # of PyTorch's scaled_dot_product_attention
    compiled = table_of(file, tables, "compile").get("enable", training.get("compile", False))
    keys["workload.eager_loss"] = _said(not compiled)
    if any("float8" in str(converter) for converter in model.get("converters", [])):
        keys["++workload.precision.dense"] = FP8
    shard = parallel.get("data_parallel_shard_degree", -1)
    if shard == 1 and context == 1:
        degrees["strategy.replicate"], zero = 1, 0
    else:
        zero = 3 if pipeline == 1 else 1  # in a pipeline, FSDP keeps what it has gathered
        zero_without_reshard = 2 if pipeline == 1 else 1
        zero = {"always": 3, "never": zero_without_reshard}.get(str(parallel.get("fsdp_reshard_after_forward")), zero)
    keys |= {key: str(degree) for key, degree in degrees.items()}
    keys |= {
        "strategy.zero": str(zero),
        "strategy.reduce_dtype": str(training.get("mixed_precision_reduce", "float32")),
        "strategy.async_tensor": _said(bool(parallel.get("enable_async_tensor_parallel"))),
    }
    keys["strategy.recompute"] = _checkpointing(file, table_of(file, tables, "activation_checkpoint"))
    keys["micro_batch"] = str(local)
    if pipeline > 1:
        keys |= _schedule(file, parallel)
        keys["micro_batch"] = str(_microbatch(file, parallel, local))
    keys["global_batch"] = str(training.get("global_batch_size", -1))
    if keys["global_batch"] == "-1" and "global_batch" not in typed_keys:
        keys["global_batch"] = str(local * _gpus(file, typed_keys) // (tensor * pipeline * context))
    return keys


def toml_of(file: Path, text: str) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: must be TOML, got {error}") from error
    return tables


def parallelism_of(file: Path, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the degrees of parallelism; older versions have those of pipelines and contexts in another table."""
    return table_of(file, tables, "experimental") | table_of(file, tables, "parallelism")


def _schedule(file: Path, parallel: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys of the schedule of a pipeline, which may be a CSV file."""
    if table := parallel.get("pipeline_parallel_schedule_csv"):
        return {"strategy.schedule": str(table)}
    schedule = str(parallel.get("pipeline_parallel_schedule", "1F1B"))
    if schedule.lower() not in SCHEDULES:
        rule = f"must be one of {', '.join(SCHEDULES)}"
        raise ValueError(f"{file}: parallelism.pipeline_parallel_schedule: {rule}, got {schedule}")
    name, virtual = SCHEDULES[schedule.lower()]
    return {"strategy.schedule": name, "strategy.virtual": str(virtual)}


def _gpus(file: Path, typed_keys: Mapping[str, str]) -> int:
    """Return the GPUs that the command line gives, as ``gpus`` or as servers."""
    per_server = typed_keys.get("workload.gpus_per_server", str(GPUS_PER_SERVER))
    counts = [typed_keys["gpus"]] if "gpus" in typed_keys else [typed_keys.get("servers", ""), per_server]
    if not all(map(str.isdigit, counts)):
        rule = "must be in the file, or gpus= or servers= one number, as each data rank has a local batch"
        raise ValueError(f"{file}: training.global_batch_size: {rule}, got neither")
    return prod(map(int, counts))


def _checkpointing(file: Path, table: Mapping[str, Any]) -> str:
    mode, option = table.get("mode", "selective"), str(table.get("selective_ac_option", "2"))
    if mode == "selective" and option != "op":
        raise ValueError(f"{file}: activation_checkpoint.selective_ac_option: must be op, got {option}")
    modes = {"none": "none", "full": "full", "selective": "selective_op"}
    if mode not in modes:
        raise ValueError(f"{file}: activation_checkpoint.mode: must be one of {', '.join(modes)}, got {mode}")
    return modes[mode]


def _microbatch(file: Path, parallel: Mapping[str, Any], local: int) -> int:
    if "pipeline_parallel_microbatches" not in parallel:
        name = "pipeline_parallel_microbatch_size"
        return number_of(f"{file}: parallelism.{name}", parallel.get(name, 1))
    count = number_of(f"{file}: parallelism.pipeline_parallel_microbatches", parallel["pipeline_parallel_microbatches"])
    if local % count:
        rule = f"must divide the local batch of {local}"
        raise ValueError(f"{file}: parallelism.pipeline_parallel_microbatches: {rule}, got {count}")
    return local // count


def table_of(file: Path, tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table by name; an empty one if the file has none."""
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ValueError(f"{file}: {name}: must be a table, got {table!r}")
    return table


def number_of(field: str, value: object) -> int:
    """Return a positive whole number, which may be a text."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int):
        raise ValueError(f"{field}: must be a whole number, got {value!r}")
    check_count(field, number)
    return number


def _said(value: bool) -> str:
    return str(value).lower()


# --- the winner of a search


def recipe_texts(workload: LayerGraph, grid: ParallelGrid) -> dict[str, str]:
    """Return a grid as files that ``recipe=FILE`` reads, by name, for the programs that can train it."""
    texts = {"megatron.txt": megatron_options(workload, grid), "torchtitan.toml": torchtitan_options(workload, grid)}
    return {name: text for name, text in texts.items() if text is not None}


def megatron_options(workload: LayerGraph, grid: ParallelGrid) -> str | None:
    """Return a grid as options of Megatron-LM, one a line; ``recipe=FILE`` reads them with the sizes of the model.

    None: Megatron-LM has no such schedule.
    """
    if grid.pipeline > 1 and grid.schedule not in (None, "one_f_one_b", "interleaved"):
        return None
    samples = round(grid.samples(workload))
    options = {
        "tensor-model-parallel-size": grid.tensor,
        "pipeline-model-parallel-size": grid.pipeline,
        "context-parallel-size": grid.context,
        "expert-model-parallel-size": grid.expert,
        "micro-batch-size": samples,
        "global-batch-size": samples * grid.microbatches * grid.replicas,
    }
    if grid.virtual > 1:
        options["num-virtual-stages-per-pipeline-rank"] = grid.virtual
    if grid.replicate > 1:
        options["num-distributed-optimizer-instances"] = grid.replicate
    lines = [f"--{name} {value}" for name, value in options.items() if value > 1 or name.endswith("batch-size")]
    lines += ["--sequence-parallel"] if grid.tensor > 1 and grid.sequence_parallel else []
    lines += ["--tp-comm-overlap"] if grid.tensor > 1 and grid.async_tensor else []
    lines += ["--overlap-moe-expert-parallel-comm"] if grid.expert > 1 and grid.async_expert else []
    lines += ["--use-distributed-optimizer"] if grid.zero == 1 else []
    if grid.zero > 1:
        sharded = next(name for name, zero in SHARDED.items() if zero == grid.zero)
        lines += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {sharded}"]
    if grid.recompute in ("selective", "full"):
        lines.append(f"--recompute-granularity {grid.recompute}")
    lines += ["--recompute-method uniform", "--recompute-num-layers 1"] if grid.recompute == "full" else []
    if workload.dtype != "float32":
        lines.append("--bf16" if workload.dtype == "bfloat16" else "--fp16")
    if workload.dtype == "bfloat16" and grid.reduce_dtype != "float32":
        lines.append("--grad-reduce-in-bf16")
    return "\n".join(lines) + "\n"


def torchtitan_options(workload: LayerGraph, grid: ParallelGrid) -> str | None:
    """Return a grid as tables of torchtitan's TOML, which ``recipe=FILE`` reads with the table of the model.

    None: torchtitan has no such run. It divides parameters, in a pipeline of gathered ones the optimizer's state; its
    tensor ranks divide positions too.
    """
    zero_without_reshard = 2 if grid.pipeline == 1 else 1
    schedule = grid.schedule or ("one_f_one_b" if grid.virtual == 1 else "interleaved")
    names = {name: (torch, virtual) for torch, (name, virtual) in SCHEDULES.items()}
    torch_name, virtual = names.get(schedule, ("", 0))
    staged = grid.pipeline == 1 or virtual == grid.virtual
    checkpointed = {"none": "none", "full": "full", "selective_op": "selective"}.get(grid.recompute)
    divided = grid.zero in (3, zero_without_reshard) and grid.repeats == 1
    if not divided or grid.expert > 1 or not staged or checkpointed is None:
        return None
    samples = round(grid.samples(workload))
    lines = [
        "[training]",
        f"local_batch_size = {samples * (grid.microbatches if grid.pipeline > 1 else 1)}",
        f"global_batch_size = {samples * grid.microbatches * grid.replicas}",
        f'mixed_precision_reduce = "{grid.reduce_dtype or workload.dtype}"',
        "",
        "[parallelism]",
        *(f"{name} = {getattr(grid, key.removeprefix('strategy.'))}" for name, key in PARALLELISM.items()),
        f'fsdp_reshard_after_forward = "{"always" if grid.zero == 3 else "never"}"',
        f"enable_async_tensor_parallel = {_said(grid.async_tensor)}",
    ]
    if grid.pipeline > 1:
        lines += [f'pipeline_parallel_schedule = "{torch_name}"', f"pipeline_parallel_microbatch_size = {samples}"]
    lines += ["", "[activation_checkpoint]", f'mode = "{checkpointed}"']
    lines += ['selective_ac_option = "op"'] if checkpointed == "selective" else []
    return "\n".join(lines) + "\n"
