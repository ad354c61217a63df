"""``python -m topoflow.capture run``: run a PyTorch script unchanged and record what it communicates."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from topoflow.capture.record.file import FORMAT, VERSION, open_record, say
from topoflow.capture.record.script import Script

if TYPE_CHECKING:
    from topoflow.capture.record.recorder import Recorder  # needs torch

EXAMPLE = """\
example, from the project's folder (4 processes on this machine, gloo, no GPU needed):
  torchrun --nproc-per-node 4 -m topoflow.capture run --out captured examples/train_ddp.py --steps 4
  topoflow inspect captured
  topoflow compare workload=captured workload.trace=captured fabric=ideal_switch,ring bandwidth_gbps=1,10 degree=1
a script that starts as a module (python -m) is run as one:
  torchrun --nproc-per-node 4 -m topoflow.capture run --out captured -m torchtitan.train --job.config_file toy.toml
"""


def main(argv: list[str] | None = None) -> int:
    """Run the script and return its exit code; what it raises, SystemExit too, passes through.

    A wrong call ends with 2 before the script starts. From then on no failure of the recording, such as a full disk,
    changes what the script does, how long it takes or how it ends: it is said in one line.
    """
    arguments = _parser().parse_args(argv)
    try:
        rank, ranks = _environment("RANK", 0), _environment("WORLD_SIZE", 1)
        if rank >= ranks:
            raise ValueError(f"RANK: must be within 0..{ranks - 1} (WORLD_SIZE), got {rank}")
        script = Script(arguments.script, arguments.module)
        script.check()
        recorder_class = _recorder_class()
        restart = _environment("TORCHELASTIC_RESTART_COUNT", 0)
        recorder = recorder_class(open_record(arguments.out, rank, restart, _header(script.title, ranks)))
    except ValueError as error:
        say(str(error))
        return 2
    except OSError as error:
        say(f"--out: nothing is recorded, the job runs on: {error}")
        script.run(arguments.arguments)
        return 0

    def finish(ended: bool) -> None:
        if recorder.finish(ended) and rank == 0 and ended:
            say(f"rank 0 of {ranks} is recorded; all ranks, when they have ended: topoflow inspect {arguments.out}")

    ended = False
    try:
        with recorder, _before_os_exit(finish):
            script.run(arguments.arguments)
        ended = True
    except SystemExit as exit_:
        ended = exit_.code in (None, 0)
        raise
    finally:
        finish(ended)
    return 0


def _header(name: str, ranks: int) -> dict[str, Any]:
    clocks = {"start": time.monotonic_ns(), "epoch": time.time_ns()}  # one moment: events are timed by the first
    about = {"format": FORMAT, "version": VERSION, "name": name, "world_size": ranks, "host": platform.node()}
    return {**about, **clocks}


@contextmanager
def _before_os_exit(finish: Callable[[bool], None]) -> Iterator[None]:
    """Call ``finish`` also where a script ends by ``os._exit``, so as not to wait for other threads."""
    leave = os._exit

    def finish_and_leave(status: int) -> NoReturn:
        try:
            finish(status == 0)
        finally:
            leave(status)

    os._exit = finish_and_leave
    try:
        yield
    finally:
        os._exit = leave


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m topoflow.capture",
        description="Record what a PyTorch training script communicates, without changing it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = parser.add_subparsers(required=True, metavar="run").add_parser(
        "run",
        help="run SCRIPT and write a file of each rank to DIR",
        description="Run SCRIPT and record its collectives, sends and compute, one file per rank, while it runs.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the records: new or empty")
    run.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as of python -m")
    run.add_argument("script", metavar="SCRIPT", help="the training script, or a module after -m")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="what the script gets")
    return parser


def _environment(name: str, default: int) -> int:
    """Return a number that torchrun sets; without torchrun the job is one rank."""
    value = os.environ.get(name, str(default))
    if not value.isdecimal():
        raise ValueError(f"{name}: must be a whole number, got {value!r}")
    return int(value)


def _recorder_class() -> type[Recorder]:
    try:
        import torch.distributed  # noqa: F401
    except ModuleNotFoundError as error:
        raise ValueError(f"capture: needs PyTorch, pip install 'topoflow[torch]' ({error})") from error
    from topoflow.capture.record.recorder import Recorder

    return Recorder


if __name__ == "__main__":
    sys.exit(main())
