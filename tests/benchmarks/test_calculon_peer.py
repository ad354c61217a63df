"""Calculon is asked for the run that a row says, and for no other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peers.calculon_peer import Calculon

import topoflow
from topoflow.strategy.parallel import Parallel
from topoflow.workload.transformer import Transformer

LIBRARY = """
class Error(Exception):
    pass

class Execution(dict):
    @classmethod
    def from_json(cls, execution):
        return cls(execution)

class Llm:
    Error, Execution, Application = Error, Execution, dict

    def __init__(self, sizes, log):
        self.sizes = sizes

    def compile(self, system, execution):
        if execution["num_procs"] > 3072:
            raise Error("too many")
        print(self.sizes, dict(execution))

    def run(self, system):
        pass

    def get_total_time(self):
        return 2
"""


@pytest.fixture
def calculon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calculon]:
    """A checkout whose library prints what it is asked."""
    for file, text in {
        "calculon/__init__.py": "System = dict",
        "calculon/llm/__init__.py": "from calculon.llm.llm import Llm",
        "calculon/llm/llm.py": LIBRARY,
        "systems/a100_80g.json": '{"mem1": {}}',
        "systems/h100_80g_nvl8.json": '{"mem1": {}}',
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield Calculon(tmp_path)
    for module in [name for name in sys.modules if name.partition(".")[0] == "calculon"]:
        del sys.modules[module]


def gpt(**fields: Any) -> Transformer:
    return Transformer(
        topoflow.gpus.a100(), layers=80, hidden=12288, heads=96, key_value_heads=96, feed_forward=49152, **fields
    )


@pytest.mark.parametrize(("recompute", "sharded"), [("full", False), ("full", True), ("selective", True)])
def test_it_is_asked_for_the_degrees_and_networks_of_a_run(
    calculon: Calculon, capsys: pytest.CaptureFixture[str], recompute: str, sharded: bool
) -> None:
    recipe = Parallel(tensor=8, pipeline=8, micro_batch=1, virtual=5, recompute=recompute)
    recipe = replace(recipe, sequence_parallel=sharded)
    assert calculon.iteration_time("a100", gpt(), recipe, 1536, 2304) == 2.0
    (said,) = capsys.readouterr().out.splitlines()
    assert "'hidden': 12288, 'feedforward': 49152, 'seq_size': 1024, 'attn_heads': 96, 'attn_size': 128" in said
    degrees = "'num_procs': 1536, 'tensor_par': 8, 'pipeline_par': 8, 'data_par': 24, 'tensor_par_net': 0"
    assert f"{degrees}, 'pipeline_par_net': 1, 'data_par_net': 1, 'batch_size': 2304, 'microbatch_size': 1" in said
    assert "'pipeline_interleaving': 5, 'optimizer_sharding': False" in said
    assert f"'tensor_par_comm_type': '{'rs_ag' if sharded else 'ar'}'" in said
    assert f"'seq_par_ag_redo': {sharded and recompute != 'full'}" in said


@pytest.mark.parametrize(
    ("gpu", "model", "recipe", "gpus"),
    [
        ("b200", gpt(), Parallel(), 8),
        ("a100", gpt(gated=True), Parallel(), 8),
        ("a100", gpt(), Parallel(context=2), 8),
        ("a100", gpt(), Parallel(zero=3), 8),
        ("a100", gpt(), Parallel(recompute="selective_op"), 8),
        ("a100", gpt(), Parallel(), 4096),
    ],
)
def test_what_it_cannot_say_is_not_asked(
    calculon: Calculon, gpu: str, model: Transformer, recipe: Parallel, gpus: int
) -> None:
    with pytest.raises(ValueError, match=r"^Calculon has "):
        calculon.iteration_time(gpu, model, recipe, gpus, 8)


def test_a_folder_without_it_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^calculon: must be a checkout of calculon-ai/calculon, got "):
        Calculon(tmp_path)
