"""Problem and settings of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from topoflow.collectives.algorithm import names
from topoflow.engine.base import Fidelity
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.engine.lowering.routing import routings
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.prices import Prices
from topoflow.strategy.base import Strategy
from topoflow.units import check_among, check_positive, check_seed, check_whole
from topoflow.workload.base import Workload

MINIMA = {"proposals": 0, "patience": 0, "chains": 1, "ladders": 1, "rounds": 1, "decide": 1, "degrees": 1}
MAX_COUNT = 2**16  # chains, ladders, rounds, strategies of a round: each chain and strategy is held in memory
MAX_STEPS = 2**22  # of a chain in a round: each is a row of the history, 200 B, and takes at least 0.1 ms
# Steps of a chain in a round of the first stage with proposals, and the growth factor of later stages. The stages
# before the last make at most a quarter of its proposals. The 250 steps of the defaults are a stage.
FIRST_STEPS, GROWTH = 50, 5
OBJECTIVES = ("time", "cost", "power", "pareto")


@dataclass(frozen=True)
class Problem:
    """A job, its initial strategy, and the kind of network to search.

    The search for a job of layers begins at ``start`` and at those of ``others`` that fit; ``design`` builds a fabric
    for every promising strategy. A recorded job keeps the strategy ``start``, and only the network is searched.
    ``fidelity`` predicts the iteration times of the start and of the result.
    """

    workload: Workload
    start: Strategy
    design: FabricDesign
    prices: Prices | None = None  # None: plans have no price
    all_reduce: str = "hierarchical"
    routing: str = "ecmp"
    seed: int = 0
    fidelity: Fidelity = Fluid()
    others: tuple[Strategy, ...] = ()  # the best on other fabrics, of the same kind and number of servers

    def __post_init__(self) -> None:
        for key, value, allowed in (
            ("all_reduce", self.all_reduce, names("all_reduce")),
            ("routing", self.routing, routings()),
        ):
            check_among(key, value, allowed)
        check_seed("seed", self.seed)

    @property
    def servers(self) -> int:
        return self.start.servers

    @property
    def lowering(self) -> Lowering:
        """Return the lowering, with rings as flows: in steps, a job on 128 servers has millions of tasks."""
        return Lowering(self.all_reduce, self.routing, "flows", self.seed)

    def placer(self, fabric: Fabric) -> Placer:
        """Return a placer of traffic on ``fabric``."""
        return Placer(fabric, self.lowering)


@dataclass(frozen=True)
class Effort:
    """The number and the length of a round."""

    round: int  # from 0 in each stage; with the seed it determines the random numbers
    steps: int  # of every chain


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search; ``configs/search.yaml`` has the sources of the defaults.

    ``proposals`` counts those of all ``chains`` of all ``ladders`` in one round of the last stage (``stages``), at most
    ``MAX_STEPS`` per chain; a stage has at most ``rounds`` rounds. All chains of a ladder descend together until
    ``patience`` steps in a row find nothing faster (0: no descent), then each has a temperature: the coldest accepts
    ``acceptance[0]`` of the slower proposals, the hottest ``acceptance[1]``. The ``decide`` best of a round are
    simulated in the fidelity of the problem, with the settings of ``coarse`` for it, if any. If degrees are searched
    instead of placements, a round lowers ``degrees`` of them. ``emphasis`` scales the bytes of all-reduces in the
    demand that a fabric is built for: 1 is the job's demand (TopoOpt's algorithm); other values give more topologies to
    choose from. With ``ideal``, every second round of a network without switches explores on an ideal one (also beyond
    TopoOpt's algorithm).
    """

    proposals: int = 4000
    chains: int = 16
    ladders: int = 1
    rounds: int = 4
    decide: int = 4
    degrees: int = 16
    patience: int = 20
    acceptance: Sequence[float] = (1e-4, 0.1)
    coarse: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"fluid": {"merge": 0.01}})
    emphasis: Sequence[float] = (1.0, 0.5, 2.0)
    ideal: bool = True
    objective: str = "time"

    def __post_init__(self) -> None:
        for key, least in MINIMA.items():
            check_whole(f"search.{key}", getattr(self, key), least, None if key == "proposals" else MAX_COUNT)
        if self.steps > MAX_STEPS:
            chains = self.ladders * self.chains
            rule = f"must be at most {MAX_STEPS * chains} of {chains} chains"
            raise ValueError(f"search.proposals: {rule}, got {self.proposals}")
        shares: list[Any] = [*self.acceptance]
        numbers = all(isinstance(share, int | float) and not isinstance(share, bool) for share in shares)
        if not (numbers and len(shares) == 2 and 0 < shares[0] <= shares[1] < 1):
            rule = "must be two shares above 0 and below 1, that of the coldest chain first"
            raise ValueError(f"search.acceptance: {rule}, got {shares}")
        if not self.emphasis:
            raise ValueError("search.emphasis: must have at least one number, got none")
        for factor in self.emphasis:
            check_positive("search.emphasis", factor)
        check_among("search.objective", self.objective, OBJECTIVES)

    @property
    def kept_states(self) -> int:
        """Return how many states a walk keeps: those that are simulated, and its start."""
        return self.decide + 1

    @property
    def steps(self) -> int:
        """Return the proposals of every chain in a round: the least whole number that makes ``proposals``."""
        return -(-self.proposals // (self.ladders * self.chains))

    @property
    def stages(self) -> tuple[int, ...]:
        """Return the proposals of every chain in a round of each stage: 0, 50, 250, ..., the last nearest to ``steps``.

        The stages of a search with fewer ``proposals`` are the first stages of one with more.
        """
        stages = [0]
        if self.steps > 0:
            stages.append(FIRST_STEPS)
            while stages[-1] * GROWTH**0.5 < self.steps:
                stages.append(stages[-1] * GROWTH)
        return tuple(stages)

    def deciding(self, fidelity: Fidelity) -> Fidelity:
        """Return the variant of ``fidelity`` that decides between candidates. Raises ``ValueError`` for wrong keys."""
        model: Any = fidelity
        try:
            variant: Fidelity = replace(model, **self.coarse.get(fidelity.name, {}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"search.coarse.{error}") from error
        return variant
