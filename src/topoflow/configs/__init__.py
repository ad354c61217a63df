"""The configurations of topoflow, a package that Hydra reads: ``pkg://topoflow.configs``.

Whoever composes them finds what the files cannot say themselves: the resolvers of units (``${gbps:100}``);
``fidelities``, a configuration that has the settings of every file of ``fidelity/`` under its name (``fluid.merge``);
``trackers``, which knows the group of every tracker (``wandb=offline``) and chooses none.
"""

from pathlib import Path

from hydra.core.config_store import ConfigStore

from topoflow.collectives.algorithm import circuits_for
from topoflow.track import trackers
from topoflow.units import register_resolvers

register_resolvers(circuits_for)
ConfigStore.instance().store(
    name="fidelities",
    node={
        "defaults": [
            {f"fidelity@{path.stem}": path.stem} for path in sorted(Path(__file__).parent.glob("fidelity/*.yaml"))
        ]
    },
    provider="topoflow",
)
ConfigStore.instance().store(
    name="trackers", node={"defaults": [{name: None} for name in trackers()]}, provider="topoflow"
)
