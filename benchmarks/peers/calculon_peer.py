"""Calculon (Isaev et al., SC 2023) as a peer: its iteration time for the same model, degrees and batch.

Needs a checkout of github.com/calculon-ai/calculon. The systems are its own files; that of the A100 and the execution
are those of its validation against Korthikanti et al. (``validation/seqsel/tab5``). It has GPTs whose feed-forward
layers are two matrices, on A100 and H100 with 80 GB, under tensor, pipeline and data parallelism.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from topoflow.strategy.parallel import Parallel
from topoflow.workload.transformer import Transformer

SYSTEMS = {"a100": "a100_80g.json", "h100": "h100_80g_nvl8.json"}
RECOMPUTE = {"none": "none", "selective": "attn_only", "full": "full"}
NODE_GPUS = 8
UNLIMITED = 10**6  # GiB: the runs ran, so whether Calculon expects them to fit is not asked


class Calculon:
    """The library of a checkout. Raises ``ValueError`` if ``path`` is none."""

    def __init__(self, path: Path) -> None:
        if not (path / "calculon" / "llm" / "llm.py").is_file():
            raise ValueError(f"calculon: must be a checkout of calculon-ai/calculon, got {path}")
        sys.path.insert(0, str(path))
        from calculon import System
        from calculon.llm import Llm

        self._llm, self._system = Llm, System
        self._systems = {gpu: json.loads((path / "systems" / file).read_text()) for gpu, file in SYSTEMS.items()}
        for system in self._systems.values():
            system["mem1"]["GiB"] = UNLIMITED

    def iteration_time(self, gpu: str, model: Transformer, recipe: Parallel, gpus: int, batch: int) -> float:
        """Return the seconds of an iteration of ``batch`` samples. Raises ``ValueError`` if Calculon cannot say it."""
        if model.gated or model.key_value_heads != model.heads:
            raise ValueError("Calculon has GPTs with two matrices in a feed-forward layer and as many keys as queries")
        if gpu not in self._systems or recipe.context > 1 or recipe.expert > 1 or recipe.zero > 1:
            raise ValueError("Calculon has A100 and H100, no context or expert ranks, whole parameters and gradients")
        if recipe.recompute not in RECOMPUTE:
            raise ValueError(f"Calculon has recompute {', '.join(RECOMPUTE)}")
        data = gpus // (recipe.tensor * recipe.pipeline)
        sharded = recipe.tensor > 1 and recipe.sequence_parallel
        execution = {
            "num_procs": gpus,
            "tensor_par": recipe.tensor,
            "pipeline_par": recipe.pipeline,
            "data_par": data,
            "tensor_par_net": 0,
            "pipeline_par_net": int(gpus > NODE_GPUS),
            "data_par_net": int(recipe.tensor * data > NODE_GPUS),
            "batch_size": batch,
            "microbatch_size": recipe.micro_batch,
            "datatype": "float16",
            "fused_activation": False,
            "attention_type": "multihead",
            "activation_recompute": RECOMPUTE[recipe.recompute],
            "pipeline_interleaving": recipe.virtual,
            "optimizer_sharding": recipe.zero == 1 and data > 1,
            "tensor_par_comm_type": "rs_ag" if sharded else "ar",
            "tensor_par_overlap": "none",
            "seq_par_ag_redo": sharded and recipe.recompute != "full",  # which it does not combine
            "data_par_overlap": False,
            "weight_offload": False,
            "activations_offload": False,
            "optimizer_offload": False,
            "training": True,
        }
        sizes = {
            "hidden": model.hidden,
            "feedforward": model.feed_forward,
            "seq_size": model.sequence,
            "attn_heads": model.heads,
            "attn_size": model.hidden // model.heads,
            "num_blocks": model.layers,
        }
        job = self._llm(self._llm.Application(sizes), logging.getLogger("calculon"))
        system = self._system(self._systems[gpu])
        try:
            job.compile(system, self._llm.Execution.from_json(execution))
            job.run(system)
        except (self._llm.Error, AssertionError) as error:
            raise ValueError(f"Calculon has no such run: {error}") from None
        return float(job.get_total_time())
