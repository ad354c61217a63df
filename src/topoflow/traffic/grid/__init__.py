"""Grids of ranks as traffic: the work of a stage, the order of its passes, groups that communicate side by side."""
