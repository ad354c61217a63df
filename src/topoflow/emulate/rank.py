"""One rank of a job under torchrun: enters the namespace of its server, then runs the job's script.

torchrun runs in the namespace of the control network, which carries the rendezvous but not the job's data. Optimizer
steps are noted, so that the iterations of any script can be measured. DistributedDataParallel and FSDP2 models follow
the plan that the environment names, if any.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
from functools import cache, wraps
from pathlib import Path
from typing import Any

from topoflow.emulate.marks import Marks

PLAN = "TOPOFLOW_PLAN"  # environment variable: path of plan.json


def enter(namespace: Path) -> None:
    """Move this thread, and threads it starts later, into ``namespace``. Raises ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is new in Python 3.12
    with namespace.open() as file:
        if libc.setns(file.fileno(), 0) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(namespace))


def note_steps() -> None:
    """Write a mark after every optimizer step of this process from now on."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    marks = Marks.of_environment()

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        marks.note("step")

    register_optimizer_step_post_hook(stepped)


def follow(plan: str) -> None:
    """Make every model that DDP or fully_shard wraps from now on take the rings of ``plan``."""
    import torch.distributed as dist
    from torch.distributed import fsdp
    from torch.nn.parallel import DistributedDataParallel

    from topoflow.apply.torch import PermutedRings

    @cache
    def rings(ranks: tuple[int, ...]) -> PermutedRings:  # one object for all layers with the same ranks
        return PermutedRings.from_plan(plan, group=groups[ranks])

    def register(model: Any, group: Any) -> None:
        ranks = tuple(dist.get_process_group_ranks(group))
        groups.setdefault(ranks, group)
        rings(ranks).register(model)

    groups: dict[tuple[int, ...], Any] = {}
    wrap, shard = DistributedDataParallel.__init__, fsdp.fully_shard

    def wrapped(self: Any, *arguments: Any, **keywords: Any) -> None:
        wrap(self, *arguments, **keywords)
        register(self, self.process_group)

    @wraps(shard)
    def sharded(module: Any, *, mesh: Any = None, **keywords: Any) -> Any:
        modules = shard(module, mesh=mesh, **keywords)
        first = modules[0] if isinstance(modules, list) else modules
        if mesh is not None and mesh.ndim != 1:
            raise ValueError(
                f"mesh: must have one dimension with a plan, whose rings are of one group, got {mesh.ndim}"
            )
        register(first, dist.group.WORLD if mesh is None else mesh.get_group())
        return modules

    DistributedDataParallel.__init__ = wrapped
    fsdp.fully_shard = sharded


def main(arguments: list[str]) -> None:
    """Run one rank; ``arguments`` are ``SCRIPT [ARGUMENT ...]``."""
    enter(Path(f"/run/netns/s{os.environ['RANK']}"))
    script = Path(arguments[0])
    note_steps()
    if PLAN in os.environ:
        follow(os.environ[PLAN])
    sys.argv = arguments
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
