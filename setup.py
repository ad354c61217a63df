from scikit_build_core.setuptools.wrapper import setup

setup(cmake_source_dir="csrc", cmake_install_dir="topoflow")
