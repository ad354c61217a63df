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


def test_the_comparison_of_a_found_recipe_takes_as_long_as_the_search_said(tmp_path, capsys) -> None:
    """Keys that no recipe chooses are kept: tensor ranks repeat norms, and gradients are reduced in 32 bits."""
    job = ["model=transformer", "workload.layers=2", "node=hgx_h100", "gpus=8", "global_batch=8"]
    kept = ["strategy.sequence_parallel=false", "strategy.reduce_dtype=float32", "strategy.tensor=4"]
    assert main(["search", *job, *kept, f"out={tmp_path / 'found'}"]) == 0
    words = shlex.split(capsys.readouterr().out.partition("Compare it: topoflow compare ")[2].partition("Open ")[0])
    assert set(kept) <= set(words)
    (searched,) = json.loads((tmp_path / "found" / "recipes.json").read_text())
    (result,) = topoflow.compare(*words)
    assert result.iteration_time == searched["best"][0]["iteration_time"]
