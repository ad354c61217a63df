"""What networks are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from topoflow.demand import Demand


@pytest.fixture(scope="session")
def demands() -> st.SearchStrategy[tuple[int, int, Demand]]:
    """Servers, degree, any demand: some groups, some pairs."""

    @st.composite
    def draws(draw: st.DrawFn) -> tuple[int, int, Demand]:
        servers = draw(st.integers(2, 20))
        numbers = np.random.default_rng(draw(st.integers(0, 10**6)))
        mp = numbers.random((servers, servers)) * (numbers.random((servers, servers)) < draw(st.floats(0, 1))) * 1e9
        np.fill_diagonal(mp, 0)
        members = st.lists(st.integers(0, servers - 1), min_size=2, unique=True).map(tuple)
        groups = draw(st.dictionaries(members, st.floats(0, 1e10), max_size=4))
        return servers, draw(st.integers(1, 9)), Demand.from_matrix(mp, groups)

    return draws()
