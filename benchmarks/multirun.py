"""What a multirun costs: as one comparison, by ``hydra/launcher=topoflow_batch``, and by Hydra's own launcher.

python benchmarks/multirun.py points=1000 basic=50

``basic``: as many jobs are run by Hydra's own launcher, whose time grows with their number. ``floor`` is the same with
a job that does nothing: Hydra's sweeper, composition, logging and files alone. ``files`` are jobs that do nothing by
``topoflow_batch``: the sweeper, composition and the files. Seconds are of the CPU, of one process each, less those of a
run of one point: what a point more costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SMALL = ("servers=4", "workload.tables=8", "workload.rows=1000", "fabric=fat_tree")
HOW = {
    "comma": (),
    "batch": ("--multirun", "hydra/launcher=topoflow_batch", "hydra.sweep.dir=batch"),
    "files": ("--multirun", "hydra/launcher=topoflow_batch", "hydra.sweep.dir=files"),
    "basic": ("--multirun", "hydra.sweep.dir=basic"),
    "floor": ("--multirun", "hydra.sweep.dir=floor"),
}
COMPARE = "from topoflow.cli import main; main(['compare', *sys.argv[1:]])"
NOTHING = """
import hydra
from hydra.core.plugins import Plugins
from hydra_plugins.topoflow_batch.launcher import BatchLauncher

class Nothing:
    def __call__(self, config):
        pass

    def batch(self, jobs):
        return [None for _ in jobs]

Plugins.instance().register(BatchLauncher)
hydra.main(config_path="pkg://topoflow.configs", config_name="compare", version_base="1.3")(Nothing())()
"""
RUN = "import resource, sys; exec(sys.argv.pop(1)); " + (
    "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime, file=sys.stderr)"
)


def seconds(how: str, points: int, folder: Path) -> float:
    """CPU seconds of one process with that many points."""
    code = NOTHING if how in ("files", "floor") else COMPARE
    words = [*HOW[how], *SMALL, f"bandwidth_gbps=range(1,{points + 1})"]
    command = [sys.executable, "-c", RUN, code, *words]
    env = {**os.environ, "TOPOFLOW_RUNS": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=True)
    return float(done.stderr.splitlines()[-1])


def main(words: list[str]) -> None:
    given = {key: int(value) for key, _, value in (word.partition("=") for word in words)}
    points = {how: given.get("points", 1000) for how in ("comma", "batch", "files")}
    points |= {how: given.get("basic", 50) for how in ("basic", "floor")}
    each = {}
    with tempfile.TemporaryDirectory() as name:
        for how, count in points.items():
            one = seconds(how, 1, Path(name))
            each[how] = (seconds(how, count, Path(name)) - one) / (count - 1)
            print(f"multirun.{how}.points {count}")
            print(f"multirun.{how}.seconds_per_point {each[how]:.5f}", flush=True)
    print(f"multirun.batch_over_comma {each['batch'] / each['comma']:.3f}")
    print(f"multirun.batch_over_comma_and_files {each['batch'] / (each['comma'] + each['files']):.3f}")
    print(f"multirun.batch_over_comma_and_floor {each['batch'] / (each['comma'] + each['floor']):.3f}")
    print(f"multirun.basic_over_batch {each['basic'] / each['batch']:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
