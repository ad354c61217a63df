"""``executor=slurm``: jobs of a Slurm cluster, submitted by submitit; each does pieces of work, one after the other.

A job reads its piece from the folder, which all nodes see, and leaves its answers there, as arrays. submitit gives it
the name of the first one, and says whether it runs. A job that has answered is given another piece rather than a new
job, which would wait in the queue and start. What was submitted by a process that was killed is cancelled by the next
one with the same folder.

    FOLDER/slurm/3f0c....work      a piece of work: the bytes that this process pickled, and the job of it reads; there
                                   as long as this process wants the job
    FOLDER/slurm/3f0c....job       the number of its job
    FOLDER/slurm/3f0c....note      how far it is, JSON
    FOLDER/slurm/3f0c....answers   its answers, where they are not in FOLDER already
    FOLDER/slurm/3f0c....done      that it is done, JSON; or
    FOLDER/slurm/3f0c....error     what is wrong, JSON
    FOLDER/slurm/3f0c....open      its job could do another piece: of this process and the job, whoever removes the
                                   file decides whether it does
    FOLDER/slurm/3f0c....next      the name of this other piece
    FOLDER/slurm/*.out, *.err      what jobs have printed (submitit)
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Hashable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from topoflow.engine.device import Device
from topoflow.engine.executor import answers
from topoflow.engine.executor.remote import Remote
from topoflow.engine.executor.settings import check_settings
from topoflow.engine.executor.worker import Answered, Ended, Event, Failed, Note, events
from topoflow.files import naming, write_atomically

SYSTEMS = ("slurm", "local")
SUFFIXES = ("work", "job", "note", "answers", "done", "error", "open")
PATIENCE = 30.0  # s that a job which has answered waits for another piece
HANDOVER = 120.0  # s until which the job has seen what it is
POLL_INTERVAL = 0.1  # s
END = 90.0  # s before its time is over that submitit ends a job
MOST_SLEEP = 1.0  # s between two looks at the folder; less soon after an answer, as the next may be as soon:
SHARE_ASLEEP = 0.02  # of the time since then
CHECK_INTERVAL = 5.0  # s between two looks at whether a job runs: each asks Slurm's controller
COMMAND_TIMEOUT = 60  # s, of a command of Slurm
ALIVE = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "RESIZING", "STOPPED")


@dataclass(frozen=True)
class Slurm:
    """Up to ``jobs`` at the same time, each with ``cpus``, ``gpus`` (None: one where the device is a GPU), ``memory``
    (GB; None: as the partition has it) and ``minutes``, in ``partition`` and for ``account`` (None: as Slurm has it).
    A job does another piece while there is time for one of twice its longest.

    ``system``: slurm; or local, processes of this machine, to try it. ``retries``: of a job that has ended without an
    answer.
    """

    jobs: int = 16
    cpus: int = 1
    gpus: float | None = None
    memory: float | None = None
    minutes: int = 60
    partition: str | None = None
    account: str | None = None
    system: str = "slurm"
    retries: int = 3
    seconds = 30.0  # of a piece: files are seen by other nodes after some seconds
    least_seconds = 5.0
    is_prompt = False

    def __post_init__(self) -> None:
        check_settings(self)
        for key in ("jobs", "minutes"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"executor.{key}: must be a whole number of at least 1, got {value!r}")
        if self.memory is not None and not self.memory > 0:
            raise ValueError(f"executor.memory: must be positive, got {self.memory!r}")
        if self.system not in SYSTEMS:
            raise ValueError(f"executor.system: must be one of {', '.join(SYSTEMS)}, got {self.system!r}")

    def placed(self, device: str, threads: int | None, folder: Path | None) -> tuple[Device, Remote]:
        if folder is None:
            raise ValueError("out: must be given with executor=slurm, a folder that all nodes see, got null")
        return Remote.placed(self, device, threads, folder)

    def threads(self, asked: int | None) -> int:
        return asked or self.cpus

    def pool(self, device: str, folder: Path | None) -> SlurmPool:
        assert folder is not None, "placed() has checked it"
        own = folder.absolute() / "slurm"
        own.mkdir(parents=True, exist_ok=True)
        return SlurmPool(self._executor(device, own), own, self.jobs, self.system == "slurm", 60.0 * self.minutes)

    def _executor(self, device: str, folder: Path) -> Any:
        submitit = _submitit()
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # of jobs: in a checkout they find the topoflow that is installed
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=self.system)
        except RuntimeError as error:  # no sbatch
            raise ValueError(f"executor: must be on a machine that submits to Slurm, got {error}") from error
        gpus = self.gpus if self.gpus is not None else float(device.startswith("cuda"))
        asked = {
            "name": "topoflow",
            "timeout_min": self.minutes,
            "cpus_per_task": self.cpus,
            "gpus_per_node": int(gpus) or None,
            "mem_gb": self.memory,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
        }
        executor.update_parameters(**{key: value for key, value in asked.items() if value is not None})
        return executor


@dataclass
class SlurmPool:
    """Jobs of submitit."""

    executor: Any
    folder: Path
    count: int
    has_queue: bool  # of Slurm
    limit: float  # s of a job
    busy: dict[str, Any] = field(default_factory=dict)  # jobs by the names of their pieces
    idle: dict[str, Any] = field(default_factory=dict)  # those that could do another one, by that of their last
    _noted: dict[str, int] = field(default_factory=dict)  # when the notes that were seen last were written, ns
    _over: set[str] = field(default_factory=set)  # those that had ended at the last look, without an answer
    _checked: float = 0.0
    _answered_at: float = field(default_factory=time.monotonic)
    _begun: bool = False

    def workers(self) -> int:
        return self.count

    def cancel_earlier(self) -> None:
        """End the jobs of a process that was killed: what it waited for is not known any more."""
        for path in self.folder.glob("*.job"):
            self._cancel(path.stem, path.read_text())
        for path in self.folder.glob("*.next"):  # that was not read
            path.unlink(missing_ok=True)

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        if not self._begun:
            self.cancel_earlier()
            self._begun = True
        own = uuid.uuid4().hex
        with naming(self._file(own, "work")):
            self._file(own, "work").write_bytes(payload)
        job = self._given(own)
        self.busy[own] = self._submitted(own, expected) if job is None else job
        return own

    def _given(self, own: str) -> Any | None:
        """The job that does the piece after its last one; None: there is none that waits."""
        while self.idle:
            last, job = self.idle.popitem()
            is_there = self._remove(last, "open")  # else it waits no longer
            if is_there:
                self._file(own, "job").write_text(str(job.job_id))
                write_atomically(self._file(last, "next"), own.encode())
            self._forget(last)
            if is_there:
                return job
        return None

    def _submitted(self, own: str, expected: str) -> Any:
        try:
            job = self.executor.submit(do, str(self.folder), own, expected, self.limit)
        except Exception as error:  # of submitit, or of sbatch
            self._forget(own)
            reason = " ".join(str(error).split())
            raise ValueError(f"executor: must be a Slurm that takes jobs, got {reason}") from error
        self._file(own, "job").write_text(str(job.job_id))
        return job

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, Event]]:
        looks = time.monotonic() - self._checked > CHECK_INTERVAL
        if looks:
            self._checked = time.monotonic()
        names = _names(self.folder)
        found = [(own, event) for own in self.busy if (event := self._event(own, names, looks)) is not None]
        for own, event in found:
            if not isinstance(event, Note):
                job = self.busy.pop(own)
                self._noted.pop(own, None)
                if f"{own}.open" in names:
                    self.idle[own] = job
                    self._forget(own, *(kind for kind in SUFFIXES if kind not in ("work", "job", "open")))
                else:
                    self._forget(own)
        now = time.monotonic()
        if any(not isinstance(event, Note) for _, event in found):
            self._answered_at = now
        if not found:
            time.sleep(max(seconds, min(MOST_SLEEP, SHARE_ASLEEP * (now - self._answered_at))))
        return found

    def cancel(self) -> None:
        for own, job in [*self.busy.items(), *self.idle.items()]:
            self._cancel(own, str(job.job_id))
        self.busy.clear()
        self.idle.clear()

    def _cancel(self, own: str, number: str) -> None:
        """A job looks for its files, and ends without them; one that waits is taken out of the queue."""
        self._forget(own)
        if self.has_queue and number.isdigit():
            subprocess.run(["scancel", number], capture_output=True, timeout=COMMAND_TIMEOUT)

    def _event(self, own: str, names: Set[str], looks: bool) -> Event | None:
        if f"{own}.done" in names:
            return self._answered(own)
        if f"{own}.error" in names:
            return _event_of(self._file(own, "error").read_bytes())
        if looks and self._has_ended(self.busy[own]):
            if own in self._over:  # and files that it wrote had time to come here
                return Ended(f"job {self.busy[own].job_id}; what it printed is in {self.folder}")
            self._over.add(own)
        note = self._file(own, "note")
        with suppress(ValueError, OSError):  # there is none yet, or it is being written
            written = note.stat().st_mtime_ns
            if written != self._noted.get(own):
                done, values = json.loads(note.read_text())
                self._noted[own] = written
                return Note(float(done), dict(values))
        return None

    def _answered(self, own: str) -> Answered:
        seconds, kept = json.loads(self._file(own, "done").read_bytes())
        path = self._file(own, "answers") if kept is None else self.folder.parent / Path(kept).name
        return Answered(answers.read(path), seconds, kept)

    def _file(self, own: str, kind: str) -> Path:
        return self.folder / f"{own}.{kind}"

    def _forget(self, own: str, *kinds: str) -> None:
        """Remove files of these kinds; none is said: all."""
        for kind in kinds or SUFFIXES:
            self._remove(own, kind)

    def _remove(self, own: str, kind: str) -> bool:
        """Whether it was there."""
        try:
            self._file(own, kind).unlink()
        except FileNotFoundError:
            return False
        return True

    def _has_ended(self, job: Any) -> bool:
        """By the queue, as accounting is not everywhere."""
        if not self.has_queue:
            return bool(job.done())
        asked = ["squeue", "--noheader", "--format=%T", f"--jobs={job.job_id}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=COMMAND_TIMEOUT)
        if done.returncode:
            return "Invalid job id" in done.stderr
        return not any(state in ALIVE for state in done.stdout.split())


def do(folder: str, own: str, expected: str, limit: float) -> None:
    """Runs in a job of ``limit`` s: the piece of work ``own`` of the folder, and those that follow it."""
    began, longest = time.monotonic(), 0.0

    def left(since: float) -> float:
        """s that it can wait for another piece, which may take twice as long as the longest, or as that of now."""
        now = time.monotonic()
        return began + limit - END - 2 * max(longest, now - since, Slurm.seconds) - now

    name: str | None = own
    while name is not None:
        since = time.monotonic()
        is_open = _do_piece(Path(folder) / name, expected, partial(left, since))
        longest = max(longest, time.monotonic() - since)
        name = _next(Path(folder) / name, min(PATIENCE, left(since))) if is_open else None


def _do_piece(base: Path, expected: str, left: Callable[[], float]) -> bool:
    """Whether it was written that the job can do another piece: s are ``left`` to wait for it."""
    is_open = False
    work = base.with_suffix(".work")
    if not work.exists():
        return False
    for event in events(work.read_bytes(), expected):
        if not work.exists():  # the process that asked has ended, and a thread of this one still works
            os._exit(0)
        if isinstance(event, Note):
            base.with_suffix(".note").write_text(json.dumps([event.done, event.values]))
        elif isinstance(event, Answered):
            if event.kept is None:
                answers.write(base.with_suffix(".answers"), event.content)
            if is_open := left() > 0:
                base.with_suffix(".open").touch()  # before the process that asks looks for it
            write_atomically(base.with_suffix(".done"), json.dumps([event.seconds, event.kept]).encode())
        else:
            write_atomically(base.with_suffix(".error"), _bytes_of(event))
    return is_open


def _next(base: Path, patience: float) -> str | None:
    """The name of the piece that the job does after this one; None: it ends."""
    end = time.monotonic() + patience
    waits = True
    while True:
        is_wanted = f"{base.name}.work" in _names(base.parent)  # else the next piece, if any, is there by now
        if f"{base.name}.next" in _names(base.parent):
            path = base.with_suffix(".next")
            name = path.read_text()
            path.unlink(missing_ok=True)
            return name
        if not is_wanted or (time.monotonic() > end and not waits):
            return None
        if time.monotonic() > end:
            try:
                base.with_suffix(".open").unlink()
            except FileNotFoundError:  # there is another piece, or it is being written
                waits, end = False, time.monotonic() + HANDOVER
            else:
                return None
        time.sleep(POLL_INTERVAL)


def _names(folder: Path) -> frozenset[str]:
    """Of its files. Network filesystems ask the server when a folder is opened, not for each file that is not there."""
    return frozenset(os.listdir(folder))


def _bytes_of(event: Failed | Ended) -> bytes:
    """What is wrong with a piece of work, as JSON."""
    words = ["failed", event.text, event.is_bug] if isinstance(event, Failed) else ["ended", event.reason]
    return json.dumps(words).encode()


def _event_of(content: bytes) -> Event:
    kind, *values = json.loads(content)
    return Failed(*values) if kind == "failed" else Ended(*values)


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        law = "must be local where submitit is not installed (pip install 'topoflow[slurm]')"
        raise ValueError(f"executor: {law}, got {error}") from error
    return submitit
