"""Datasets: the rows of sweeps too large for one report, in Parquet files that are written and read in parts."""
