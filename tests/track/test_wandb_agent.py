"""``wandb agent ENTITY/PROJECT/SWEEP``, the command, against what it asks of W&B's server, answered on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SMALL = "wandb=offline, wandb.timeout=300, workload.tables=4, workload.rows=1000"
OPERATION = re.compile(r"(?:query|mutation)\s+(\w+)")


@dataclass
class Server:
    """Answers an agent's requests: it is given the points in turn; ``stops`` says whether one that runs is to end."""

    sweep: str
    points: dict[str, dict[str, Any]]  # by the id of the run
    stops: Callable[[str], bool] = lambda run: False
    requests: list[tuple[str, Any]] = field(default_factory=list)  # operations and variables
    started: list[str] = field(default_factory=list)  # ids of the runs that it has asked the agent to start
    refused: list[str] = field(default_factory=list)  # what this server does not know

    def answer(self, query: str, variables: Any) -> dict[str, Any] | None:
        """The data of a request; None: it is none of those that an agent was seen to make."""
        match = OPERATION.search(query)
        name = "" if match is None else match[1]
        self.requests.append((name, variables))
        if name == "Viewer":
            return {"viewer": {"id": "id", "entity": "nobody", "username": "nobody", "flags": "{}", "teams": None}}
        if name == "SweepWithRuns":
            is_known = (variables["entity"], variables["project"], variables["sweep"]) == ("nobody", "none", "night")
            return {"project": {"sweep": {"config": self.sweep, "runs": {"edges": []}} if is_known else None}}
        if name == "CreateAgent":
            return {"createAgent": {"agent": {"id": "agent"}}}
        if name == "Heartbeat":
            commands = self.commands(json.loads(variables["runState"]))
            return {"agentHeartbeat": {"agent": {"id": "agent"}, "commands": json.dumps(commands)}}
        self.refused.append(query)
        return None

    def commands(self, running: dict[str, bool]) -> list[dict[str, Any]]:
        """For an agent that has said what runs."""
        if running:
            return [{"type": "stop", "run_id": run_id} for run_id in running if self.stops(run_id)]
        if len(self.started) == len(self.points):
            return [{"type": "exit"}]
        run, point = [*self.points.items()][len(self.started)]
        self.started.append(run)
        values = {key: {"value": value} for key, value in point.items()}
        return [{"type": "run", "run_id": run, "program": "topoflow", "args": values}]

    @contextmanager
    def address(self) -> Iterator[str]:
        """Where it answers, meanwhile."""

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                content = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
                data = None
                if handler.path == "/graphql":
                    request = json.loads(content)
                    data = self.answer(request["query"], request.get("variables"))
                errors = {"errors": [{"message": "not known here"}]}
                handler.send_response(404 if data is None else 200)  # metrics of W&B's own go elsewhere: 404
                handler.send_header("Content-Type", "application/json")
                handler.end_headers()
                handler.wfile.write(json.dumps(errors if data is None else {"data": data}).encode())

            def log_message(handler, *arguments: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()


def agent(server: Server, folder: Path, sweep: str = "nobody/none/night") -> subprocess.CompletedProcess[str]:
    """``wandb agent``, a process of its own, until it ends."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    environment |= {"TOPOFLOW_RUNS": str(folder / "runs")}
    environment |= {"WANDB_DIR": str(folder), "WANDB_API_KEY": "0" * 40, "TMPDIR": str(folder)}
    with server.address() as address:
        environment["WANDB_BASE_URL"] = address
        command = [str(Path(sys.executable).parent / "wandb"), "agent", sweep]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=600)


def documented() -> str:
    """The sweep of the documentation, of a small job and offline."""
    text = (ROOT / "docs" / "track.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    assert "wandb=online" in text
    return text.replace("wandb=online", SMALL)


@pytest.mark.slow  # the agent looks every 5 s at what has ended
def test_the_agent_runs_the_sweep_of_the_documentation_and_stops_what_it_should(
    tmp_path: Path, wandb_runs: Any
) -> None:
    points = {
        "first": {"fabric": "fat_tree", "bandwidth_gbps": 25},
        "endless": {"servers": 512, "fidelity": "packet", "workload.batch_per_gpu": 10_000_000},  # some hours
        "last": {"fabric": "torus", "bandwidth_gbps": 400},
    }
    server = Server(documented(), points, lambda run: run == "endless" and any(tmp_path.glob(f"wandb/*-{run}")))
    completed = agent(server, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert not server.refused
    assert server.started == [*points]
    (killed,) = tmp_path.glob("wandb/offline-run-*-endless")  # by SIGTERM: nobody has written its end
    shutil.rmtree(killed)
    runs = {run.run.run_id: run for run in wandb_runs(tmp_path)}
    for name in ("first", "last"):
        tracked = runs[name]
        assert {key: tracked.config[key] for key in points[name]} == points[name]  # as the sweep names them
        assert "topoflow compare" in tracked.config["command"]
        assert yaml.safe_load(documented())["metric"]["name"] in tracked.summary
        assert tracked.exit_code == 0
    results = [json.loads(path.read_text())["rows"] for path in tmp_path.glob("runs/*/result.json")]
    assert sorted(row["config"]["bandwidth_gbps"] for (row,) in results) == [25, 400]


@pytest.mark.slow
def test_a_sweep_that_the_server_does_not_have_starts_nothing(tmp_path: Path, wandb_runs: Any) -> None:
    server = Server(documented(), {"first": {"fabric": "ring"}})
    done = agent(server, tmp_path, "nobody/none/day")
    assert done.returncode != 0
    assert "Sweep nobody/none/day not found" in done.stderr
    assert not [*tmp_path.glob("runs/*")]
    assert [name for name, _ in server.requests][-1] == "SweepWithRuns"
