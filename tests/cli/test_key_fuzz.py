"""Any keys and values of any verb end in an answer or in one line that says what is wrong, never in a traceback."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoflow.cli import main
from topoflow.printable import LONGEST_LINE
from topoflow.study.configure.options import options
from topoflow.study.configure.own_files import composed_of_files

EXAMPLES = Path(__file__).parents[2] / "examples"
WORLD, TRACE = EXAMPLES / "two_flows.json", EXAMPLES / "ddp_4_ranks.jsonl.gz"
REQUESTS = EXAMPLES / "requests.csv"
JOB_GROUPS = ("workload", "strategy", "fabric", "gpu", "prices")
GROUPS = {"simulate": (), "place": ("requests", "cluster")}  # of the verbs that have others than these
SMALL = ("servers=2", "workload.tables=2", "workload.rows=1000", "fabric=ring")
VERBS = {  # arguments of each verb with which it has done all that it does within a second
    "compare": SMALL,
    "search": (*SMALL, "search.proposals=16", "search.chains=4", "search.rounds=1", "search.decide=1"),
    "experiment": ("topoopt_fig14", "servers=4", "workload.tables=4", "out=OUT"),
    "simulate": (f"world={WORLD}",),
    "place": ("requests=csv", f"requests.file={REQUESTS}", "cluster=motion", "cluster.gpus=8", "policy=first_fit"),
}
WORDS = {"inspect": (str(TRACE),), "capture": ("import", str(TRACE), "--out", "OUT")}
HYDRA = ("hydra", "hydra.run.dir", "hydra.job.name", "hydra/launcher", "hydra.sweeper.params")
FAILED_JOB = "Error executing job with overrides: "  # what Hydra prints before the line of a job
OPTIONS = (
    *("--out", "--json", "--one-group", "--", "-", "-h", "--nope", "import", "--out=", "--out=/", "--out=."),
    "-o",
)
# Counts are small or impossible: what is large and possible may take as long as it needs.
VALUES = [
    *("0", "1", "2", "3", "-1", "1.5", "-0.0", "1e308", "-1e-308", "1e-320", "inf", "nan", str(2**63), str(2**64 - 1)),
    *(str(10**21), "2,range(1,3)", "choice(range(1,3),2)", "interval(1,2)", "[1,range(1,2)]"),
    *(
        "null",
        "true",
        "false",
        "",
        "''",
        "x",
        "[/red]",
        "'[/red]'",
        "é",
        "'\\x1b[31m'",
        "'a b'",
        "a/b",
        "../x",
        "/",
        ".",
    ),
    *(
        "[]",
        "[1]",
        "[[]]",
        "[x]",
        "[ring]",
        "[0,1]",
        "[-1]",
        "[null]",
        "{}",
        "{a:1}",
        "{a:{b:[]}}",
        "{1:2}",
        "{servers:2}",
    ),
    *("1,2", "ring,torus", "x,y", "1,1", ",", "choice(1)", "choice()", "range(1,3)", "range(3)", "glob(*)", "glob(r*)"),
    *(
        "${nope}",
        "${servers}",
        "${seed}",
        "${workload}",
        "${gbps:x}",
        "${gbps:1e308}",
        "${us:1",
        "${oc.env:HOME}",
        "???",
    ),
    *(
        "dlrm",
        "ring",
        "fat_tree",
        "bert",
        "parallel",
        "data_parallel",
        "hybrid",
        "a100",
        "fluid",
        "bound",
        "cpu",
        "links",
    ),
    *(
        "[1",
        "{a",
        "'",
        '"',
        "a=b",
        "=",
        "\\",
        "\x1b[31m",
        "\u202e",
        "x" * 400,
        "[" * 40,
        "1" * 400,
        "[" + "1," * 200 + "1]",
    ),
]
CHANGES = (
    "{}",
    "+{}",
    "++{}",
    "~{}",
    "{}.x",
    "{}@x",
    "{}/x",
    "-{}",
    "{}[0]",
    "x{}",
    "{}.",
    ".{}",
    "{} ",
    "{}._target_",
)


@pytest.fixture(scope="module")
def keys() -> dict[str, list[str]]:
    """Every key of every verb, with those of every file of its config groups, and some that there are not."""

    def within(config: Any, at: str = "") -> Iterator[str]:
        for key, value in config.items():
            yield f"{at}{key}"
            if isinstance(value, dict):
                yield from within(value, f"{at}{key}.")

    by_verb = {}
    more = ("series", "experiment.x", "search.proposals", *HYDRA, "", "é")
    for verb in VERBS:
        name = "compare" if verb == "experiment" else verb
        verb_keys = dict.fromkeys(within(composed_of_files(name, [])[0]))
        for group in GROUPS.get(verb, JOB_GROUPS):
            for option in options(group):
                values, _ = composed_of_files(name, [f"{group}={option}"])
                verb_keys |= dict.fromkeys(within({group: values[group]}))
        by_verb[verb] = [*verb_keys, *more]
    return by_verb


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names of files and folders, good and bad, as words for verbs that take files."""
    folder = tmp_path_factory.mktemp("files")
    data = (EXAMPLES / "ddp_4_ranks.jsonl.gz").read_bytes()
    contents = {"cut.gz": data[:999], "empty": b"", "text": b"a\nb", "list.json": b"[]", "é.json": b"{}", "-x": data}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to("loop")
    (folder / "hollow").mkdir()
    os.mkfifo(folder / "pipe")
    paths = [str(path) for path in folder.iterdir()]
    good = [str(TRACE), str(EXAMPLES / "traces"), str(EXAMPLES / "traces" / "kineto_rank0.json.gz"), str(WORLD)]
    return [*paths, *good, "x" * 300]


def outcome(arguments: list[str]) -> tuple[int, str]:
    """Exit code and stderr."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            code = main(arguments)
        except SystemExit as stop:  # argparse, of what begins with a dash
            code = 2 if stop.code is None else int(stop.code)
    return code, error.getvalue()


def check_answer_or_line(arguments: list[str]) -> None:
    """The law of every verb."""
    code, printed = outcome(arguments)
    assert code in (0, 2)
    if printed.startswith(FAILED_JOB):
        assert any(key in argument for argument in arguments for key in HYDRA)
        printed = printed.partition("\n")[2]
    if code == 2:
        assert printed.count("\n") == 1
        assert len(printed) <= LONGEST_LINE + 1
        assert printed.rstrip("\n").isprintable()
        assert printed.startswith("topoflow")


fuzz = settings(
    max_examples=120,
    deadline=None,  # how long it takes is the machine's; what hangs has pytest's time limit
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.slow
@given(data=st.data())
@fuzz
def test_any_files_and_options_are_an_answer_or_one_line(
    data: st.DataObject, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the verbs that take files, not keys: words are added to what they need, put in its place, or left out."""
    monkeypatch.chdir(tmp_path)
    verb = data.draw(st.sampled_from(list(WORDS)))
    words = [word.replace("OUT", str(tmp_path / "out")) for word in WORDS[verb]]
    for _ in range(data.draw(st.integers(1, 3))):
        word = data.draw(st.sampled_from((*files, *OPTIONS)) | st.sampled_from(VALUES))
        at = data.draw(st.integers(0, len(words)))
        words[at : at + data.draw(st.integers(0, 1))] = [word]
    if "/" in words or "--out=/" in words:
        return  # that is a folder, and allowed
    check_answer_or_line([verb, *words])


@pytest.mark.slow
@given(data=st.data())
@fuzz
def test_any_keys_and_values_are_an_answer_or_one_line(
    data: st.DataObject, keys: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = data.draw(st.sampled_from(list(VERBS)))
    monkeypatch.chdir(tmp_path)  # where what some value names as a file or a folder is made
    arguments = [argument.replace("OUT", str(tmp_path / "out")) for argument in VERBS[verb]]
    for _ in range(data.draw(st.integers(1, 2))):
        key = data.draw(st.sampled_from(keys[verb]))
        change = data.draw(st.sampled_from(("{}",) * 20 + CHANGES))
        arguments.append(f"{change.format(key)}={data.draw(st.sampled_from(VALUES))}")
    if any(argument.lstrip("+") in ("out=/", "hydra.run.dir=/") for argument in arguments):
        return  # that is a folder, and allowed
    check_answer_or_line([verb, *arguments])


@pytest.mark.parametrize("verb", ["compare", "search", "experiment", "simulate"])
@pytest.mark.parametrize(
    "argument", ["servers=glob(r*)", "fabric=glob(r*,exclude=*)", "device=glob(*)", "seed=choice()"]
)
def test_a_sweep_of_nothing_is_a_line(verb: str, argument: str) -> None:
    arguments = [
        word.replace("OUT", "out") for word in VERBS[verb] if word.partition("=")[0] != argument.partition("=")[0]
    ]
    code, printed = outcome([verb, *arguments, argument])
    assert (code, printed.count("\n")) == (2, 1)
    assert printed.startswith(f"topoflow {verb}: ")


@pytest.mark.parametrize("verb", ["compare", "search"])
@pytest.mark.parametrize(
    "argument",
    [
        *("gpu=[1]", "fabric=[ring]", "workload=[vgg16]", "gpu=null", "workload={a:1}"),
        *(f"seed={2**63}", "bandwidth_gbps=1e300", "hydra.sweeper.params=1"),
    ],
)
def test_what_a_key_cannot_be_is_a_line_that_begins_with_it(verb: str, argument: str) -> None:
    code, printed = outcome([verb, argument])
    assert (code, printed.count("\n")) == (2, 1)
    assert printed.startswith(f"topoflow {verb}: {argument.partition('=')[0]}: ")
