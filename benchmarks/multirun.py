"""What a multirun costs: as one comparison, by ``hydra/launcher=topoflow_batch``, and by Hydra's own launcher.

python benchmarks/multirun.py points=1000 basic=50
python benchmarks/multirun.py process=1000

``basic``: as many jobs are run by Hydra's own launcher, whose time grows with their number. ``floor`` is the same with
a job that does nothing: Hydra's sweeper, composition, logging and files alone. ``files`` are jobs that do nothing by
``topoflow_batch``: the sweeper, composition and the files; ``disk`` writes as many folders and files of the same sizes
and no more. Seconds are of the CPU, of one process each, less those of a
run of one point: what a point more costs.

``process``: about as many points of five sweeps by ``topoflow.compare``, with the row of each: CPU seconds of a point
more, with the kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SMALL = ("servers=4", "workload.tables=8", "workload.rows=1000", "fabric=fat_tree")
ARGUMENTS = {
    "comma": (),
    "batch": ("--multirun", "hydra/launcher=topoflow_batch", "hydra.sweep.dir=batch"),
    "files": ("--multirun", "hydra/launcher=topoflow_batch", "hydra.sweep.dir=files"),
    "disk": (),
    "basic": ("--multirun", "hydra.sweep.dir=basic"),
    "floor": ("--multirun", "hydra.sweep.dir=floor"),
}
SWEEPS = {
    "speed": ("servers=16", "fabric=fat_tree"),
    "networks": ("servers=8,16", "fabric=fat_tree,ring,leaf_spine,ideal_switch", "degree=1,2,4,8"),
    "latency": ("servers=128", "fabric=fat_tree", "latency_us=1,2,5,10"),
    "batch": ("servers=16", "fabric=fat_tree", "workload.batch_per_gpu=range(1,11)"),
    "nodes": (
        *("workload=llama3_8b", "node=hgx_h100", "gpus=64", "fabric=rail_optimized,fat_tree", "all_reduce=nccl"),
        *("strategy=parallel", "strategy.tensor=8", "global_batch=64", "micro_batch=1"),
    ),
}
OTHERS = {"networks": 32, "latency": 4, "batch": 10, "nodes": 2}  # points of each bandwidth
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
DISK = """
import sys
from pathlib import Path

for number in range(int(sys.argv[-1].split(",")[1][:-1]) - 1):
    folder = Path("disk", str(number), ".hydra")
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in (("config.yaml", 3654), ("hydra.yaml", 3870), ("overrides.yaml", 90), ("../result.json", 6607)):
        (folder / name).write_text("x" * size)
"""
RUN = "import resource, sys; exec(sys.argv.pop(1)); " + (
    "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime, used.ru_stime, file=sys.stderr)"
)


def seconds(mode: str, points: int, folder: Path) -> tuple[float, float]:
    """CPU seconds of one process with that many points, of its own and of the kernel."""
    code = {"files": NOTHING, "floor": NOTHING, "disk": DISK}.get(mode, COMPARE)
    words = [*ARGUMENTS[mode], *SMALL, f"bandwidth_gbps=range(1,{points + 1})"]
    command = [sys.executable, "-c", RUN, code, *words]
    env = {**os.environ, "TOPOFLOW_RUNS": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=True)
    used, kernel = map(float, done.stderr.splitlines()[-1].split())
    return used, kernel


def in_process(points: int) -> None:
    """Print the CPU seconds that a point more takes of each of ``SWEEPS``."""
    import topoflow

    for name, words in SWEEPS.items():
        taken = {}
        for bandwidths in (2, 2, points):  # the first also imports modules and reads files
            bandwidths = -(-bandwidths // OTHERS.get(name, 1)) + 1
            begin = time.process_time()
            results = topoflow.compare("fidelity=bound", *words, f"bandwidth_gbps=range(0.5,{bandwidths})")
            rows = [result.row for result in results]
            taken[len(rows)] = time.process_time() - begin
        (few, of_few), (many, of_many) = taken.items()
        print(f"multirun.process.{name}.points {many}")
        print(f"multirun.process.{name}.seconds_per_point {(of_many - of_few) / (many - few):.6f}", flush=True)


def main(words: list[str]) -> None:
    options = {key: int(value) for key, _, value in (word.partition("=") for word in words)}
    if "process" in options:
        in_process(options["process"])
        return
    points = {mode: options.get("points", 1000) for mode in ("comma", "batch", "files", "disk")}
    points |= {mode: options.get("basic", 50) for mode in ("basic", "floor")}
    total, overhead = {}, {}
    with tempfile.TemporaryDirectory() as name:
        for mode, count in points.items():
            single, many = seconds(mode, 1, Path(name)), seconds(mode, count, Path(name))
            overhead[mode] = (many[0] - single[0]) / (count - 1)
            total[mode] = overhead[mode] + (many[1] - single[1]) / (count - 1)
            print(f"multirun.{mode}.points {count}")
            print(f"multirun.{mode}.seconds_per_point {total[mode]:.5f}")
            print(f"multirun.{mode}.without_the_kernel {overhead[mode]:.5f}", flush=True)
    print(f"multirun.batch_over_comma {total['batch'] / total['comma']:.3f}")
    print(f"multirun.batch_over_comma.without_the_kernel {overhead['batch'] / overhead['comma']:.3f}")
    for floor in ("disk", "files", "floor"):
        print(f"multirun.batch_over_comma_and_{floor} {total['batch'] / (total['comma'] + total[floor]):.3f}")
    print(f"multirun.basic_over_batch {total['basic'] / total['batch']:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
