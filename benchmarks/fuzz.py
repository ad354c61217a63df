"""Change files of every reader, guided by coverage, until each has had its seconds; results in ``results/fuzz.md``.

    pip install --target atheris atheris     # Python 3.11; topoflow does not need it
    PYTHONPATH=atheris python benchmarks/fuzz.py out=fuzzed         # 600 s of CPU time each
    PYTHONPATH=atheris python benchmarks/fuzz.py out=fuzzed reader=kineto,chakra seconds=60 processes=2
    python benchmarks/fuzz.py out=fuzzed status=yes                 # a line for each reader

``out`` has a folder for each reader: ``state.json`` (its sums over all runs), ``corpus``, ``seeds``, ``log``, and in
``failed`` the first files that failed at each place of the code, with the traceback. A run goes on where the last one
ended, also where that was killed. Readers take turns of ``turn`` seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from damaged.one_reader import State, fuzz  # noqa: E402
from damaged.readers import READERS  # noqa: E402

DEFAULTS = {"out": "fuzzed", "reader": "all", "seconds": "600", "processes": "1", "turn": "120", "status": "no"}


def settings(arguments: Sequence[str]) -> dict[str, str]:
    """Return ``DEFAULTS`` as the command line changes them. Raises ``ValueError`` for another key or reader."""
    chosen = dict(DEFAULTS)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key not in DEFAULTS or not equals:
            raise ValueError(f"{argument}: must be one of {', '.join(DEFAULTS)}, as seconds=600")
        chosen[key] = value
    for name in readers(chosen["reader"]):
        if name not in READERS:
            raise ValueError(f"reader: must be all or some of {', '.join(READERS)}, got {name}")
    return chosen


def readers(text: str) -> list[str]:
    return list(READERS) if text == "all" else text.split(",")


def line(name: str, state: State) -> str:
    """Return the sums of a reader as a line."""
    return (
        f"{name:<22} {state.seconds:7.0f} s {state.inputs:9,} inputs {state.accepted:9,} accepted "
        f"longest {state.longest:5.2f} s  most {state.memory / 2**20:4.0f} MiB  failed {len(state.failures)}"
    )


def show(out: Path, names: Sequence[str]) -> None:
    """Print a line for each reader, and one for all of them, as a row of the table in ``results/fuzz.md``."""
    states = {name: State.read(out / name) for name in names}
    for name, state in states.items():
        print(line(name, state))
        for place, count in state.failures.items():
            print(f"    {place} ({count} times)")
        for path in sorted((out / name).glob("*-*")):  # crash-, timeout-: inputs as libFuzzer saves them
            print(f"    {path} ended the process")
    sums = states.values()
    seconds = [state.seconds for state in sums]
    print(
        f"| {len(states)} | {min(seconds):.0f} to {max(seconds):.0f} | {sum(state.inputs for state in sums):,} | "
        f"{sum(state.accepted for state in sums):,} | {max(state.longest for state in sums):.1f} s | "
        f"{max(state.memory for state in sums) / 2**20:.0f} MiB |"
    )


@contextmanager
def log_of(folder: Path) -> Iterator[int]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("ab") as log:
        yield log.fileno()


def run(out: Path, name: str, until: float) -> None:
    """Run a reader in a process of its own, and print its line."""
    command = [sys.executable, __file__, "one", str(out / name), name, str(until)]
    with log_of(out / name) as log:
        code = subprocess.run(command, stdout=log, stderr=log).returncode
    print(
        line(name, State.read(out / name)) + ("" if code == 0 else f"  ended with {code}: see {out / name}"), flush=True
    )


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["one"]:
        folder, name, until = arguments[1:]
        return fuzz(name, Path(folder), float(until))
    chosen = settings(arguments)
    out, names = Path(chosen["out"]).absolute(), readers(chosen["reader"])
    if chosen["status"] == "no":
        os.makedirs(out, exist_ok=True)
        seconds, turn = float(chosen["seconds"]), float(chosen["turn"])
        for number in range(ceil(seconds / turn)):
            until = min(seconds, (number + 1) * turn)
            waiting = [name for name in names if State.read(out / name).seconds < until]
            with ThreadPoolExecutor(int(chosen["processes"])) as pool:
                list(pool.map(lambda name, until=until: run(out, name, until), waiting))
    show(out, names)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
