"""The last line of a command says where its result is and what to try next."""

from __future__ import annotations

import json
import shlex

import pytest

import topoflow
from topoflow.cli import main

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "fabric=ring")
TRACE = "examples/ddp_4_ranks.jsonl.gz"
REPLAY = "topoflow compare workload=captured workload.trace="


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", *SMALL], "Add out=DIR for report.html"),
        (["compare", *SMALL, "out={out}"], "Open {out}/report.html"),
        (["search", *SMALL, "search.proposals=8"], "Add out=DIR for report.html"),
        (["place", "requests.count=9"], "Add out=DIR for report.html"),
        (["simulate", "world=examples/two_flows.json"], "Add out=DIR: when each task ran is in flows.csv"),
        (["simulate", "world=examples/two_flows.json", "out={out}"], "in links.csv, in {out}."),
        (["inspect", TRACE], f"{REPLAY}{TRACE} replays it"),
        (["capture", "import", TRACE, "--out", "{out}.jsonl"], f"{REPLAY}{{out}}.jsonl replays it"),
    ],
)
def test_the_last_line_says_what_to_try_next(arguments, words, tmp_path, capsys) -> None:
    out = str(tmp_path / "out")
    assert main([argument.format(out=out) for argument in arguments]) == 0
    assert words.format(out=out) in capsys.readouterr().out.splitlines()[-1]


RECIPE = """--num-layers 2 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --vocab-size 1024 --bf16
--global-batch-size 16 --tensor-model-parallel-size 2 --use-distributed-optimizer"""


@pytest.mark.parametrize(
    ("job", "kept"),
    [
        (
            ["model=transformer", "workload.layers=2", "global_batch=8"],
            ["strategy.sequence_parallel=false", "strategy.reduce_dtype=float32", "strategy.tensor=4"],
        ),
        ([], ["recipe={folder}/gpt.txt"]),
    ],
)
def test_the_comparison_of_a_found_recipe_takes_as_long_as_the_search_said(job, kept, tmp_path, capsys) -> None:
    """Keys that no recipe chooses are kept, as those of another program's file."""
    (tmp_path / "gpt.txt").write_text(RECIPE)
    kept = [text.format(folder=tmp_path) for text in kept]
    assert main(["search", "node=hgx_h100", "gpus=8", *job, *kept, f"out={tmp_path / 'found'}"]) == 0
    words = shlex.split(capsys.readouterr().out.partition("Compare it: topoflow compare ")[2].partition("Open ")[0])
    assert set(kept) <= set(words)
    (searched,) = json.loads((tmp_path / "found" / "recipes.json").read_text())
    (result,) = topoflow.compare(*words)
    assert result.iteration_time == searched["best"][0]["iteration_time"]
