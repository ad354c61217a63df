"""Traffic of grids of ranks: the work of a stage, the order of its passes, groups that communicate side by side."""
