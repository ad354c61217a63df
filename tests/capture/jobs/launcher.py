"""Starts jobs of two ranks for tests: a line of JSON in, a line with the ranks' exit statuses out.

Ranks are forked, so that torch is imported once. A rank ends as the script of an interpreter does: by its return, by
what it raises, or by a signal. Each writes to RANK.out and RANK.err in its job's folder.
"""

import json
import os
import runpy
import socket
import sys

import torch.distributed
import torch.nn  # noqa: F401

import topoflow.capture.record.recorder  # noqa: F401
from topoflow.capture.__main__ import main

RANKS = 2


def run(job: dict) -> list[int] | None:
    """Run the ranks of a job and return their statuses, None in a rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(RANKS):
        process = os.fork()
        if process == 0:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            for stream, name in enumerate((os.devnull, f"{job['folder']}/{rank}.out", f"{job['folder']}/{rank}.err")):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666), stream)
            return None
        processes.append(process)
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


for line in iter(sys.stdin.readline, ""):
    job = json.loads(line)
    statuses = run(job)
    if statuses is None:
        break
    print(json.dumps(statuses), flush=True)
else:
    sys.exit()
if job["out"]:
    sys.exit(main(["run", "--out", job["out"], *job["script"]]))
sys.argv = job["script"]
runpy.run_path(job["script"][0], run_name="__main__")
