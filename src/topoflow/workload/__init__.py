"""Workloads, independent of their placement: graphs of layers (one module per model), recorded jobs, messages."""
