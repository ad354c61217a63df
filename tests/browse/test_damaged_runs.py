"""One damaged run hides no other: every page is shown, whatever is done to the files of some runs."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.browse.test_server import SERVE, Served, row, write_run
from tests.examples import examples
from topoflow import progress
from topoflow.browse.run import run_at
from topoflow.cli import main
from topoflow.search import alternate

ROUNDS = examples(16)
SECRET = "nobody else's business"
SOUND = ("sound", "sound two/0")
SMALL = ("servers=4", "workload.tables=2", "workload.rows=1000")
NUMBERS = ["1" + 400 * "0", 5000 * "9", "1e999", "-1e308", "1e308", "1e-320", "NaN", "null", "true", '"\\ud800"', "[]"]
NAMES = [b"\xff\xfe", b"a\nb", b"'<b>\"", b"%41#?&=+", 250 * b"x", b"\\", "é\u202e".encode(), b"."[:0] + b"a b"]
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join(9 * [f'*a{n}'])}]\n" for n in range(9)
)

Dice = random.Random
Damage = Callable[[Dice, Path, Path], None]  # to a file; the folder outside of that of runs


@pytest.fixture(scope="module")
def sound_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison, a search and a figure that were cut off, a study, and a job of Hydra."""
    root = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("topoflow.report.draw.pictures.png", lambda figure: b"")
        assert main(["compare", "fabric=ring,torus", *SMALL, f"out={root / 'compare'}"]) == 0
        patch.setattr(alternate, "SAVE_EVERY", 0.0)
        words = ["fabric=topoopt", "search.proposals=64", "search.rounds=1"]
        assert main(["search", *words, *SMALL, f"out={root / 'search'}"]) == 0
    (root / "search" / "result.json").unlink()
    log = progress.ProgressLog.begin(root / "search", verb="search", command="topoflow search", cwd="/")
    for step in range(3):
        log.record(step, {"torus/progress": step / 3, "torus/time": 0.5, "torus/rate": 9.0, "torus/acceptance": 0.5})
        log._flush()
    log.rows([row("torus", 2.0, 5.0)])
    log._file.close()
    from topoflow.study.figures.points import PointFile

    (root / "figure").mkdir()
    for number in range(3):
        PointFile(root / "figure" / "checkpoint.jsonl").add(f"{number}", {"series": "a"}, [row("ring", 1.0, None)])
    (root / "job" / ".hydra").mkdir(parents=True)
    job = "hydra:\n  job: {name: compare}\n  overrides:\n    task:\n    - servers=4\n"
    (root / "job" / ".hydra" / "hydra.yaml").write_text(job)
    return root


def rewritten(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def cut(dice: Dice, path: Path, outside: Path) -> None:
    rewritten(path, lambda data: data[: dice.randrange(len(data) + 1)])


def flipped(dice: Dice, path: Path, outside: Path) -> None:
    def change(data: bytes) -> bytes:
        content = bytearray(data)
        for _ in range(dice.choice([1, 1, 20])):
            if content:
                content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        return bytes(content)

    rewritten(path, change)


def hostile_number(dice: Dice, path: Path, outside: Path) -> None:
    def change(data: bytes) -> bytes:
        places = list(re.finditer(rb"(?<![\w.\"])-?\d[\d.e+-]*(?![\w\"])", data))
        if not places:
            return data
        at, number = dice.choice(places).span(), dice.choice(NUMBERS).encode()
        return data[: at[0]] + number + data[at[1] :]

    rewritten(path, change)


def replaced(dice: Dice, path: Path, outside: Path) -> None:
    kinds: list[Callable[[], object]] = [
        lambda: path.mkdir(),
        lambda: os.mkfifo(path),
        lambda: path.symlink_to(path),
        lambda: path.symlink_to(outside / "secret.json"),
        lambda: path.symlink_to(outside / "run" / path.name),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("absent"),
        lambda: path.write_bytes(dice.randbytes(999)),
        lambda: path.write_text(100_000 * "["),
        lambda: path.write_text(400 * '{"a":' + "1" + 400 * "}"),
        lambda: path.write_text(ALIASES),
        lambda: path.write_text(f"hydra: &h\n  job: {{name: *h}}\n  overrides: {{task: [*h]}}\n{ALIASES}"),
    ]
    path.unlink()
    dice.choice(kinds)()


def touched(dice: Dice, path: Path, outside: Path) -> None:
    times = dice.choice([-(2**40), 2**40, 2**61])
    try:
        os.utime(path, (times, times))
    except (OSError, OverflowError):  # the file system has no such time
        path.touch()


def folder_replaced(dice: Dice, path: Path, outside: Path) -> None:
    """The folder of the file becomes a link to a run that lies elsewhere."""
    folder = path.parent
    shutil.rmtree(folder)
    folder.symlink_to(outside / "run")


KINDS: list[Damage] = [cut, flipped, hostile_number, hostile_number, replaced, replaced, touched, folder_replaced]


def damaged(dice: Dice, sound_runs: Path, root: Path, outside: Path, number: int) -> None:
    """Put a copy of a run into ``root``, with one or two kinds of damage, some with an odd name."""
    source = dice.choice(sorted(sound_runs.iterdir()))
    name = dice.choice(NAMES) + b"%d" % number if dice.random() < 0.3 else b"run%d" % number
    run = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))
    shutil.copytree(source, run)
    for _ in range(dice.choice([1, 1, 2])):
        files = sorted(path for path in run.rglob("*") if path.is_file() and path.resolve() == path)  # by no link
        if files:
            dice.choice(KINDS)(dice, dice.choice(files), outside)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a run that the folder of runs does not have."""
    folder = tmp_path / "outside"
    write_run(folder / "run", f"topoflow compare {SECRET}", [row(SECRET, 1.0, 2.0)])
    log = progress.ProgressLog.begin(folder / "run", verb="search", command=f"topoflow search {SECRET}", cwd=SECRET)
    log._file.close()
    (folder / "run" / "hydra.yaml").write_text(f"hydra: {{job: {{name: {SECRET}}}, overrides: {{task: []}}}}")
    (folder / "secret.json").write_text(json.dumps({"command": SECRET, "rows": [row(SECRET, 1.0, 2.0)]}))
    return folder


def check_pages(served: Served) -> dict[str, str]:
    """Ask for every page of every run; return the rows of the list by name."""
    status, _, page = served.ask("/")
    assert status == 200
    status, _, text = served.ask("/live")
    assert status == 200
    rows = {entry["name"]: entry["html"] for entry in json.loads(text)["rows"]}
    assert set(SOUND) <= set(rows)
    for name in SOUND:
        assert "<td>torus</td><td data-value='2.0'>2 s</td>" in rows[name]
        assert "finished" in rows[name]
    for name in rows:
        quoted = quote(name, errors="surrogateescape")
        assert f"href='/run/{quoted}'" in rows[name]
        for path in (f"/run/{quoted}", f"/live/{quoted}", f"/pair?run=sound&run={quote(quoted)}"):
            status, _, page = served.ask(path)
            assert status == 200, (path, page)
            assert SECRET not in page
    assert SECRET not in text
    return rows


@pytest.mark.parametrize("seed", range(ROUNDS // 8))
def test_one_damaged_run_hides_no_other(seed: int, sound_runs: Path, outside: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in SOUND:
        write_run(root / name, "topoflow compare", [row("torus", 2.0, 5.0)])
    for number in range(40):
        damaged(random.Random(f"{seed} {number}"), sound_runs, root, outside, number)
    with Served.of(root) as served:
        check_pages(served)
        served.process.terminate()
        assert served.process.stderr is not None
        assert served.process.stderr.read() == "", "no traceback"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("result.json", '{"rows": [{"iteration_time": 1%s}]}' % (400 * "0"), "a whole number of 401 digits"),
        ("result.json", "{", "result.json: must be JSON"),
        ("result.json", "[]", "result.json: must be an object, got []"),
        (".hydra/hydra.yaml", ALIASES, "hydra.yaml: must be what Hydra writes"),
        ("checkpoint.jsonl", "{}\n", "checkpoint.jsonl:1: must be a point as JSON"),
        ("study.db", 1000 * "x", "study.db: must be the study of Optuna that topoflow keeps"),
    ],
)
def test_a_run_that_cannot_be_shown_is_a_row_that_says_why(
    file: str, content: str, message: str, tmp_path: Path
) -> None:
    for name in SOUND:
        write_run(tmp_path / name, "topoflow compare", [row("torus", 2.0, 5.0)])
    path = tmp_path / "bad" / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with Served.of(tmp_path) as served:
        rows = check_pages(served)
        if file not in ("checkpoint.jsonl", "study.db"):  # whose points no list shows
            assert message in rows["bad"]
            assert "unreadable" in rows["bad"]
        assert f"Not shown: {tmp_path / 'bad' / file}" in served.ask("/run/bad")[2]
        assert message in served.ask("/run/bad")[2]


def test_a_study_whose_rows_claim_more_than_memory_has_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA page_size = 512")
        database.execute("CREATE TABLE trial_user_attributes (key TEXT, value_json TEXT)")
        database.execute("INSERT INTO trial_user_attributes VALUES ('trial', ?)", ('"' + 60 * "x" + '"',))
    content = path.read_bytes()
    value = content.index(b'trial"xx')  # the bytes before are the lengths of the row and of its parts
    path.write_bytes(content[: value - 7] + 7 * b"\xff" + content[value:])
    run = run_at(tmp_path, "study")
    assert run is not None
    with pytest.raises(ValueError, match=r"study\.db: must be the study of Optuna that topoflow keeps, got"):
        _ = run.rows


def test_a_link_within_a_run_does_not_lead_out_of_the_folder(outside: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in SOUND:
        write_run(root / name, "topoflow compare", [row("torus", 2.0, 5.0)])
    for number, file in enumerate(("result.json", "progress.jsonl", ".hydra")):
        (root / f"{number}").mkdir()
        (root / f"{number}" / file).symlink_to(outside / "run" / file.replace(".hydra", ""))
    (root / "inside").mkdir()
    (root / "inside" / "result.json").symlink_to(root / "sound" / "result.json")
    with Served.of(root) as served:
        rows = check_pages(served)
        for number in range(3):
            assert "must lie in the folder of all runs, got a link that leads out of it" in rows[f"{number}"]
        assert "finished" in rows["inside"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user reaches."""
    with tempfile.TemporaryDirectory(prefix="topoflow-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_a_run_that_the_user_may_not_read_hides_no_other(folder: Path) -> None:
    for name in (*SOUND, "closed", "half"):
        write_run(folder / name, "topoflow compare", [row("torus", 2.0, 5.0)])
    os.chmod(folder / "closed", 0)
    os.chmod(folder / "half" / "result.json", 0)
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if as_nobody and subprocess.run([*as_nobody, sys.executable, "-c", "import topoflow.cli"]).returncode:
        pytest.skip("another user cannot import topoflow")
    with Served.of(folder, *as_nobody, sys.executable, "-c", SERVE) as served:
        rows = check_pages(served)
        for name in ("closed", "half"):
            assert "Permission denied" in rows[name]
            assert unquote(name) in served.ask(f"/run/{name}")[2]
    os.chmod(folder / "closed", 0o700)
