"""Applying a plan to real jobs: ring orders for PyTorch's process groups."""
