"""Runs as trackers have them, read back by the trackers' own readers."""

from __future__ import annotations

import importlib
import json
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

import topoflow
from topoflow.cli import compare as compare_verb
from topoflow.cli import main
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.options import options
from topoflow.track import trackers

ROOT = Path(__file__).parents[2]
SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000")
OFFLINE = ("wandb=offline", "wandb.timeout=300")  # a busy machine starts the process of W&B late
SEARCH = ("search", *SMALL, "search.proposals=64", "search.rounds=1")


@pytest.mark.parametrize("name", trackers())
def test_a_tracker_is_a_module_and_a_config_group_of_its_name(name: str) -> None:
    files = [*(ROOT / "src" / "topoflow" / "configs" / name).glob("*.yaml")]
    assert files
    for file in files:
        config = yaml.safe_load(file.read_text())
        if "defaults" not in config:
            module, _, target = config["_target_"].rpartition(".")
            assert (module, target.lower()) == (f"topoflow.track.{name}", name)
            assert hasattr(importlib.import_module(module), target)


def test_a_comparison_in_wandb_has_config_table_pictures_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb_runs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "compare",
        *SMALL,
        "fabric=ring,torus",
        "out=out",
        *OFFLINE,
        f"wandb.dir={tmp_path}",
        "wandb.tags=[night]",
        "wandb.project=p",
    ]
    assert main(words) == 0
    assert "wandb sync uploads it" in capsys.readouterr().err
    (run,) = wandb_runs(tmp_path)
    rows = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    assert (run.run.project, run.run.job_type, [*run.run.tags]) == ("p", "compare", ["compare", "night"])
    assert run.config["servers"] == 4
    assert run.config["fabric"]["_target_"] == ["topoflow.fabric.ring.Ring", "topoflow.fabric.torus.Torus"]
    assert run.config["command"].startswith("topoflow compare servers=4")
    assert run.summary["iteration_time"] == min(row["iteration_time"] for row in rows)
    (table,) = (run.folder / "files" / "media" / "table").glob("worlds*.json")
    content = json.loads(table.read_text())
    times = [row[content["columns"].index("iteration_time")] for row in content["data"]]
    assert times == [row["iteration_time"] for row in rows]
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert run.artifacts["topoflow"] == written
    assert {"report.html", "result.json"} < written
    pictures = {name for name in written if name.endswith(".png")}
    assert {key for key in run.summary if key.startswith("pictures/")} >= {f"pictures/{name}/path" for name in pictures}
    assert run.exit_code == 0


def test_a_search_is_logged_in_all_trackers_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb_runs: Any
) -> None:
    pytest.importorskip("tensorboardX", reason="needs the extra tensorboard")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOPOFLOW_RUNS", str(tmp_path / "runs"))
    chosen = [*OFFLINE, f"wandb.dir={tmp_path}", "tensorboard=on", "tensorboard.dir=board"]
    assert main([*SEARCH, "fabric=ring", *chosen]) == 0
    (run,) = wandb_runs(tmp_path)
    went = [entry for entry in run.history if "ring/acceptance" in entry]
    assert went
    assert all(0 <= entry["ring/acceptance"] <= 1 for entry in went)
    assert any(entry["ring/rate"] > 0 for entry in went)
    times = [entry["ring/time"] for entry in run.history if "ring/time" in entry]
    assert times == sorted(times, reverse=True)
    assert run.summary["iteration_time"] <= times[-1]
    assert {"plan.json", "result.json"} == run.artifacts["topoflow"]
    (events,) = (tmp_path / "board").glob("*/events*")
    scalars = dict(_scalars(events))
    assert scalars["ring/time"] == pytest.approx(times, rel=1e-6)  # TensorBoard keeps 32 bits
    assert scalars["iteration_time"] == pytest.approx([run.summary["iteration_time"]], rel=1e-6)


def _scalars(path: Path) -> list[tuple[str, list[float]]]:
    """Numbers of a file of events by their tags, in its order, by the message classes of TensorBoard."""
    from tensorboardX.proto.event_pb2 import Event

    data, at, scalars = path.read_bytes(), 0, dict[str, list[float]]()
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        for value in Event.FromString(data[at + 12 : at + 12 + length]).summary.value:
            if value.HasField("simple_value"):
                scalars.setdefault(value.tag, []).append(value.simple_value)
        at += 16 + length
    return [*scalars.items()]


@pytest.mark.slow
def test_jobs_of_a_multirun_are_runs_of_one_group(tmp_path: Path, topoflow_cli: Any, wandb_runs: Any) -> None:
    words = ["compare", "-m", *SMALL, "fabric=ring,torus", *OFFLINE, f"hydra.sweep.dir={tmp_path}/night"]
    for launcher in ("basic", "topoflow_batch"):
        done = topoflow_cli(*words, f"hydra/launcher={launcher}", f"wandb.dir={tmp_path}/{launcher}")
        assert done.returncode == 0, done.stderr
        runs = wandb_runs(tmp_path / launcher)
        assert [run.run.run_group for run in runs] == ["night", "night"]
        assert len({run.summary["iteration_time"] for run in runs}) == 2
        assert all(run.artifacts["topoflow"] == {"result.json"} for run in runs)


@pytest.mark.slow
def test_a_figure_is_a_run_and_its_points_do_not_depend_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb_runs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["experiment", "topoopt_fig14", "servers=4", "workload.tables=4", "out=out"]
    assert main(words) == 0
    before = (tmp_path / "out" / "checkpoint.jsonl").read_bytes()
    assert main([*words, *OFFLINE, f"wandb.dir={tmp_path}"]) == 0
    assert (tmp_path / "out" / "checkpoint.jsonl").read_bytes() == before
    (run,) = wandb_runs(tmp_path)
    points = len(before.splitlines())
    assert f"Continuing from {points} of {points} points" in capsys.readouterr().out
    assert run.run.job_type == "experiment"
    assert {"rows.csv", "result.json", "report.html"} < run.artifacts["topoflow"]


def test_mlflow_has_parameters_metrics_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="needs the extra mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    results = topoflow.compare(*SMALL, "mlflow=on", f"mlflow.uri='{uri}'", fabric="ring", out=str(tmp_path / "out"))
    client = tracking.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("topoflow").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["iteration_time"] == results[0].iteration_time
    assert run.data.params["servers"] == "4"
    assert {"result.json", "report.html", "worlds.json"} <= {
        artifact.path for artifact in client.list_artifacts(run.info.run_id)
    }


@pytest.mark.parametrize("why", ["no key", "no network"])
def test_without_a_key_or_a_network_the_answer_is_given(
    why: str, topoflow_cli: Any, tmp_path: Path, wandb_runs: Any
) -> None:
    """The network is one where nobody listens: a port of this machine that is taken, but not listening."""
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        environment = {"WANDB_BASE_URL": f"http://127.0.0.1:{occupied.getsockname()[1]}", "HOME": str(tmp_path)}
        if why == "no network":
            environment["WANDB_API_KEY"] = "0" * 40
        words = ["compare", *SMALL, "fabric=ring", "wandb=online", "wandb.timeout=2", f"wandb.dir={tmp_path}"]
        done = topoflow_cli(*words, environment=environment)
    assert done.returncode == 0
    assert "ring takes" in done.stdout
    messages = [line for line in done.stderr.splitlines() if line.startswith("wandb: the run is not logged")]
    assert len(messages) == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_a_project_that_the_server_does_not_have_is_named(topoflow_cli: Any, tmp_path: Path, wandb_runs: Any) -> None:
    """A server that refuses whatever it is asked stands for W&B's, which was not tried."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b'{"errors": [{"message": "project not found"}]}')

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        environment = {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "HOME": str(tmp_path)}
        environment["WANDB_API_KEY"] = "0" * 40
        chosen = ["wandb=online", "wandb.project=none", "wandb.entity=nobody", f"wandb.dir={tmp_path}"]
        done = topoflow_cli("compare", *SMALL, "fabric=ring", *chosen, environment=environment)
        server.shutdown()
    assert done.returncode == 0
    (message,) = (line for line in done.stderr.splitlines() if "not logged" in line)
    assert message.endswith(": wandb.project=none of wandb.entity=nobody: project not found")


def test_the_command_of_the_agent_in_the_documentation_is_one_of_topoflow(
    tmp_path: Path, wandb_runs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``wandb agent`` needs a server; what it would start for a point of the documented sweep is run here."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "track.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    sweep = yaml.safe_load(text)
    chosen = {key: {"value": parameter["values"][-1]} for key, parameter in sweep["parameters"].items()}
    words = utils.create_sweep_command_args({"args": chosen})["args_no_hyphens"]
    command = [
        argument for word in sweep["command"] for argument in (words if word == "${args_no_hyphens}" else [word])
    ]
    assert command[0] == "topoflow"
    offline = [word.replace("wandb=online", "wandb=offline") for word in command[1:]]
    assert (
        main([*offline, "wandb.timeout=300", "workload.tables=4", "workload.rows=1000", f"wandb.dir={tmp_path}"]) == 0
    )
    (run,) = wandb_runs(tmp_path)
    assert sweep["metric"]["name"] in run.summary


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wandb=on"], "wandb: must be one of offline, online, got 'on'"),
        (["wandb.project=x"], "wandb"),
        (["wandb=offline", "wandb.tags=[1]"], "wandb.tags: must be texts of 1 to 64 letters, got 1"),
        (["wandb=offline", "wandb.timeout=0"], "wandb.timeout: must be positive, got 0"),
        (["wandb=offline", "wandb.projekt=x"], "wandb.projekt: no such key; did you mean wandb.project?"),
        (["wandb=offline,online"], "wandb: must be one for all, got several"),
    ],
)
def test_what_is_wrong_is_a_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *SMALL, "fabric=ring", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow compare: {message}"), error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", trackers())
def test_a_tracker_that_is_missing_is_known_before_the_work(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing(*arguments: Any) -> Any:
        raise AssertionError("nothing is simulated")

    (option, *_) = options(name)
    (point,) = grid([*SMALL, "fabric=ring", f"{name}={option}"], check)
    tracker = build(point, name)
    monkeypatch.setitem(sys.modules, tracker.PACKAGE, None)  # as where it is not installed
    monkeypatch.setattr(compare_verb, "compare", nothing)
    monkeypatch.setattr(compare_verb, "compare_each", nothing)
    message = rf"^{name}: must be left out where its package is not installed \(pip install 'topoflow\[{name}\]'\)"
    for run in (
        lambda: compare_verb.answer([point], "topoflow compare"),
        lambda: compare_verb.answer_each([point], ["topoflow compare"], [tmp_path]),
    ):
        with pytest.raises(ValueError, match=message):
            run()


def test_trackers_are_imported_only_where_they_are_chosen() -> None:
    script = (
        "import sys; from topoflow.cli import main\n"
        f"main(['compare', *{SMALL!r}, 'fabric=ring'])\n"
        "assert not {'wandb', 'mlflow', 'tensorboardX', 'ray', 'optuna', 'submitit', 'duckdb'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
