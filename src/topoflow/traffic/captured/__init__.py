"""Recorded jobs as traffic: the iteration that stands for the job, what waits for what, how long each event takes."""
