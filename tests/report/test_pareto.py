"""Which of several plans are worth considering when time and price both count."""

from __future__ import annotations

import numpy as np

from topoflow.fabric.prices import front
from topoflow.report.draw import pareto
from topoflow.report.draw.pareto import PricedPlan


def test_nothing_on_the_front_is_beaten_and_everything_else_is() -> None:
    philox = np.random.Generator(np.random.Philox(key=3))
    points = [PricedPlan(str(number), *philox.integers(1, 20, 2).tolist()) for number in range(100)]
    best = [points[number] for number in front([point.price for point in points], [point.time for point in points])]

    def beats(one: PricedPlan, other: PricedPlan) -> bool:
        less = one.time <= other.time and one.price <= other.price
        return less and (one.time, one.price) != (other.time, other.price)

    assert not any(beats(one, other) for one in points for other in best)
    best_points = {(point.time, point.price) for point in best}
    assert all(
        any(beats(one, point) for one in best) for point in points if (point.time, point.price) not in best_points
    )


def test_points_of_the_front_are_numbered_by_their_price() -> None:
    figure = pareto.draw([PricedPlan("slow", 2.0, 10.0), PricedPlan("fast", 1.0, 30.0), PricedPlan("bad", 3.0, 40.0)])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2"]
    assert " 1  slow: 2 s, 10 $\n 2  fast: 1 s, 30 $" in figure.get_supxlabel()


def test_a_point_that_equals_one_of_the_front_is_not_said_to_be_beaten() -> None:
    figure = pareto.draw([PricedPlan("one", 1.0, 10.0), PricedPlan("same", 1.0, 10.0)])
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["another is as good in both, or better", "worth considering"]
