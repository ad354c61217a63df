"""A folder is of one verb: what another would leave beside its files, or replace, is refused before it is computed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from topoflow.cli import main
from topoflow.report.files import locked
from topoflow.report.write import OPTIONAL_FILES

pytestmark = pytest.mark.usefixtures("without_pixels")

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("servers=2", "workload.tables=2", "workload.rows=1000")
WRITERS = {
    "compare": ("fabric=ring", *SMALL),
    "search": ("search.proposals=0", "search.rounds=1", *SMALL),
    "experiment": ("topoopt_fig14", "servers=4", "workload.tables=4"),
    "simulate": (f"world={EXAMPLES / 'two_flows.json'}",),
}
NAMES = {"experiment": "experiment topoopt_fig14"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One that each verb has written."""
    by_verb = {verb: tmp_path_factory.mktemp("out") / verb for verb in WRITERS}
    for verb, out in by_verb.items():
        assert main([verb, *WRITERS[verb], f"out={out}"]) == 0
    return by_verb


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("verb", WRITERS)
def test_the_result_of_another_verb_is_left_alone(
    verb: str, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for other, out in folders.items():
        if other == verb:
            continue
        before = contents(out)
        assert main([verb, *WRITERS[verb], f"out={out}"]) == 2
        message = f"out: must be a new folder or one of an earlier `topoflow {NAMES.get(verb, verb)}`"
        value = f"got {out} with the result of `topoflow {NAMES.get(other, other)}`"
        assert capsys.readouterr().err == f"topoflow {verb}: {message}, {value}\n"
        assert contents(out) == before


def test_the_folder_of_another_figure_is_left_alone(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folders["experiment"]
    before = contents(out)
    assert main(["experiment", "motion_bill", f"out={out}"]) == 2
    message = "out: must be a new folder or one of an earlier `topoflow experiment motion_bill`"
    value = f"got {out} with the result of `topoflow experiment topoopt_fig14`"
    assert capsys.readouterr().err == f"topoflow experiment: {message}, {value}\n"
    assert contents(out) == before
    (tmp_path / "checkpoint.jsonl").write_bytes(before["checkpoint.jsonl"])  # cut off: of some figure
    assert main(["experiment", *WRITERS["experiment"], f"out={tmp_path}"]) == 0


def test_a_comparison_removes_what_only_an_earlier_one_has(tmp_path: Path) -> None:
    def files(*keys: str) -> set[str]:
        assert main(["compare", *WRITERS["compare"], *keys, f"out={tmp_path}"]) == 0
        return {path.name for path in tmp_path.iterdir()} - {"mine.png"}

    fluid = files()
    (tmp_path / "mine.png").write_text("a file of the user")
    packet, failing = files("fidelity=packet"), files("fail.each=fiber")
    assert {"ports.png", "failures.png"} <= packet ^ failing
    assert files() == fluid
    assert (tmp_path / "mine.png").exists()
    assert packet | failing <= {*OPTIONAL_FILES, *fluid}


def test_a_figure_removes_the_pictures_that_only_an_earlier_one_has(tmp_path: Path) -> None:
    def files(ratios: str) -> set[str]:
        small = ("servers=96", "fidelity=fluid", "experiment.sizes=[256]", f"experiment.ratios={ratios}")
        assert main(["experiment", "motion_fig7", *small, f"out={tmp_path}"]) == 0
        return {path.name for path in tmp_path.glob("*.png")}

    (tmp_path / "mine.png").write_text("a file of the user")
    assert files("[0.25,0.5]") == {"application_0.25.png", "application_0.5.png", "mine.png"}
    assert files("[0.5]") == {"application_0.5.png", "mine.png"}


def test_a_search_that_was_stopped_keeps_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    assert main(["compare", *WRITERS["compare"], f"out={tmp_path}"]) == 2
    assert "with the result of `topoflow search`" in capsys.readouterr().err


@pytest.mark.parametrize("verb", WRITERS)
def test_the_result_of_the_same_verb_is_replaced(verb: str, folders: dict[str, Path]) -> None:
    assert main([verb, *WRITERS[verb], f"out={folders[verb]}"]) == 0


@pytest.mark.parametrize("content", ["[]", "{}", '{"command": 3}', "mine"])
def test_a_result_that_is_not_of_topoflow_is_no_verbs(content: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(content)
    assert main(["simulate", *WRITERS["simulate"], f"out={tmp_path}"]) == 0


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command in ``folder``, as a shell does."""
    command = [sys.executable, "-c", "import sys; from topoflow.cli import main; sys.exit(main())", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


MOMENT = "${now:%Y}"  # that of all runs of this test
FOLDERS = (("--multirun", "hydra.sweep.dir"), ("--run", "hydra.run.dir"))


@pytest.mark.parametrize(("flag", "key"), FOLDERS)
def test_two_runs_that_start_in_one_moment_have_folders_of_their_own(flag: str, key: str, tmp_path: Path) -> None:
    fabrics = ("ring", "torus")
    words = ("compare", flag, *SMALL, f"{key}={MOMENT}-runs")
    runs = [started(tmp_path, *words, f"fabric={fabric}") for fabric in fabrics]
    errors = [run.communicate(timeout=200)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    results = {path.parent: json.loads(path.read_text()) for path in tmp_path.rglob("result.json")}
    assert sorted(row["fabric"] for result in results.values() for row in result["rows"]) == sorted(fabrics)
    for folder, result in results.items():
        (fabric,) = (row["fabric"] for row in result["rows"])
        assert f"fabric={fabric}" in (folder / ".hydra" / "overrides.yaml").read_text()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("launcher", ["basic", "topoflow_batch"])
@pytest.mark.parametrize(("flag", "key"), FOLDERS)
def test_a_folder_that_another_run_writes_is_refused(flag: str, key: str, launcher: str, tmp_path: Path) -> None:
    before = json.dumps({"rows": []})
    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "result.json").write_text(before)
    words = ("compare", flag, *SMALL, "fabric=ring", f"{key}=same", f"hydra/launcher={launcher}")
    with locked(tmp_path / "same"):
        run = started(tmp_path, *words)
        _, error = run.communicate(timeout=200)
    message = f"{key}: must be written by one run at a time, got same, where another is writing"
    assert (run.returncode, error) == (2, f"topoflow compare: {message}\n")
    assert contents(tmp_path / "same") == {"result.json": before.encode()}


def test_a_job_may_write_to_the_folder_of_its_logs(tmp_path: Path) -> None:
    run = started(tmp_path, "compare", *SMALL, "fabric=ring", "hydra.run.dir=one", "out=${hydra:runtime.output_dir}")
    _, error = run.communicate(timeout=200)
    assert (run.returncode, (tmp_path / "one" / "report.html").is_file()) == (0, True), error
