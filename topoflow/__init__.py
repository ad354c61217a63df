"""topoflow: which network and which way of splitting the job make an iteration fastest, and at what price."""

__version__ = "0.1.0"
