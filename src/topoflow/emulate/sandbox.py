"""Sandbox: starts a program in its own network namespace, and ends it however this process ends.

``unshare`` gives the program namespaces for network, mounts and processes. The program is killed with its parent
(``--kill-child``), and the parent with this process (``setpriv --pdeathsig``), so that even kill -9 leaves nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

POLL_INTERVAL = 0.5  # s
PROGRAMS = ("ip", "tc", "mount", "unshare", "setpriv", "sysctl")
UNSHARE = ("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")


def why_not() -> str | None:
    """Return why this machine cannot emulate, in one line; None if it can."""
    if not sys.platform.startswith("linux"):
        return f"emulate: must run on Linux, got {sys.platform}"
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"emulate: must find {', '.join(missing)} (iproute2, util-linux, procps), got no such program"
    if os.geteuid() != 0:
        return f"emulate: must be run as root, who may make network namespaces, got user {os.geteuid()}"
    trial = "ip link add dev v0 type veth peer name v1 && tc qdisc add dev v0 root tbf rate 1mbit burst 5000 limit 5000"
    finished = subprocess.run(
        [*UNSHARE, "sh", "-c", f"mount -t tmpfs none /run && {trial}"], capture_output=True, text=True
    )
    if finished.returncode:
        message = (finished.stderr.strip().splitlines() or ["nothing"])[-1]
        return f"emulate: must be allowed namespaces, veth and tbf, got {message!r}"
    return None


def start(
    folder: Path,
    network: Mapping[str, Any],
    command: Sequence[str],
    environment: Mapping[str, str],
    watch: Callable[[], None] = lambda: None,
) -> int:
    """Run ``command`` in ``network`` (fields of ``inside.Network``); return its exit code after all processes ended.

    ``watch`` is called every ``POLL_INTERVAL`` while it runs. ``job.log`` in ``folder`` holds the output.
    Raises ``ValueError`` where the network cannot be built.
    """
    if (refusal := why_not()) is not None:
        raise ValueError(refusal)
    (folder / "network.json").write_text(json.dumps(network))
    (folder / "command.json").write_text(json.dumps({"arguments": list(command), "environment": dict(environment)}))
    inside = [sys.executable, "-m", "topoflow.emulate.inside", str(folder)]
    with (folder / "network.log").open("w") as log:
        program = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *UNSHARE, *inside],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches only this process, which then ends the program
        )
        try:
            code = None
            while code is None:
                with suppress(subprocess.TimeoutExpired):
                    code = program.wait(POLL_INTERVAL)
                watch()
        finally:
            program.kill()
            program.wait()
    if not (folder / "job.log").exists():
        message = ((folder / "network.log").read_text().strip().splitlines() or ["nothing"])[-1]
        raise ValueError(f"emulate: must be able to build the network, got {message!r}")
    return code
