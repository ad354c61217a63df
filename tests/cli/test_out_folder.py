"""A folder is of one verb: what another would leave beside its files, or replace, is refused before it is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from topoflow.cli import main
from topoflow.report.write import OWN

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
    made = {verb: tmp_path_factory.mktemp("out") / verb for verb in WRITERS}
    for verb, out in made.items():
        assert main([verb, *WRITERS[verb], f"out={out}"]) == 0
    return made


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
        law = f"out: must be a new folder or one of an earlier `topoflow {NAMES.get(verb, verb)}`"
        got = f"got {out} with the result of `topoflow {NAMES.get(other, other)}`"
        assert capsys.readouterr().err == f"topoflow {verb}: {law}, {got}\n"
        assert contents(out) == before


def test_the_folder_of_another_figure_is_left_alone(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folders["experiment"]
    before = contents(out)
    assert main(["experiment", "motion_bill", f"out={out}"]) == 2
    law = "out: must be a new folder or one of an earlier `topoflow experiment motion_bill`"
    got = f"got {out} with the result of `topoflow experiment topoopt_fig14`"
    assert capsys.readouterr().err == f"topoflow experiment: {law}, {got}\n"
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
    assert packet | failing <= {*OWN, *fluid}


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
