"""One reader under atheris: changed files are read until the time is over, and what does not hold is saved.

An input is a byte that chooses a file of a seed, and the changed content of it; the other files of that seed are whole.
libFuzzer keeps the inputs that reach new code of topoflow in ``corpus``, where the next run goes on from.
"""

from __future__ import annotations

import dis
import json
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from damaged.changes import changed
from damaged.readers import READERS, Files, Reader

MAX_SECONDS = 5.0  # of CPU time for a file
MAX_GROWTH = 10  # memory by the size of the files, and as much more:
MORE_MEMORY = 32 * 2**20  # B
HIGH_WATER = 8 * 2**20  # B: above this the highest memory is measured anew
FRESH = 0.3  # of the changes are of a seed, the others of a file that was changed before
SAVE_EVERY = 10.0  # s
MAX_FAILURES = 40  # that are saved of one reader, each of another place in the code
MEMORY_DISK = Path("/dev/shm")  # nothing waits for a disk there
MAX_ADDRESSES = 12 * 2**30  # B of this process: what asks for more has a MemoryError


class Hang(BaseException):
    """The reader took longer than ``MAX_SECONDS``."""


@dataclass
class State:
    """The sums over all runs of a reader."""

    seconds: float = 0.0  # of CPU time
    inputs: int = 0
    accepted: int = 0
    longest: float = 0.0  # s of CPU time
    memory: int = 0  # B, the most of one file
    failures: dict[str, int] = field(default_factory=dict)  # place in the code -> how often

    @staticmethod
    def read(folder: Path) -> State:
        path = folder / "state.json"
        return State(**json.loads(path.read_text())) if path.exists() else State()

    def write(self, folder: Path) -> None:
        part = folder / "state.json.part"
        part.write_text(json.dumps(asdict(self), indent=1) + "\n")
        os.replace(part, folder / "state.json")


class Target:
    """Reads inputs, and keeps the state of the reader in its folder."""

    def __init__(self, reader: Reader, folder: Path, seconds: float) -> None:
        self.reader, self.folder, self.state = reader, folder, State.read(folder)
        self.before, self.until = self.state.seconds, seconds
        self.seeds = _seeds(reader, folder)
        self.choices = [(seed, name) for seed in self.seeds for name in seed if not fnmatch(name, reader.whole)]
        self.scratch = tempfile.TemporaryDirectory(prefix="fuzz", dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None)
        self.number = 0
        signal.signal(signal.SIGPROF, self._hangs)
        for number in range(len(self.choices)):
            error = self._outcome(self._files(self.input(number)), seconds=0)  # without limit: topoflow is imported
            if error is not None:
                traceback.print_exception(error)
                raise SystemExit(f"{self.folder.name}: seed {number} must be accepted, got {error!r}")
        self.begin = self.saved = time.process_time()

    def input(self, number: int) -> bytes:
        seed, name = self.choices[number]
        return bytes([number]) + seed[name]

    def one(self, data: bytes) -> None:
        """Read one input; end the process where the time is over."""
        files = self._files(data)
        self._reset_high_water()
        before, begin = _memory(), time.process_time()
        error = self._outcome(files)
        end, memory = time.process_time(), max(0, _high_water() - before)
        self.state.inputs += 1
        self.state.accepted += error is None
        self.state.longest = max(self.state.longest, end - begin)
        self.state.memory = max(self.state.memory, memory)
        if error is not None and not refuses(error):
            self._fails(place_of(error), files, "".join(traceback.format_exception(error)))
        elif memory > MAX_GROWTH * sum(map(len, files.values())) + MORE_MEMORY:
            self._fails(f"memory of {memory // 2**20} MiB", files, f"{memory} bytes\n")
        is_over = self.before + end - self.begin >= self.until
        if is_over or end - self.saved > SAVE_EVERY:
            self.saved = end
            self.save()
        if is_over:
            self.scratch.cleanup()
            os._exit(0)

    def save(self) -> None:
        self.state.seconds = self.before + time.process_time() - self.begin
        self.state.write(self.folder)

    def _files(self, data: bytes) -> Files:
        seed, name = self.choices[data[0] % len(self.choices) if data else 0]
        return {**seed, name: data[1:]}

    def _outcome(self, files: Files, seconds: float = MAX_SECONDS) -> BaseException | None:
        """Return what reading the files raised. Each time they are in another folder, as readers remember some."""
        self.number += 1
        folder = Path(self.scratch.name) / str(self.number)
        paths = [folder / name for name in files]
        for path, content in zip(paths, files.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            self.reader.read(paths)
        except BaseException as error:
            return error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _hangs(self, number: int, frame: FrameType | None) -> None:
        raise Hang(f"{MAX_SECONDS} s of CPU time")

    def _reset_high_water(self) -> None:
        if _high_water() - _memory() > HIGH_WATER:
            Path("/proc/self/clear_refs").write_text("5")

    def _fails(self, place: str, files: Files, text: str) -> None:
        self.state.failures[place] = self.state.failures.get(place, 0) + 1
        if self.state.failures[place] == 1 and len(self.state.failures) <= MAX_FAILURES:
            folder = self.folder / "failed" / str(len(self.state.failures))
            _write(folder, files)
            (folder / "traceback.txt").write_text(f"{place}\n{text}", errors="replace")
        self.save()


def refuses(error: BaseException) -> bool:
    """Return whether a reader refused a file in its own words: an error that a line of topoflow raises.

    Errors of the operating system have words of their own: no such file, no space left.
    """
    if isinstance(error, OSError):
        return True
    if not isinstance(error, ValueError) or (last := _last(error)) is None:
        return False
    code = last.tb_frame.f_code
    instruction = dis.opname[code.co_code[last.tb_lasti]]
    return f"{os.sep}topoflow{os.sep}" in code.co_filename and instruction == "RAISE_VARARGS"


def _last(error: BaseException) -> Any:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last


def place_of(error: BaseException) -> str:
    """Return the type of an error with the last line of topoflow that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "topoflow" in frame.filename]
    where = f"{frames[-1].filename.rpartition('topoflow/')[2]}:{frames[-1].lineno}" if frames else "no line of topoflow"
    return f"{type(error).__name__} {where}"


def _memory() -> int:
    """Return the resident memory of this process, B."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _high_water() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _seeds(reader: Reader, folder: Path) -> list[Files]:
    """Return the seeds of a reader, which are made once."""
    seeds = folder / "seeds"
    if not seeds.exists():
        part = folder / "seeds.part"
        shutil.rmtree(part, ignore_errors=True)
        (part / "scratch").mkdir(parents=True)
        for number, files in enumerate(reader.seeds(part / "scratch")):
            _write(part / f"{number:02d}", files)
        shutil.rmtree(part / "scratch")
        part.rename(seeds)
    return [
        {path.relative_to(seed).as_posix(): path.read_bytes() for path in sorted(seed.rglob("*")) if path.is_file()}
        for seed in sorted(seeds.iterdir())
    ]


def _write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def fuzz(name: str, folder: Path, seconds: float) -> None:
    """Read changed files until the reader has had ``seconds`` of CPU time, over all runs."""
    import atheris

    hook = atheris.instrument_imports(include=["topoflow"])
    hook.__enter__()  # for all that follows: readers import what they need when they need it
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    reader = READERS[name]
    target = Target(reader, folder, seconds)
    inputs = [target.input(number) for number in range(len(target.choices))]
    for number, data in enumerate(inputs):
        (corpus / f"seed{number}").write_bytes(data)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        dice = Random(seed)
        if dice.random() < FRESH:
            data = dice.choice(inputs)
        head, content = data[:1] or b"\0", data[1:]
        by_structure = dice.random() < 0.5
        content = changed(content, dice) if by_structure else atheris.Mutate(content or b"x", max_size - 1)
        if reader.repair is not None and dice.random() < 0.8:
            content = reader.repair(content)
        return (head + content)[:max_size]

    options = {
        "max_len": 2 * max(map(len, inputs)) + 256,
        "timeout": 1200,  # s of wall time; ``Hang`` is of CPU time
        "rss_limit_mb": 0,
        "malloc_limit_mb": 0,
        "len_control": 0,
        "mutate_depth": 1,  # a change of ``mutate`` is several already
        "reduce_inputs": 0,  # shorter files are not nearer to whole ones
        "verbosity": 0,
        "detect_leaks": 0,
        "reload": 0,
        "artifact_prefix": f"{folder}/",
    }
    arguments = ["fuzz", str(corpus), *(f"-{option}={value}" for option, value in options.items())]
    atheris.Setup(arguments, target.one, custom_mutator=mutate)
    atheris.Fuzz()
