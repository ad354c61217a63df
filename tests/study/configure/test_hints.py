"""A key that is not there is answered with the key, or the command, that was probably meant; a file with its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from topoflow.cli import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("compare workload.gpu.memory=80e9", "workload.gpu.memory: no such key; did you mean gpu.memory?"),
        ("search workload.gpu.memry=80e9", "workload.gpu.memry: no such key; did you mean gpu.memory?"),
        ("compare strategy.tensor=4", "strategy.tensor: no such key; strategy=parallel has it"),
        ("compare fabric.dims=[4,4]", "fabric.dims: no such key; fabric=torus and 1 more have it"),
        ("compare fabric.bandwidth.x=1", "fabric.bandwidth.x: no such key; did you mean fabric.bandwidth?"),
        ("search fail.fibers=[1]", "fail.fibers: no such key of topoflow search; topoflow compare has fail"),
        ("search rings=flows", "rings: no such key of topoflow search; topoflow compare has rings"),
        ("compare search.proposals=5", "search.proposals: no such key of topoflow compare; topoflow search has search"),
        ("compare experiment=topoopt_fig14", "experiment: no such key; must be one of"),
        ("experiment topoopt_fig11 out=out experiment.basline=x", "experiment.basline: no such key; did you mean exp"),
        ("experiment topoopt_fig11 out=out search.proposals=a=b", "'search.proposals=a=b': must be KEY=VALUE in Hydra"),
        ("compare +workload.gpu.x=1", "workload.gpu: must be a config with a _target_, got {'x': 1}"),
    ],
)
def test_a_key_of_somewhere_else_is_said_where(command: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow {command.split()[0]}: {hint}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("compare workload=captured workload.trace=no/trace", "workload.trace"),
        ("search workload=captured workload.trace=no/trace", "workload.trace"),
        ("compare fabric=links fabric.file=no/links.csv", "fabric.file"),
        ("search fabric=links fabric.file=no/links.csv", "fabric.file"),
        ("simulate world=no/world.json", "world"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_key(
    command: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    value = command.rpartition("=")[2]
    assert capsys.readouterr().err == f"topoflow {command.split()[0]}: {key}={value}: No such file or directory\n"


@pytest.mark.parametrize(
    "command",
    ["compare fabric=ring", "search", "experiment topoopt_fig14", "simulate world=examples/two_flows.json"],
)
def test_a_folder_that_cannot_be_made_is_known_before_the_work(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*command.split(), "out=/proc/self/out"]) == 2
    error = capsys.readouterr().err
    message = "out: must be a folder that can be written, got /proc/self/out ("
    assert error.startswith(f"topoflow {command.split()[0]}: {message}")
