from scikit_build_core.setuptools.wrapper import setup
from setuptools import find_packages

setup(
    packages=[
        *find_packages(include=["topoflow", "topoflow.*"], exclude=["topoflow.configs"]),
        "topoflow.configs",
        "hydra_plugins.topoflow_batch",  # hydra_plugins is where Hydra looks for plugins, in a package of nobody
    ],
    package_dir={"topoflow.configs": "configs", "hydra_plugins.topoflow_batch": "integrations/hydra/topoflow_batch"},
    cmake_source_dir="csrc",
    cmake_install_dir="topoflow",
)
