"""``executor=slurm``: jobs of a Slurm cluster, submitted by submitit; each is a piece of work.

A job reads its piece from the folder, which all nodes see, and leaves its answers there, as arrays. submitit gives it
the names of these files, and says whether it runs. What was submitted by a process that was killed is cancelled by the
next one with the same folder.

    FOLDER/slurm/3f0c....work      a piece of work: the bytes that this process pickled, and the job of it reads
    FOLDER/slurm/3f0c....note      how far it is, JSON
    FOLDER/slurm/3f0c....answers   its answers; or
    FOLDER/slurm/3f0c....error     what is wrong, JSON
    FOLDER/slurm/*.out, *.err      what jobs have printed (submitit)
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topoflow.engine.device import Device
from topoflow.engine.executor import answers
from topoflow.engine.executor.remote import Remote
from topoflow.engine.executor.settings import check_settings
from topoflow.engine.executor.worker import Answered, Ended, Event, Failed, Note, events
from topoflow.files import naming, write_atomically

SYSTEMS = ("slurm", "local")
CHECK_INTERVAL = 5.0  # s between two looks at whether a job runs: each asks Slurm's controller
COMMAND_TIMEOUT = 60  # s, of a command of Slurm
ALIVE = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "RESIZING", "STOPPED")


@dataclass(frozen=True)
class Slurm:
    """Up to ``jobs`` at the same time, each with ``cpus``, ``gpus`` (None: one where the device is a GPU), ``memory``
    (GB; None: as the partition has it) and ``minutes``, in ``partition`` and for ``account`` (None: as Slurm has it).

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
    seconds = 0.0  # pieces are cut for all jobs at once
    least_seconds = 30.0  # to begin a job takes a second of the CPU, besides the time in the queue
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
        return SlurmPool(self._executor(device, own), own, self.jobs, self.system == "slurm")

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
    busy: dict[str, Any] = field(default_factory=dict)  # jobs by the names of their files
    _noted: dict[str, int] = field(default_factory=dict)  # when the notes that were seen last were written, ns
    _over: set[str] = field(default_factory=set)  # those that had ended at the last look, without an answer
    _checked: float = 0.0
    _begun: bool = False

    def workers(self) -> int:
        return self.count

    def cancel_earlier(self) -> None:
        """End the jobs of a process that was killed: what it waited for is not known any more."""
        for path in self.folder.glob("*.job"):
            self._cancel(path.stem, path.read_text())

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        if not self._begun:
            self.cancel_earlier()
            self._begun = True
        own = uuid.uuid4().hex
        with naming(self._file(own, "work")):
            self._file(own, "work").write_bytes(payload)
        try:
            job = self.executor.submit(do, str(self.folder), own, expected)
        except Exception as error:  # of submitit, or of sbatch
            self._forget(own)
            reason = " ".join(str(error).split())
            raise ValueError(f"executor: must be a Slurm that takes jobs, got {reason}") from error
        self._file(own, "job").write_text(str(job.job_id))
        self.busy[own] = job
        return own

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, Event]]:
        looks = time.monotonic() - self._checked > CHECK_INTERVAL
        if looks:
            self._checked = time.monotonic()
        found = [(own, event) for own in self.busy if (event := self._event(own, looks)) is not None]
        for own, event in found:
            if not isinstance(event, Note):
                del self.busy[str(own)]
                self._noted.pop(str(own), None)
                self._forget(str(own))
        if not found:
            time.sleep(seconds)
        return found

    def cancel(self) -> None:
        for own, job in self.busy.items():
            self._cancel(own, str(job.job_id))
        self.busy.clear()

    def _cancel(self, own: str, number: str) -> None:
        """A job looks for its files, and ends without them; one that waits is taken out of the queue."""
        self._forget(own)
        if self.has_queue and number.isdigit():
            subprocess.run(["scancel", number], capture_output=True, timeout=COMMAND_TIMEOUT)

    def _event(self, own: str, looks: bool) -> Event | None:
        if (answered := self._answered(own)) is not None:
            return answered
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

    def _answered(self, own: str) -> Event | None:
        path = self._file(own, "answers")
        if path.exists():
            return Answered(answers.read(path), self._file(own, "kept").exists())
        path = self._file(own, "error")
        return _event_of(path.read_bytes()) if path.exists() else None

    def _file(self, own: str, kind: str) -> Path:
        return self.folder / f"{own}.{kind}"

    def _forget(self, own: str) -> None:
        for kind in ("work", "note", "answers", "kept", "error", "job"):
            self._file(own, kind).unlink(missing_ok=True)

    def _has_ended(self, job: Any) -> bool:
        """By the queue, as accounting is not everywhere."""
        if not self.has_queue:
            return bool(job.done())
        asked = ["squeue", "--noheader", "--format=%T", f"--jobs={job.job_id}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=COMMAND_TIMEOUT)
        if done.returncode:
            return "Invalid job id" in done.stderr
        return not any(state in ALIVE for state in done.stdout.split())


def do(folder: str, own: str, expected: str) -> None:
    """Runs in a job: the piece of work ``own`` of the folder."""
    base = Path(folder) / own
    work = base.with_suffix(".work")
    if not work.exists():
        return
    for event in events(work.read_bytes(), expected):
        if not work.exists():  # the process that asked has ended, and a thread of this one still works
            os._exit(0)
        if isinstance(event, Note):
            base.with_suffix(".note").write_text(json.dumps([event.done, event.values]))
        elif isinstance(event, Answered):
            if event.is_kept:
                base.with_suffix(".kept").touch()
            answers.write(base.with_suffix(".answers"), event.content)
        else:
            write_atomically(base.with_suffix(".error"), _bytes_of(event))


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
