"""The configurations of topoflow, a package that Hydra reads: ``pkg://topoflow.configs``.

Whoever composes them finds what the files cannot say themselves: the resolvers of units (``${gbps:100}``);
``fidelities``, a configuration that has the settings of every file of ``fidelity/`` under its name (``fluid.merge``);
``trackers``, which knows the group of every tracker (``wandb=offline``) and chooses none.
"""

from hydra.core.config_store import ConfigStore

from topoflow.collectives.algorithm import circuits_for
from topoflow.study.configure.own_files import stored
from topoflow.units import register_resolvers

register_resolvers(circuits_for)
for name, node in stored().items():
    ConfigStore.instance().store(name=name, node=dict(node), provider="topoflow")
