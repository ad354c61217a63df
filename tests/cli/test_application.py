"""The verbs are applications of Hydra: jobs, folders, files of the user, and a launcher that makes one batch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

PLUGIN = Path(__file__).resolve().parents[2] / "src" / "hydra_plugins" / "topoflow_batch"
SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64")
GRID = ("fabric=ring,torus", "bandwidth_gbps=0.5,1e2")
DRIVER = """
import contextlib, io, json, sys
from topoflow.cli import main
from topoflow.report.draw import pictures
pictures.png = lambda figure: b""  # no test here looks at pixels
for words in json.loads(sys.argv[1]):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(words)
    print(json.dumps([code, out.getvalue(), error.getvalue()]))
"""
Commands = Callable[..., list[tuple[int, str, str]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hydra")


@pytest.fixture(scope="module")
def commands(folder: Path) -> Commands:
    """``commands(["compare", ...], ...)``: code, stdout and stderr of each, run in a process of their own."""

    def run(*words: list[str]) -> list[tuple[int, str, str]]:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, json.dumps(words)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "TOPOFLOW_RUNS": str(folder / "runs")},
            timeout=240,
            check=True,
        )
        return [tuple(json.loads(line)) for line in done.stdout.splitlines()]

    return run


@pytest.fixture(scope="module")
def swept(commands: Commands, folder: Path) -> Path:
    """A multirun by Hydra's own launcher in ``basic``, by ours in ``batch``, and as one comparison in ``comma``."""
    multirun = ["compare", "--multirun", *GRID, *SMALL]
    for code, _, error in commands(
        [*multirun, "hydra.sweep.dir=basic"],
        [*multirun, "hydra.sweep.dir=batch", "hydra/launcher=topoflow_batch"],
        ["compare", *GRID, *SMALL, "hydra.run.dir=comma"],
    ):
        assert code == 0, error
    return folder


def rows(folder: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())["rows"]
    return records


def test_the_jobs_of_a_multirun_are_the_rows_of_a_comparison(swept: Path) -> None:
    together = rows(swept / "comma")
    assert len(together) == 4
    for number, row in enumerate(together):
        (alone,) = rows(swept / "basic" / str(number))
        compared = set(row) - {"world", "overrides", "config"}
        assert {key: alone[key] for key in compared} == {key: row[key] for key in compared}
        assert alone["config"]["bandwidth_gbps"] == row["config"]["bandwidth_gbps"]


def test_one_batch_leaves_the_files_of_jobs_one_after_the_other(swept: Path) -> None:
    files = sorted(path.relative_to(swept / "basic") for path in (swept / "basic").glob("*/**/*.*") if path.is_file())
    assert len(files) == 4 * 5
    for file in files:
        if file.suffix == ".log":
            assert (swept / "batch" / file.name).read_text().count("\n") >= 1
            continue
        basic, batch = ((swept / launcher / file).read_text() for launcher in ("basic", "batch"))
        if file.name == "hydra.yaml":
            basic, batch = (
                _without_launcher(text, launcher) for text, launcher in ((basic, "basic"), (batch, "batch"))
            )
        assert batch == basic, file


def _without_launcher(text: str, directory: str) -> str:
    """``hydra.yaml`` but for what was asked for differently."""
    config = yaml.safe_load(text)["hydra"]
    config["launcher"]["_target_"] = config["runtime"]["choices"]["hydra/launcher"] = ""
    config["overrides"]["hydra"] = [override for override in config["overrides"]["hydra"] if "launcher" not in override]
    return (
        yaml.dump(config, sort_keys=False)
        .replace(f"/{directory}/", "/")
        .replace(f"dir={directory}", "")
        .replace(f"dir: {directory}\n", "")
    )


def test_the_folder_of_one_job_has_what_its_points_share(swept: Path) -> None:
    job = swept / "comma"
    assert yaml.safe_load((job / ".hydra" / "overrides.yaml").read_text()) == list(SMALL)
    assert yaml.safe_load((job / ".hydra" / "config.yaml").read_text())["servers"] == 4
    assert "topoflow compare" in (job / "compare.log").read_text()


@pytest.fixture(scope="module")
def mine(folder: Path) -> Path:
    """A folder of configurations of a user."""
    files = {
        "gpu/tiny.yaml": "defaults: [a100, _self_]\nname: Tiny\nmemory: 10e9\n",
        "fabric/thin.yaml": "defaults: [fat_tree, _self_]\noversubscription: 2\n",
        "fidelity/rough.yaml": "defaults: [fluid, _self_]\nmerge: 0.01\n",
        "experiment/small.yaml": "# @package _global_\ndefaults: [{override /fabric: thin}]\nservers: 4\n"
        "hydra: {sweeper: {params: null}}\n",
        "study.yaml": "defaults: [compare, {override fabric: thin}, _self_]\nservers: 4\n"
        "hydra: {sweeper: {params: {fabric: 'thin,ring'}}}\n",
    }
    for name, text in files.items():
        path = folder / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "mine"


def test_a_folder_of_the_user_has_files_like_those_of_topoflow(commands: Commands, mine: Path, folder: Path) -> None:
    cases = [
        (["--config-dir", "mine", "gpu=tiny", "fabric=glob(t*)", "servers=4"], ["thin", "topoopt", "torus"]),
        (["gpu=tiny", "fabric=thin,ring", "servers=4", "hydra.searchpath=[mine]"], ["thin", "ring"]),
        (["-cd", "mine", "+experiment=small", "fidelity=rough"], ["thin"]),
        (["-cd", "mine", "--config-name", "study", "gpu=tiny"], ["thin", "ring"]),
        (["-cd", "mine", "-m", "-cn", "study", "fabric=thin", "gpu=tiny", "hydra.sweep.dir=user4"], ["thin"]),
    ]
    outcomes = commands(
        *(["compare", *words, *SMALL[1:], f"hydra.run.dir=user{index}"] for index, (words, _) in enumerate(cases))
    )
    for index, ((words, expected), (code, _, error)) in enumerate(zip(cases, outcomes, strict=True)):
        assert code == 0, error
        results = rows(folder / f"user{index}" / ("0" if "-m" in words else ""))
        assert [row["fabric"] for row in results] == expected
        assert {row["config"]["servers"] for row in results} == {4}
        if "gpu=tiny" in words:
            assert {row["config"]["gpu"]["name"] for row in results} == {"Tiny"}
        if "fidelity=rough" in words:
            assert [row["config"]["rough"]["merge"] for row in results] == [0.01]


def test_configurations_are_printed_as_by_hydra(commands: Commands, mine: Path) -> None:
    arguments = ["compare", "--config-dir", "mine", "fabric=thin", "+workload.note=1", "~fail.rings"]
    job, part, info, words = commands(
        [*arguments, "--cfg", "job"],
        [*arguments, "--cfg", "all", "--package", "fabric", "--resolve"],
        ["compare", "-cd", "mine", "--info", "searchpath"],
        ["compare", "-sc", "install=bash"],
    )
    assert {outcome[0] for outcome in (job, part, info, words)} == {0}
    config = yaml.safe_load(job[1])
    assert config["workload"]["note"] == 1
    assert "rings" not in config["fail"]
    assert yaml.safe_load(part[1]) == {**config["fabric"], **yaml.safe_load(part[1])}
    assert yaml.safe_load(part[1])["bandwidth"] == 12.5e9  # 100 Gb/s
    assert "pkg://topoflow.configs" in info[1]
    assert "mine" in info[1]
    assert "hydra_bash_completion" in words[1]


@pytest.mark.parametrize(
    ("info", "lines"),  # each the first that its process reads
    [("defaults", ("fabric/ring", "fidelity/packet")), ("defaults-tree", ("fabric: ring", "fidelity@packet: packet"))],
)
def test_hydra_says_which_files_a_configuration_has(info: str, lines: tuple[str, ...], commands: Commands) -> None:
    ((code, out, error),) = commands(["compare", "--info", info, "fabric=ring"])
    assert (code, error) == (0, "")
    for line in lines:
        assert line in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topoflow comp", {"compare"}),
        ("topoflow compare fabric=t", {"fabric=torus", "fabric=topoopt"}),
        ("topoflow search search.ac", {"search.acceptance."}),
        ("topoflow compare -m fabric=torus fluid.", {"fluid.merge=", "fluid._target_="}),
        ("topoflow inspect fabric=t", set()),
    ],
)
def test_shells_complete_verbs_keys_and_files(line: str, words: set[str], topoflow_cli: Any) -> None:
    done = topoflow_cli("-sc", "query=bash", environment={"COMP_LINE": line})
    assert (done.returncode, set(done.stdout.split())) == (0, words)


WRONG = [
    (["-m", "fabrik=ring"], "fabrik: no such key; did you mean fabric?"),
    (["-m", "fabric=ring,rings"], "fabric: must be one of "),
    (["-m", "fabric=ring,torus", "servers=0"], "servers: must be a whole number of at least 1, got 0"),
    (["-m", "fabric=ring", "servers=2,4", "out=here"], "out: must be in the folder of each job of a multirun"),
    (["--config-dir", "nowhere"], "--config-dir: must be a folder, got 'nowhere'"),
    (["-m", "--config-dir", "nowhere"], "--config-dir: must be a folder, got 'nowhere'"),
    (["--config-name", "nowhere"], "Cannot find primary config 'nowhere'"),
    (["hydra/launcher=nowhere"], "hydra/launcher: must be one of "),
    (
        ["-m", "fabric=ring", "fidelity=packet", "fidelity.size=1"],
        "fidelity.size: settings of a fidelity must",
    ),
    (["-m", "hydra/launcher=[0,1]"], "hydra/launcher=[0,1] "),
    (["hydra="], "hydra: no such key"),
    (["hydra=1"], "hydra=1"),
    (["hydra.run.dir=null"], "hydra.run.dir: "),
    (["hydra.job.nane=1"], "hydra.job.nane: no such key; did you mean hydra.job.name?"),
    (["--cfg", "job", "--run"], "Only one of --run, --multirun, --cfg"),
]


def test_what_is_wrong_is_a_line(commands: Commands) -> None:
    outcomes = commands(*(["compare", *words, "hydra.sweep.dir=wrong"] for words, _ in WRONG))
    for (words, message), (code, _, error) in zip(WRONG, outcomes, strict=True):
        assert (code, error.splitlines()[-1].startswith(f"topoflow compare: {message}")) == (2, True), (words, error)
        assert "Traceback" not in error


def test_a_job_that_is_wrong_costs_no_other_its_result(commands: Commands, folder: Path) -> None:
    launchers = ("basic", "topoflow_batch")
    arguments = ["compare", "-m", "fabric=ring", "servers=2,4", "fail.servers=[3]", *SMALL[1:]]
    outcomes = commands(
        *([*arguments, f"hydra/launcher={launcher}", f"hydra.sweep.dir=partly_{launcher}"] for launcher in launchers)
    )
    for launcher, (code, _, error) in zip(launchers, outcomes, strict=True):
        assert code == 2
        assert "fail.servers: must be within 0..1, got 3" in error.splitlines()[-1]
        assert not (folder / f"partly_{launcher}" / "0" / "result.json").exists()
        assert len(rows(folder / f"partly_{launcher}" / "1")) == 1


def test_hydra_finds_the_launcher_of_an_installation_which_refuses_what_has_no_batch(tmp_path: Path) -> None:
    """As pip lays it out: Hydra runs every module whose name has no ``_`` in front, in each of its applications."""
    shutil.copytree(PLUGIN, tmp_path / "hydra_plugins" / PLUGIN.name)
    script = tmp_path / "app.py"
    script.write_text(
        "import hydra\n@hydra.main(version_base='1.3', config_path=None)\ndef app(cfg):\n    pass\napp()\n"
    )
    words = [sys.executable, str(script), "-m", "+a=1,2", "hydra/launcher=topoflow_batch"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=240)
    assert done.returncode == 1
    assert "hydra/launcher: must be of a function with a batch, as those of topoflow, got __main__.app" in done.stderr


APP = """
import hydra, topoflow
from hydra.core.hydra_config import HydraConfig

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def app(cfg):
    results = topoflow.compare(cfg.network)
    (mapped,) = topoflow.compare({"fabric": "ring", "servers": 2, "workload": {"tables": 4}})
    (typed,) = topoflow.compare("fabric=ring", "servers=2", "workload.tables=4")
    assert mapped.iteration_time == typed.iteration_time
    print(HydraConfig.get().job.name, HydraConfig.get().job.num, results[0].settings.config["seed"])
    print(results.fastest.iteration_time)

app()
"""
TRAIN = """
defaults: [{/fabric@network.fabric: fat_tree}, {/gpu@network.gpu: h100}, _self_]
nodes: 4
seed: 3
network:
  workload: dlrm
  servers: ${nodes}
  seed: ${seed}
  bandwidth_gbps: 200
  fabric: {oversubscription: 2}
  degree: 4
  latency_us: 1
hydra: {searchpath: [pkg://topoflow.configs]}
"""


def test_a_script_of_the_user_compares_a_part_of_its_own_configuration(
    tmp_path: Path, commands: Commands, folder: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "train.yaml").write_text(TRAIN)
    (tmp_path / "train.py").write_text(APP)
    words = [sys.executable, "train.py", "-m", "nodes=4,8"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if not line.startswith("[")]
    assert printed[0::2] == ["train 0 3", "train 1 3"]
    keys = ("gpu=h100", "bandwidth_gbps=200", "fabric=fat_tree", "fabric.oversubscription=2", "servers=4,8", "seed=3")
    ((code, _, error),) = commands(["compare", *keys, "hydra.run.dir=typed"])
    assert code == 0, error
    assert [float(line) for line in printed[1::2]] == [row["iteration_time"] for row in rows(folder / "typed")]
