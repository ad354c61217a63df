"""Traces of jobs: recorded here (``record/``), or read from files of others (``formats/``), as one ``Trace``.

base.py        Trace: per rank, in order, compute spans, collectives, sends and receives
load.py        files or folders of any format -> Trace
formats/       one module per format: what a file says, rank by rank
merge/         the ranks' parts -> one Trace: joined, completed, checked against each other
record/        records a PyTorch script from inside its process
jsonl.py       topoflow's own trace file
summary.py     counts, bytes and shares of time of a trace
"""
