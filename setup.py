from scikit_build_core.setuptools.wrapper import setup
from setuptools import find_packages

setup(
    packages=[*find_packages(include=["topoflow", "topoflow.*"], exclude=["topoflow.configs"]), "topoflow.configs"],
    package_dir={"topoflow.configs": "configs"},
    cmake_source_dir="csrc",
    cmake_install_dir="topoflow",
)
