"""Predicted beside measured training iterations.

    python benchmarks/training.py rows=FILE [efficiency=roofline] [calculon=PATH]

FILE is a CSV with the columns of ``COLUMNS``. Each row that topoflow can say is simulated; a fact that a row lacks is
the default of its framework's recipe (``with_defaults``), and is named beside the row. The others are listed with the
reason. Nothing is fitted to the rows: sizes are those of the models' publications, rates those of ``configs/gpu`` and
of ``src/topoflow/workload/efficiency``.

``calculon`` is a checkout of Calculon, whose time for the rows that it can say is printed beside (``peers``).

A file with the columns of ``VTRAIN`` (vTrain, config/validation: GPTs under Megatron-LM on A100) has many strategies of
each job: their ranking is compared too, by Kendall's tau of the pairs within a job.

Collectives are those that NCCL chooses on the nodes of the row's GPU (``topoflow node``), joined by an ideal switch. In
jobs of at most ``MAX_UNFOLDED_GPUS`` GPUs each GPU is an endpoint, where a pipeline stage is a part of a node or
experts are divided. In larger ones the GPUs of a node, or of a stage that is a part of one, are one endpoint; with
divided experts these are servers, whose collectives take the time of their bytes.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf
from peers.calculon_peer import Calculon

from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.attached import Attached
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import load
from topoflow.strategy.base import Strategy
from topoflow.strategy.memory import RECOMPUTE
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.lower import lower
from topoflow.units import gbps, us
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

COLUMNS = (
    *("source", "model", "gpu", "n_gpus", "tp", "pp", "dp", "cp", "ep", "vpp", "zero", "micro_batch", "global_batch"),
    *("seq", "precision", "recompute", "step_time_s", "notes"),
)
# VIA-Research/vTrain f8dda84: its columns -> ours
VTRAIN = {
    "# GPUs": "n_gpus",
    "global batch": "global_batch",
    "micro batch": "micro_batch",
    "sequence length": "seq",
    "tensor parallelism": "tp",
    "data parallelism": "dp",
    "pipeline parallelism": "pp",
}
CONFIGS = Path(__file__).resolve().parents[1] / "src" / "topoflow" / "configs"
MERGE = 0.001  # of a transfer's duration, by which it may end early
MAX_UNFOLDED_GPUS = 64  # GPUs
ALL, NONE = "", "(?!)"  # patterns that match any row, and none
TORCH_BUCKET, ALL_GRADIENTS = 25 * 2**20, 10**15  # B of a bucket of gradients


@dataclass(frozen=True)
class Machine:
    """A GPU of ``configs/gpu`` with what differs, its node, and the NIC of each GPU.

    ``clock`` is relative to that of the GPU at its full power.
    """

    gpu: str
    node: str
    nic: float  # B/s
    changed: Mapping[str, float] | None = None
    clock: float = 1.0


@dataclass(frozen=True)
class Framework:
    """The documented defaults of a source's recipes, for what its rows do not say."""

    attention: str = "flash"  # its kernel
    reduce_dtype: str | None = None  # of gradients
    recompute: Mapping[str, str] = field(default_factory=dict)  # its word for a kind of recomputation -> ours
    local_batch: bool = False  # one microbatch per pipeline rank
    eager_loss: bool = False
    bucket_bytes: int = 80_000_000  # of gradients
    block_launch: float = 0.0  # s
    schedules: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # model -> micro batch, vpp, bucket (B)
    # Patterns in the words ("model; recompute; notes") of the rows that have it
    sequence_parallel: str = ALL
    async_tensor: str = NONE

    def schedule(self, row: Row) -> tuple[int, int, int]:
        """Return micro batch, stages of a pipeline rank and bytes of a bucket, where the row does not say them."""
        return self.schedules.get(row["model"].partition(":")[0], (1, 1, self.bucket_bytes))


TORCHTITAN = Framework(
    attention="flash2",
    reduce_dtype="float32",
    recompute={"selective": "selective_op"},
    local_batch=True,
    async_tensor="[Aa]sync ?TP",
)
# By the beginning of a source's name.
FRAMEWORKS = {
    # mosaicml/llm-foundry 5e85bd62, scripts/train/benchmarking/submit_benchmarks.py: attn_impl "triton"
    "MosaicML LLM Foundry": Framework(attention="flash1"),
    # pytorch/torchtitan ba246978: F.scaled_dot_product_attention, of which PyTorch 2.6 runs FlashAttention-2;
    # mixed_precision_reduce "float32"; selective_ac_option "op"; as many microbatches as pipeline ranks
    # configs/strategy: use_fp32_accum_grad, not grad_reduce_in_bf16; "no overlap": all gradients are one bucket
    "SimuMax": Framework(reduce_dtype="float32", bucket_bytes=ALL_GRADIENTS),
    # 2025: the loss is compiled
    "torchtitan benchmarks/llama3_h100_202412": replace(TORCHTITAN, eager_loss=True),
    "torchtitan": TORCHTITAN,
    # NVIDIA-NeMo/Megatron-Bridge 067f987d, src/megatron/bridge/recipes/llama/h100/llama3.py: tp_comm_overlap=True
    "NVIDIA Megatron-Bridge": Framework(async_tensor="(?i)^llama.?3"),
    # config/validation: use_gradient_bucket false, so that nothing is reduced before the backward passes end
    # The smallest passes of a block take 3.5 ms together, of any size: 4 times the launches of a forward pass
    # src/model/gpt_modeling.py: each tensor rank has the norms of all positions
    "vTrain": Framework(bucket_bytes=ALL_GRADIENTS, block_launch=3.5e-3 / 4, sequence_parallel=NONE),
    # Full recomputation is their baseline; calculon-ai/calculon caa4b11, validation/seqsel/tab5: "ar" for it
    "Korthikanti et al.": Framework(sequence_parallel="sequence parallel"),
    # NVIDIA/Megatron-LM 79a3bb6b, examples/sc21/run_table_1.sh: MBS; the layers of a stage by those of a virtual one;
    # DDP=torch, whose buckets have 25 MiB, or local, with one bucket. Sequence parallelism came in 2022
    "Narayanan et al. 2021": Framework(
        sequence_parallel=NONE,
        schedules={
            "GPT 1.7B": (16, 1, TORCH_BUCKET),
            "GPT 3.6B": (16, 1, TORCH_BUCKET),
            "GPT 7.5B": (16, 1, TORCH_BUCKET),
            "GPT 18.4B": (8, 1, TORCH_BUCKET),
            "GPT 39.1B": (4, 1, ALL_GRADIENTS),
            "GPT 76.1B": (2, 3, ALL_GRADIENTS),
            "GPT 145.6B": (2, 2, ALL_GRADIENTS),
            "GPT 310.1B": (1, 2, ALL_GRADIENTS),
            "GPT 529.6B": (1, 3, ALL_GRADIENTS),
            "GPT 1008.0B": (1, 1, ALL_GRADIENTS),
        },
    ),
}


A100_80GB = {"memory_bandwidth": 2039e9, "memory": 80e9}  # datasheet, A100 80GB SXM
MACHINES = {
    "a100_40gb": Machine("a100", "dgx_a100", gbps(200)),  # NICs: DGX A100 and DGX H100 datasheets
    "a100_80gb": Machine("a100", "dgx_a100", gbps(200), changed=A100_80GB),
    "a100 80gb (selene)": Machine("a100", "dgx_a100", gbps(200), changed=A100_80GB),
    "a100_80gb (vtrain)": Machine(
        "a100", "dgx_a100", gbps(100), changed=A100_80GB
    ),  # inter_node_bandwidth 800 of 8 GPUs
    "h100": Machine("h100", "hgx_h100", gbps(400)),
    "h100_80gb": Machine("h100", "hgx_h100", gbps(400)),
    # Six stacks of HBM2e, of which the H100 PCIe has five with 2.0 TB/s. Power is proportional to f V^2 and V to f, so
    # the clock to the cube root of the power, of 700 W in the datasheet
    "h100 96gb hbm2e, 500 w (grand teton)": Machine(
        "h100",
        "hgx_h100",
        gbps(400),
        changed={"memory_bandwidth": 2.4e12, "memory": 96e9},
        clock=(500 / 700) ** (1 / 3),
    ),
    "h200": Machine("h200", "hgx_h200", gbps(400)),
    "b200": Machine("b200", "hgx_b200", gbps(400)),
    "gb200": Machine("gb200", "gb200_nvl72", gbps(400)),
    "gb300": Machine("gb300", "gb300_nvl72", gbps(800)),
}


def gpt(layers: int, hidden: int, heads: int, vocabulary: int = 51200, **fields: Any) -> dict[str, Any]:
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "key_value_heads": heads,
        "feed_forward": 4 * hidden,
        "vocabulary": vocabulary,
        **fields,
    }


def preset(name: str) -> dict[str, Any]:
    """Return the sizes of a file of ``configs/workload``."""
    sizes: Any = OmegaConf.to_container(OmegaConf.load(CONFIGS / "workload" / f"{name}.yaml"))
    return {key: value for key, value in sizes.items() if key not in ("defaults", "batch_per_gpu", "sequence")}


MODELS = {
    "megatron 22b": preset("megatron_22b"),
    "gpt-3 175b": gpt(96, 12288, 96, attention="unfused"),  # as Korthikanti et al., 2022, table 3, have it
    "turing-nlg 530b": preset("megatron_530b"),
    "megatron 1t": preset("megatron_1t"),
    # mosaicml/llm-foundry, scripts/train/yamls/pretrain; vocabulary padded to 50,368
    "mpt-125m": gpt(12, 768, 12, 50368, bias=False),
    "mpt-350m": gpt(24, 1024, 16, 50368, bias=False),
    "mpt-760m": gpt(24, 1536, 12, 50368, bias=False),
    "mpt-1b": gpt(24, 2048, 16, 50368, bias=False),
    "mpt-3b": gpt(32, 2560, 20, 50368, bias=False),
    "mpt-7b": gpt(32, 4096, 32, 50368, bias=False),
    "mpt-13b": gpt(40, 5120, 40, 50368, bias=False),
    "mpt-30b": gpt(48, 7168, 56, 50368, bias=False),
    "mpt-70b": gpt(80, 8192, 64, 50368, bias=False),
}
# Presets of other models, whose names are compared without case, space and punctuation
MODELS |= {
    re.sub(r"\W|_", "", name): preset(name)
    for name in (
        *("llama2_7b", "llama2_13b", "llama2_70b", "llama3_8b", "llama3_70b", "llama3_405b", "nemotron4_340b"),
        *(
            "mixtral_8x22b",
            "deepseek_moe_16b",
            "deepseek_v2",
            "deepseek_v3",
            "qwen3_30b_a3b",
            "qwen3_235b_a22b",
            "grok1",
        ),
    )
} | {"mixtral8x7b": {"experts": 8}}  # the defaults of Moe
LLAMA = {"learned_positions": False, "gated": True, "tied": False, "bias": False}
QWEN3 = {"key_value_heads": 8, "head_size": 128, "vocabulary": 151936, **LLAMA}
# config.json of the published weights; NVIDIA, "Nemotron-4 15B Technical Report", 2024, table 1
MODELS |= {
    "qwen38b": {"layers": 36, "hidden": 4096, "heads": 32, "feed_forward": 12288, **QWEN3},
    "qwen314b": {"layers": 40, "hidden": 5120, "heads": 40, "feed_forward": 17408, **QWEN3},
    "qwen332b": {"layers": 64, "hidden": 5120, "heads": 64, "feed_forward": 25600, **QWEN3},
    "nemotron415b": gpt(32, 6144, 48, 256000, **LLAMA | {"gated": False, "key_value_heads": 8}),
    "kimik2": preset("deepseek_v3")
    | {"heads": 64, "experts": 384, "dense_layers": 1, "vocabulary": 163840, "node_limit": 0},
    "gptoss120b": {  # attention of every second layer is within a window of 128, here it is whole
        "layers": 36,
        "hidden": 2880,
        "heads": 64,
        "key_value_heads": 8,
        "head_size": 64,
        "feed_forward": 2880,
        "experts": 128,
        "top_k": 4,
        "vocabulary": 201088,
    },
}


@dataclass(frozen=True)
class Row:
    """One published run, as text."""

    number: int  # of its line
    fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields[name].strip()

    @property
    def name(self) -> str:
        axes = ("tp", "pp", "cp", "ep", "vpp")
        degrees = " ".join(f"{axis}={self[axis]}" for axis in axes if self[axis] not in ("", "1"))
        return f"line {self.number}: {self['model']} on {self['n_gpus']} {self['gpu']} {degrees}".rstrip()


@dataclass(frozen=True)
class Prediction:
    """A row with its prediction, and the defaults that were taken."""

    row: Row
    predicted: float  # s
    measured: float  # s
    defaults: tuple[str, ...]
    needed: float  # B of the fullest GPU
    memory: float  # B of a GPU
    calculon: float | None = None  # s that Calculon predicts

    @property
    def peak(self) -> float | None:
        """Return the published peak (B), which the notes have."""
        match = re.search(r"peak (?:alloc )?([\d.]+) GiB", self.row["notes"])
        return None if match is None else float(match[1]) * 2**30

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    @property
    def text(self) -> str:
        notes = f" ({'; '.join(self.defaults)})" if self.defaults else ""
        memory = "" if self.peak is None else f", {self.needed / 1e9:.1f} of {self.peak / 1e9:.1f} GB"
        peer = "" if self.calculon is None else f", Calculon {self.calculon / self.measured:.3f}"
        return (
            f"{self.row.name}: {self.predicted:.4g} s of {self.measured:.4g} s = {self.ratio:.3f}{peer}{memory}{notes}"
        )

    @property
    def error(self) -> float:
        return abs(self.ratio - 1)


def main(arguments: Sequence[str]) -> None:
    options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    if set(options) - {"rows", "efficiency", "calculon"} or "rows" not in options or len(options) != len(arguments):
        usage = "rows=FILE [efficiency=roofline|measured|FILE] [calculon=PATH]"
        raise SystemExit(f"training.py: must be {usage}, got {' '.join(arguments)}")
    try:
        peer = Calculon(Path(options["calculon"])) if "calculon" in options else None
    except ValueError as error:
        raise SystemExit(f"training.py: {error}") from None
    predictions, unsaid, cache = [], 0, dict[str, float]()
    for row in read(options["rows"]):
        try:
            predictions.append(predict(row, options.get("efficiency", "measured"), cache, peer))
            print(predictions[-1].text, flush=True)
        except ValueError as error:
            unsaid += 1
            print(f"not said: {row.name}: {error}", flush=True)
    report("training", predictions, len(predictions) + unsaid)
    report_ranking("training", predictions)
    report_peer(predictions)
    names: Mapping[str, Callable[[Row], str]] = {
        "source": lambda row: row["source"],
        "gpu": lambda row: row["gpu"],
        "kind": kind_of,
        "without": lambda row: "" if "DeepSeek" in kind_of(row) else "deepseek",
    }
    for column, name_of in names.items():
        groups = defaultdict(list)
        for prediction in predictions:
            groups[slug(name_of(prediction.row))].append(prediction)
        for name, group in sorted(groups.items()):
            if name:
                report(f"training.{column}.{name}", group, len(group))
    report_memory(predictions)


def kind_of(row: Row) -> str:
    """Return the framework of a row, with the GPU, models or parallelism that docs/accuracy.md tells apart."""
    source = row["source"]
    if source.startswith("torchtitan"):
        return "torchtitan parallel" if {row[name] for name in ("tp", "pp", "cp")} - {"", "1"} else "torchtitan"
    if source.startswith("SimuMax"):
        return "SimuMax DeepSeek" if "deepseek" in row["model"].lower() else "SimuMax Llama"
    if source.startswith("MosaicML"):
        return f"LLM Foundry {row['gpu'].partition('_')[0]}"
    return "Megatron-Bridge" if "Megatron-Bridge" in source else "Megatron-LM"


def report(path: str, predictions: Sequence[Prediction], rows: int) -> None:
    print(f"{path}.rows {rows}")
    if path == "training":
        print(f"{path}.said {len(predictions)}")
    if predictions:
        print(f"{path}.median_error {median(prediction.error for prediction in predictions):.3f}")
        print(f"{path}.median_ratio {median(prediction.ratio for prediction in predictions):.3f}")
        print(f"{path}.within_20 {sum(prediction.error <= 0.2 for prediction in predictions) / len(predictions):.3f}")


def report_peer(predictions: Sequence[Prediction]) -> None:
    """Print the errors and the ranking of Calculon, and ours, of the rows that it can say."""
    compared = [row for row in predictions if row.calculon is not None]
    if not compared:
        return
    theirs = [replace(row, predicted=row.calculon) for row in compared if row.calculon is not None]
    for path, rows in (("training.calculon", theirs), ("training.beside_calculon", compared)):
        report(path, rows, len(rows))
        report_ranking(path, rows)


def report_ranking(path: str, predictions: Sequence[Prediction]) -> None:
    """Print Kendall's tau of the strategies of each job, over all pairs of its rows.

    Rows of a job with the same tensor degree and micro batch do the same work for a block and microbatch, in other
    pipelines and on other servers. ``same_work`` is the largest ratio of what was measured for it, of m + p - 1 passes
    in 1F1B. ``tau_fitted`` is tau if the predictions of such rows are divided by their mean ratio, about as well as any
    model of that work could rank.
    """
    jobs, works = defaultdict(list), defaultdict(list)
    for prediction in predictions:
        if prediction.row["source"] == "vTrain":
            job = tuple(prediction.row[name] for name in ("model", "n_gpus", "global_batch", "seq"))
            jobs[job].append(prediction)
            works[(*job, prediction.row["tp"], prediction.row["micro_batch"])].append(prediction)
    if not any(len(job) > 1 for job in jobs.values()):
        return
    fitted = {
        id(prediction): prediction.predicted / fmean(member.ratio for member in work)
        for work in works.values()
        for prediction in work
    }
    agreed = tau(jobs.values(), lambda prediction: prediction.predicted)
    print(f"{path}.ranking.jobs {len(jobs)}")
    print(f"{path}.ranking.pairs {sum(len(job) * (len(job) - 1) // 2 for job in jobs.values())}")
    print(f"{path}.ranking.tau {agreed:.3f}")
    print(f"{path}.ranking.works {len(works)}")
    print(f"{path}.ranking.tau_fitted {tau(jobs.values(), lambda prediction: fitted[id(prediction)]):.3f}")
    spread = (max(seconds) / min(seconds) for seconds in ([*map(block_seconds, work)] for work in works.values()))
    print(f"{path}.ranking.same_work {max(spread):.3f}")
    print(f"{path}.mean_error {sum(prediction.error for prediction in predictions) / len(predictions):.3f}")


def tau(jobs: Iterable[Sequence[Prediction]], predicted: Callable[[Prediction], float]) -> float:
    """Return Kendall's tau over all pairs within jobs."""
    agreed = [
        (predicted(one) - predicted(other)) * (one.measured - other.measured) > 0
        for job in jobs
        for one, other in combinations(job, 2)
    ]
    return 2 * sum(agreed) / len(agreed) - 1


def block_seconds(prediction: Prediction) -> float:
    """Return the measured seconds of a block and microbatch of 1F1B."""
    pipeline, data, size, batch = (int(prediction.row[name]) for name in ("pp", "dp", "micro_batch", "global_batch"))
    layers = int(prediction.row["model"].split()[1].rstrip(","))
    return prediction.measured * pipeline / (layers * (batch // (data * size) + pipeline - 1))


def report_memory(predictions: Sequence[Prediction]) -> None:
    """Print the errors of published peaks, and the runs that are estimated to need more than a GPU has.

    The estimate of a run whose recomputation is not published means little.
    """
    errors = [abs(prediction.needed / prediction.peak - 1) for prediction in predictions if prediction.peak is not None]
    print(f"training.memory.rows {len(errors)}")
    if errors:
        print(f"training.memory.median_error {median(errors):.3f}")
        print(f"training.memory.within_10 {sum(error <= 0.1 for error in errors) / len(errors):.3f}")
    with_recompute = [
        prediction for prediction in predictions if prediction.row["recompute"].split(" ")[0] in RECOMPUTE
    ]
    print(f"training.memory.said_recompute {len(with_recompute)}")
    print(
        f"training.memory.would_not_run {sum(prediction.needed > prediction.memory for prediction in with_recompute)}"
    )


def slug(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")[:48]


def read(path: str) -> Iterator[Row]:
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if VTRAIN.keys() <= set(reader.fieldnames or ()):
            yield from (vtrain_row(reader.line_num, fields) for fields in reader)
            return
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise SystemExit(f"{path}: must have the columns {', '.join(COLUMNS)}, got none of {', '.join(missing)}")
        for fields in reader:
            yield Row(reader.line_num, {name: fields[name] or "" for name in COLUMNS})


def vtrain_row(number: int, fields: Mapping[str, str]) -> Row:
    """Return a run of vTrain, whose configurations recompute all activations (use_checkpoint)."""
    sizes = (fields[name] for name in ("# layers", "hidden size", "attention heads"))
    row = dict.fromkeys(COLUMNS, "") | {ours: fields[theirs] for theirs, ours in VTRAIN.items()}
    row |= {"source": "vTrain", "gpu": "A100_80GB (vTrain)", "precision": "fp16", "recompute": "full"}
    row |= {"model": "layers {}, hidden {}, heads {}".format(*sizes), "notes": "800 Gb/s of each server"}
    row |= dict.fromkeys(("cp", "ep", "vpp"), "1")
    return Row(number, row | {"step_time_s": f"{float(fields['iteration time (ms)']) / 1000:.9f}"})


def predict(row: Row, efficiency: str, cache: dict[str, float], peer: Calculon | None) -> Prediction:
    """Simulate a row, or return the time of an equal one from ``cache``.

    Raise ``ValueError`` with the reason why topoflow cannot say it.
    """
    if not re.fullmatch(r"\d*\.?\d+(e[-+]?\d+)?", row["step_time_s"]) or not float(row["step_time_s"]) > 0:
        raise ValueError(f"step_time_s: must be positive seconds, got {row['step_time_s']!r}")
    fields, defaults = with_defaults(row)
    machine = machine_of(row)
    gpus, pipeline = whole(row, "n_gpus"), positive("pp", fields["pp"])
    if gpus % pipeline:
        raise ValueError(f"pp: must divide the {gpus} GPUs, got {pipeline}")
    gpu, rule = gpu_of(machine, efficiency), strategy_of(row, fields)
    design = network(machine, gpu, gpus, rule)
    per_server = design.degree if isinstance(design, IdealSwitch) else design.cluster.per_node if design.folded else 1
    servers = gpus // per_server
    model = replace(model_of(row, gpu, per_server), gpus_per_node=min(gpus, len(load(machine.node).gpus)))
    workload = model.with_global_batch(whole(row, "global_batch"), servers)
    job = (row["model"], row["seq"], dict(workload.precision), workload.batch_per_gpu)
    alike = repr((*job, machine, efficiency, gpus, rule))
    strategy = rule.place(workload, servers)
    if alike not in cache:
        cache[alike] = simulated(workload, strategy, design)
    needed = strategy.memory_per_gpu(workload)
    assert needed is not None
    assumptions = (*defaults, *assumed(machine, row, gpus))
    prediction = Prediction(row, cache[alike], float(row["step_time_s"]), assumptions, needed, gpu.memory)
    if peer is None or "experts" in (sizes := sizes_of(row["model"])):
        return prediction
    dense = Transformer(gpu, sequence=whole(row, "seq"), **sizes)
    try:
        return replace(
            prediction, calculon=peer.iteration_time(machine.gpu, dense, rule, gpus, whole(row, "global_batch"))
        )
    except ValueError:
        return prediction


def with_defaults(row: Row) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the degrees and sizes of a row, and the defaults that were taken for those that it lacks, by name."""
    framework = framework_of(row)
    micro_batch, stages, _ = framework.schedule(row)
    fields, defaults = {}, []
    for name in ("tp", "pp", "cp", "ep", "vpp", "dp"):
        fields[name] = row[name] or (str(stages) if name == "vpp" else "1")
        if not row[name] and name != "dp":
            defaults.append(f"{name}={fields[name]}")
    fields["micro_batch"] = row["micro_batch"]
    if not row["micro_batch"]:
        fields["micro_batch"] = str(micro_batch)
        if framework.local_batch:  # of one data rank, in as many microbatches as pipeline ranks
            local = whole(row, "global_batch") // positive("dp", fields["dp"])
            fields["micro_batch"] = str(max(local // positive("pp", fields["pp"]), 1))
        defaults.append(f"micro_batch={fields['micro_batch']}")
    if fields["vpp"] == "interleaved":
        fields["vpp"] = "2"  # torchtitan's schedule has two stages on each rank
        defaults.append("vpp=2")
    recompute = row["recompute"].split(" ")[0]
    recompute = framework.recompute.get(recompute, recompute)
    fields["recompute"] = recompute if recompute in RECOMPUTE else "none"
    if recompute != fields["recompute"]:
        defaults.append(f"recompute=none for {row['recompute']!r}")
    return fields, tuple(defaults)


def whole(row: Row, name: str) -> int:
    return positive(name, row[name])


def positive(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{name}: must be a positive integer, got {text!r}")
    return int(text)


def machine_of(row: Row) -> Machine:
    machine = MACHINES.get(row["gpu"].lower())
    if machine is None:
        raise ValueError(f"gpu: must be one of {', '.join(MACHINES)}, got {row['gpu']}")
    return machine


def gpu_of(machine: Machine, efficiency: str) -> Gpu:
    plain = OmegaConf.create({"efficiency": efficiency, "gpu": OmegaConf.load(CONFIGS / "gpu" / f"{machine.gpu}.yaml")})
    gpu: Gpu = instantiate(plain.gpu)
    flops = {rate: peak * machine.clock for rate, peak in gpu.flops.items()}
    return replace(gpu, flops=flops, **(machine.changed or {}))


def assumed(machine: Machine, row: Row, gpus: int) -> list[str]:
    """Return what is taken of the network of a row that does not say it."""
    several = gpus > len(load(machine.node).gpus)
    return [f"NIC={machine.nic / gbps(1):g} Gb/s"] if several and "Gb/s" not in row["notes"] else []


def model_of(row: Row, gpu: Gpu, per_server: int) -> LayerGraph:
    if "LoRA" in row["notes"]:
        raise ValueError("notes: must be training of all parameters, got LoRA")
    precision = {}
    if "nvfp4" in row["precision"].lower():
        precision = {"dense": "float4_e2m1fn_x2"}
    elif "fp8" in row["precision"].lower():
        precision = {"dense": "float8_e4m3fn"}
    elif "16" not in row["precision"]:
        raise ValueError(f"precision: must be of 16 bits, FP8 or NVFP4, got {row['precision']}")
    sizes = sizes_of(row["model"])
    framework = framework_of(row)
    shared: dict[str, Any] = {"gpus_per_server": per_server, "precision": precision, "sequence": whole(row, "seq")}
    if "experts" in sizes:
        return Moe(gpu, **shared, **sizes).build()
    of_framework = {name: getattr(framework, name) for name in ("attention", "eager_loss", "block_launch")}
    sizes = of_framework | sizes
    return Transformer(gpu, **shared, **sizes).build()


def sizes_of(model: str) -> dict[str, Any]:
    written = re.search(r"layers (\d+), hidden (\d+), heads (\d+)", model)
    if written:  # Narayanan et al., SC 2021, table 1
        return gpt(*map(int, written.groups()), attention="unfused")
    name = model.lower().split(",")[0]
    plain = re.sub(r"\W|_", "", name.replace("llama-3.1", "llama3").replace("llama 3.1", "llama3"))
    sizes = MODELS.get(name, MODELS.get(plain.replace("llama31", "llama3")))
    if sizes is None:
        raise ValueError(f"model: must be one of {', '.join(MODELS)}, got {model}")
    part = re.search(r", (\d+) layers", model)
    if not part:
        return sizes
    # MooreThreads/SimuMax 1b8ca90b, run_pretrain_deepseekv2.sh: the first layer of a part is dense, the others are not
    return sizes | {"layers": int(part[1])} | ({"dense_layers": 1} if sizes.get("dense_layers") else {})


def strategy_of(row: Row, fields: Mapping[str, str]) -> Parallel:
    degrees = {name: positive(name, fields[name]) for name in ("tp", "pp", "cp", "ep", "vpp", "micro_batch", "dp")}
    framework = framework_of(row)
    words = "; ".join(row[name] for name in ("model", "recompute", "notes"))
    reduced_wide = row["precision"].startswith("amp")  # Composer's mixed_precision "DEFAULT": reduce_dtype float32
    return Parallel(
        tensor=degrees["tp"],
        pipeline=degrees["pp"],
        context=degrees["cp"],
        expert=degrees["ep"],
        virtual=degrees["vpp"],
        micro_batch=degrees["micro_batch"],
        recompute=fields["recompute"],
        zero=zero_of(row, degrees["pp"]),
        reduce_dtype="float32" if reduced_wide else framework.reduce_dtype,
        bucket_bytes=framework.schedule(row)[2],
        sequence_parallel=re.search(framework.sequence_parallel, words) is not None,
        async_tensor=re.search(framework.async_tensor, words) is not None,
    )


def zero_of(row: Row, pipeline: int) -> int:
    """Return the stage of ZeRO; FSDP2 in a pipeline keeps gathered parameters, so that only its state is divided."""
    text = row["zero"].lower()
    if "fsdp" in text and not text.startswith(("1", "2")):
        return 3 if pipeline == 1 else 1
    return int(text[0]) if text[:1] in ("1", "2", "3") else 0


def framework_of(row: Row) -> Framework:
    return next((known for name, known in FRAMEWORKS.items() if row["source"].startswith(name)), Framework())


def network(machine: Machine, gpu: Gpu, gpus: int, rule: Parallel) -> Attached | IdealSwitch:
    """Return nodes on an ideal switch, with their GPUs as endpoints or folded, else a switch for servers."""
    node, stage = load(machine.node), gpus // rule.pipeline
    node_gpus = len(node.gpus)
    whole_nodes = stage % min(gpus, node_gpus) == 0
    if gpus <= MAX_UNFOLDED_GPUS and not (whole_nodes and rule.expert == 1):
        return Attached(IdealSwitch(machine.nic, 1, us(1)), Cluster(node, gpus))
    per_node = max(divisor for divisor in range(1, node_gpus + 1) if stage % divisor == 0)
    if rule.expert == 1:
        return Attached(IdealSwitch(machine.nic, 1, us(1)), Cluster(node, gpus, per_node), folded=True)
    per_server = min(stage, 8 if node_gpus == 8 else 4)
    rate = gpu.exchange_bandwidth if node_gpus > 8 else machine.nic
    return IdealSwitch(rate, per_server, us(1))


def simulated(workload: LayerGraph, strategy: Strategy, design: Attached | IdealSwitch) -> float:
    traffic = lower(workload, strategy)
    fabric = design.build(strategy.servers, traffic.demand())
    how = "nccl" if isinstance(design, Attached) else "hierarchical"
    world = place(traffic, fabric, name="row", all_reduce=how, rings="flows")
    return float(Fluid(merge=MERGE).simulate([world])[0].makespan)


if __name__ == "__main__":
    main(sys.argv[1:])
