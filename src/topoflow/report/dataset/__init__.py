"""Datasets: the rows of sweeps that are too large for one report, in Parquet files written and read in parts."""
