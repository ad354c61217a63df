"""Strategies: the distribution of a workload over servers, and the rules that make them (one module per config)."""
