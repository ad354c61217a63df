"""How well the estimate that chains walk by orders strategies: its rank correlation with ``fluid``.

    python benchmarks/search_estimate.py
    python benchmarks/search_estimate.py servers=16 strategies=60

Prints ``path.metric value`` lines, for each workload of layers, network and all-reduce: ``rank`` is Spearman's
correlation over random strategies, ``error`` the median relative difference, and ``bound_above`` the share of
strategies for which ``StrategyBound`` is larger than the estimate, where it knows the all-reduce. Strategies are the
hybrid one after 0 to 32 moves as the search proposes them, whatever they cost.
"""

from __future__ import annotations
