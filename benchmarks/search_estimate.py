"""How well the estimate that chains walk by orders strategies: its rank correlation with ``fluid``.

    python benchmarks/search_estimate.py
    python benchmarks/search_estimate.py servers=16 strategies=60

Prints ``path.metric value`` lines, for each workload of layers, network and all-reduce: ``rank`` is Spearman's
correlation over random strategies, ``error`` the median relative difference, and ``bound_above`` the share of
strategies for which ``StrategyBound`` is larger than the estimate, where it knows the all-reduce. Strategies are the
hybrid one after 0 to 32 moves as the search proposes them, whatever they cost.
"""

from __future__ import annotations

import numpy as np
from measure import say
from placements import settings
from scipy import stats

from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.engine.screen.strategy_bound import StrategyBound
from topoflow.search.judge import Judge, Wiring
from topoflow.search.moves import draw, moves
from topoflow.search.placements import choices
from topoflow.search.problem import Problem
from topoflow.search.screen import screen
from topoflow.study.configure.grid import build, grid
from topoflow.study.configure.keys import check
from topoflow.workload.base import layer_graph
