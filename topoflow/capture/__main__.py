"""``python -m topoflow.capture run``: run a PyTorch script unchanged and record what it communicates."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from topoflow.capture.base import Trace
from topoflow.capture.record.job import TRACE, Job
from topoflow.printable import one_line

if TYPE_CHECKING:
    from topoflow.capture.record.recorder import Recorder  # needs torch

EXAMPLE = """\
example, from the project's folder (4 processes on this machine, gloo, no GPU needed):
  torchrun --nproc-per-node 4 -m topoflow.capture run --out captured examples/train_ddp.py --steps 4
  topoflow inspect captured/trace.jsonl.gz
  topoflow compare workload=captured workload.trace=captured fabric=ideal_switch,ring bandwidth_gbps=1,10 degree=1
a script that starts as a module (python -m) is run as one:
  torchrun --nproc-per-node 4 -m topoflow.capture run --out captured -m torchtitan.train --job.config_file toy.toml
"""


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code; what the script raises, SystemExit too, passes through."""
    arguments = _parser().parse_args(argv)
    try:
        script = Script(arguments.script, arguments.module)
        job = Job(script.title, arguments.out, _environment("RANK", 0), _environment("WORLD_SIZE", 1))
        script.check()
        recorder_class = _recorder_class()
        job.start()
    except (ValueError, OSError) as error:
        return _refuse(error)
    recorder = recorder_class()
    try:
        with recorder, _os_exit_concludes(job, recorder):
            script.run(arguments.arguments)
    except SystemExit as exit_:
        if exit_.code not in (None, 0):
            job.fail(exit_)
            raise
    except BaseException as error:
        job.fail(error)
        raise
    return _conclude(job, recorder)


def _conclude(job: Job, recorder: Recorder) -> int:
    """The script has ended well: bring the ranks together."""
    if not job.is_ours:
        return 0
    try:
        trace = job.finish(lambda origin: recorder.trace(job.name, job.rank, job.world_size, origin))
    except (ValueError, OSError) as error:
        with suppress(OSError):  # such as the error itself: no space
            job.fail(error)
        return _refuse(error)
    if trace is not None:
        print(_summary(trace, job.out / TRACE))
    return 0


@contextmanager
def _os_exit_concludes(job: Job, recorder: Recorder) -> Iterator[None]:
    """Scripts that end by ``os._exit``, so as not to wait for other threads, end well too if they say 0."""
    leave = os._exit

    def conclude_and_leave(status: int) -> NoReturn:
        if job.is_ours:
            if status:
                job.fail(SystemExit(status))
            else:
                status = _conclude(job, recorder)
            sys.stdout.flush()
            sys.stderr.flush()
        leave(status)

    os._exit = conclude_and_leave
    try:
        yield
    finally:
        os._exit = leave


@dataclass(frozen=True)
class Script:
    """What to run: a file as ``python name`` does, or with ``module`` as ``python -m name`` does."""

    name: str
    module: bool = False

    @property
    def title(self) -> str:
        return self.name.removesuffix(".__main__").rpartition(".")[2] if self.module else Path(self.name).stem

    def check(self) -> None:
        """ValueError if there is no such file or module."""
        if not self.module:
            if not Path(self.name).is_file():
                raise ValueError(f"script: must be a file, got {self.name}")
            return
        sys.path[0] = os.getcwd()
        try:
            found = importlib.util.find_spec(self.name) is not None
        except (ImportError, ValueError):  # a parent package is missing; a name such as ".train"
            found = False
        if not found:
            raise ValueError(f"-m: must be a module in this folder or installed, got {self.name}")

    def run(self, arguments: list[str]) -> None:
        """Its own ``sys.argv``, its folder first in ``sys.path``, ``__main__`` its name."""
        sys.argv = [self.name, *arguments]
        if self.module:
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(self.name).resolve().parent)
            runpy.run_path(self.name, run_name="__main__")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m topoflow.capture",
        description="Record what a PyTorch training script communicates, without changing it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = parser.add_subparsers(required=True, metavar="run").add_parser(
        "run",
        help="run SCRIPT and write DIR/trace.jsonl.gz",
        description="Run SCRIPT and record its collectives, sends and compute; one file per rank, then one of all.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the records: new or empty")
    run.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as of python -m")
    run.add_argument("script", metavar="SCRIPT", help="the training script, or a module after -m")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="what the script gets")
    return parser


def _environment(name: str, default: int) -> int:
    """A number that torchrun sets; without torchrun the job is one rank."""
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


def _refuse(error: Exception) -> int:
    print(one_line(f"topoflow.capture: {error}"), file=sys.stderr)
    return 2


def _summary(trace: Trace, path: Path) -> str:
    communications = sum(1 for rank in trace.ranks for _ in trace.communications(rank))
    lines = [
        f"topoflow.capture: {trace.world_size} ranks, {trace.iterations} iterations, {communications} communications",
        *(f"  note: {note}" for note in trace.notes),
        f"  look at it: topoflow inspect {path}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
