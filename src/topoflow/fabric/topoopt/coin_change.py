"""CoinChangeMod: routes over regular rings, where the strides are coins and a distance is the sum to pay."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def coin_change(size: int, coins: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return for every distance 0..size-1 on a ring of ``size`` servers the strides of a shortest path.

    It has the fewest coins that sum to the distance modulo ``size`` (TopoOpt E.3, Algorithm 4), found breadth first;
    the earlier coin wins a tie. The paper starts every coin at distance 0 and adds 1 per further coin, which gives the
    same order with distances that are too small by 1.

        16, coins 1, 3, 7 -> distance 2: 1 1    distance 5: 1 1 3    distance 14: 7 7
    """
    strides: dict[int, tuple[int, ...]] = {0: ()}
    queue = deque([0])
    while queue:
        distance = queue.popleft()
        for coin in coins:
            further = (distance + coin) % size
            if further not in strides:
                strides[further] = (*strides[distance], coin)
                queue.append(further)
    assert len(strides) == size, f"coins {list(coins)} must generate the integers modulo {size}"
    return tuple(strides[distance] for distance in range(size))
