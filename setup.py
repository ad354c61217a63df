from scikit_build_core.setuptools.wrapper import setup
from setuptools import find_packages

setup(
    # hydra_plugins is where Hydra looks for plugins: a namespace that belongs to no package
    packages=[*find_packages("src", include=["topoflow", "topoflow.*"]), "hydra_plugins.topoflow_batch"],
    package_dir={"": "src"},
    cmake_source_dir="csrc",
    cmake_install_dir="src/topoflow",
)
