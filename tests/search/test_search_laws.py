"""What a search promises: never slower, the same for the same seed, stopped or not; the optimum where it is known."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.examples import examples
from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.engine.observer import Silent
from topoflow.search.alternate import search
from topoflow.search.base import Plan
from topoflow.search.checkpoint import Checkpoint, key, load, look
from topoflow.search.front import chosen
from topoflow.search.judge import Judge, Wiring
from topoflow.search.memory import budget
from topoflow.search.placements import choices
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.screen import screen
from topoflow.search.space import PlacementSpace, space
from topoflow.strategy.hybrid import Hybrid

Make = Callable[..., Problem]
QUICK = SearchSettings(proposals=160, chains=4, rounds=3, decide=3)


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "ring", "expander"])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_plan_is_never_slower_than_the_start_and_its_time_is_fluids(problem: Make, fabric: str, seed: int) -> None:
    instance = problem("servers=4", "degree=2", f"fabric={fabric}", seed=seed)
    result = search(instance, QUICK)
    built = Judge(instance, Fluid(), Run()).fabric(Wiring(instance.start, 1.0))
    (start,) = Judge(instance, Fluid(), Run()).judge([(instance.start, Wiring(instance.start, 1.0), built)])
    assert result.start.iteration_time == start.iteration_time
    assert result.plan.iteration_time <= start.iteration_time
    assert result.plan.iteration_time == Fluid().simulate([result.world])[0].makespan == result.timeline.makespan
    assert result.plan.chosen() == result.strategy
    assert result.strategy.bytes_per_gpu(instance.workload).max() <= instance.workload.gpu.memory
    times = [search_round.time for search_round in result.history.rounds]
    assert all(later <= earlier for earlier, later in itertools.pairwise(times))
    for search_round in (search_round for search_round in result.history.rounds if search_round.steps > 0):
        assert len(search_round.temperatures) == QUICK.chains
        assert 0 < search_round.temperatures[0] <= search_round.temperatures[-1]
        assert list(search_round.temperatures) == sorted(search_round.temperatures)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another_walk(problem: Make) -> None:
    one, two, other = (search(problem("servers=4", seed=seed), QUICK) for seed in (7, 7, 8))
    assert one.plan.to_json() == two.plan.to_json()
    assert one.history.steps[:, :5].tolist() == two.history.steps[:, :5].tolist()
    assert one.history.current.tolist() != other.history.current.tolist()


STEPS = (0, 1, 150, 250)  # proposals of a chain: none, one stage, and twice the same two stages
WEAK = SearchSettings(chains=1, rounds=1, decide=1)  # so that a longer walk often ends at something slower
TINY_CANDLE = (
    *("workload=candle", "workload.dense_layers=2", "workload.feature_layers=2"),
    *("workload.dense_size=1024", "workload.feature_size=512", "bandwidth_gbps=25", "gpu=h100"),
)
JOBS = ((), TINY_CANDLE)


def check_more_proposals(problem: Problem, quick: SearchSettings, proposals: Sequence[int]) -> None:
    """Compare searches with ever more proposals: each begins with the one before, and its plan is no slower."""
    searches = [search(problem, replace(quick, proposals=number)) for number in proposals]
    for less, more in itertools.pairwise(searches):
        steps = len(less.history.steps)
        assert more.history.steps[:steps, :5].tolist() == less.history.steps[:, :5].tolist()
        assert more.history.rounds[: len(less.history.rounds)] == less.history.rounds
        assert more.plan.iteration_time <= less.plan.iteration_time


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "ring", "expander"])
@pytest.mark.parametrize("job", JOBS, ids=["dlrm", "candle"])
def test_more_proposals_of_the_same_seed_never_give_a_slower_plan(
    problem: Make, job: tuple[str, ...], fabric: str
) -> None:
    for quick, seed in ((QUICK, 2), (WEAK, 7)):
        instance = problem("servers=4", f"fabric={fabric}", "degree=3", *job, seed=seed)
        check_more_proposals(instance, quick, [quick.chains * steps for steps in STEPS])


@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "ring", "expander", "torus", "leaf_spine", "dragonfly"])
@pytest.mark.parametrize("job", JOBS, ids=["dlrm", "candle"])
@pytest.mark.parametrize("seed", range(examples(1)))
def test_more_proposals_never_give_a_slower_plan_on_many_fabrics(
    problem: Make, job: tuple[str, ...], fabric: str, seed: int
) -> None:
    random = np.random.default_rng(seed)
    proposals = sorted(random.integers(0, 4097, 5).tolist())
    servers, rounds, decide = (int(random.integers(*ends)) for ends in ((4, 9), (1, 5), (1, 5)))
    keys = (f"servers={2 * (servers // 2)}", f"fabric={fabric}", *job, "degree=3")
    check_more_proposals(problem(*keys, seed=seed), SearchSettings(rounds=rounds, decide=decide), proposals)


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree"])
def test_more_rounds_never_give_a_slower_plan(problem: Make, fabric: str) -> None:
    instance = problem("servers=4", f"fabric={fabric}", "degree=3", *TINY_CANDLE, seed=3)
    times = [search(instance, replace(QUICK, rounds=rounds)).plan.iteration_time for rounds in (1, 2, 3, 4)]
    assert times == sorted(times, reverse=True)


def test_stages_grow_fivefold_and_the_last_is_the_nearest_to_the_proposals() -> None:
    def stages(proposals: int) -> tuple[int, ...]:
        return SearchSettings(proposals=proposals, chains=16).stages

    assert stages(0) == (0,)
    assert stages(1) == stages(16 * 111) == (0, 50)
    assert stages(16 * 112) == stages(4000) == stages(16 * 559) == (0, 50, 250)
    assert stages(16 * 560) == (0, 50, 250, 1250)
    assert stages(16 * 2**22)[-1] == 50 * 5**7 < 2**22


class Stop(Exception):
    """The observer has seen enough."""


class _StopAfter(Silent):
    """An observer that has seen enough after so many ``calls``."""

    def __init__(self, calls: int) -> None:
        self._count, self._calls = itertools.count(1), calls

    def record(self, **values: object) -> None:
        if next(self._count) >= self._calls:
            raise Stop


# After steps 16, 32 and 40 of a walk; while simulating.
@pytest.mark.parametrize(("every", "ladders"), [(1, 1), (2, 1), (3, 1), (5, 2)])
def test_a_search_that_is_stopped_again_and_again_finds_the_same_plan(
    problem: Make, tmp_path: Path, every: int, ladders: int
) -> None:
    instance = problem("servers=4", seed=7)
    quick = replace(QUICK, rounds=2, ladders=ladders) if every > 1 else replace(QUICK, rounds=1, proposals=16)
    uninterrupted = search(instance, quick)
    path = tmp_path / "checkpoint.npz"
    stops = 0
    while True:
        try:
            resumed = search(instance, quick, Run(observer=_StopAfter(every + 1)), checkpoint=path)
            break
        except Stop:
            assert path.exists()
            stops += 1
    assert stops > 0
    assert resumed.plan.to_json() == uninterrupted.plan.to_json()
    assert resumed.history.steps[:, :5].tolist() == uninterrupted.history.steps[:, :5].tolist()
    assert resumed.history.rounds == uninterrupted.history.rounds
    assert (
        search(instance, quick, checkpoint=path).plan.to_json() == uninterrupted.plan.to_json()
    )  # nothing is left to do


def test_ladders_begin_at_the_strategies_of_other_fabrics_in_turn(problem: Make) -> None:
    instance = problem("servers=4", "strategy=data_parallel")
    instance = replace(instance, others=(Hybrid().place(instance.workload, 4),))
    for ladders, chains, turn in (
        (1, 3, [[0, 1, 0]]),
        (2, 3, [[0, 0, 0], [1, 1, 1]]),
        (3, 2, [[0, 1], [1, 0], [0, 1]]),
    ):
        placements = space(instance, SearchSettings(ladders=ladders, chains=chains))
        assert isinstance(placements, PlacementSpace)
        states = [
            placements.choices.placement(instance.workload, strategy) for strategy in (instance.start, *instance.others)
        ]
        assert states[0].tolist() != states[1].tolist()
        assert placements.first(states[0], 0).tolist() == np.array(states)[turn].tolist()
        assert (placements.first(states[0], 1) == states[0]).all()


def test_a_checkpoint_of_another_search_is_refused_by_what_differs(problem: Make, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    search(problem("servers=4", seed=7), QUICK, checkpoint=path)
    with pytest.raises(ValueError, match=r"must be of this search to resume it, got one with another seed;"):
        search(problem("servers=4", seed=8), QUICK, checkpoint=path)
    with pytest.raises(ValueError, match=r"got one with another search\.chains, start, workload;"):
        search(problem("servers=4", "workload.tables=5", seed=7), replace(QUICK, chains=5), checkpoint=path)


def test_a_checkpoint_that_is_damaged_anywhere_is_refused_in_a_line_that_names_it(
    problem: Make, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.npz"
    instance = problem("servers=4", seed=7)
    search(instance, QUICK, checkpoint=path)
    original = path.read_bytes()
    random = np.random.default_rng(0)
    flipped = [bytearray(original) for _ in range(200)]
    for content in flipped:
        content[random.integers(len(original))] ^= 1 << random.integers(8)
    messages = []
    for content in (b"", b"no zip", b"\x93NUMPY no header", original[:100], original[:-100], *flipped):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"must be the checkpoint of a search, got another or a damaged") as error:
            load(path, key(instance, QUICK), QUICK, space(instance, QUICK))
        messages.append(str(error.value))
    assert all(message.startswith(str(path)) and "\n" not in message for message in messages)


def forged(content: bytes, meta: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """A checkpoint with these in place of its own, None: without it, and the right checksum."""
    stored = dict(np.load(io.BytesIO(content[:-32])))
    plain = {**json.loads(str(stored["meta"])), **meta}
    changed = {**stored, **arrays, "meta": np.array(json.dumps(plain))}
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in changed.items() if array is not None})
    return file.getvalue() + hashlib.sha256(file.getvalue()).digest()


@pytest.mark.parametrize(
    "header", [b"{'shape': (", b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,)}" % 10**99]
)
def test_a_checkpoint_with_an_impossible_header_of_an_array_is_refused(header: bytes, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("meta.npy", b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n")
    content = file.getvalue()
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(ValueError, match=r"checkpoint\.npz: must be the checkpoint of a search, got another"):
        look(path)


def test_a_forged_checkpoint_is_refused_by_place_field_law_and_value(problem: Make, tmp_path: Path) -> None:
    """Its checksum is right, so that only the laws of what it holds stand before the kernels."""
    instance, path = problem("servers=4", seed=7), tmp_path / "checkpoint.npz"
    with pytest.raises(Stop):
        search(
            instance, QUICK, Run(observer=_StopAfter(4)), checkpoint=path
        )  # two rounds without a walk, then one with it
    content = path.read_bytes()

    def read(meta: dict[str, Any], arrays: dict[str, Any]) -> Checkpoint:
        path.write_bytes(forged(content, meta, arrays))
        return load(path, key(instance, QUICK), QUICK, space(instance, QUICK))

    good = read({}, {})
    walk, strategy = good.walk, good.present.strategy.to_json()
    assert walk is not None
    first = next(iter(strategy["placement"]))
    less = {name: holders for name, holders in strategy["placement"].items() if name != first}
    wiring = {"strategy": strategy, "emphasis": 1.0, "strides": []}
    record = {"strategy": strategy, "wiring": wiring}
    half, low, far = walk.placement[:, :, 1:], walk.placement - 100, walk.best_placement + 10**6
    metas: list[tuple[dict[str, Any], str]] = [
        ({"stage": -1}, "stage: must be a whole number within 0..1, got -1"),
        ({"stage": 2}, "stage: must be a whole number within 0..1, got 2"),
        ({"round": -1}, "round: must be a whole number within 0.."),
        ({"round": "0"}, "round: must be a whole number within 0.."),
        ({"done": 1}, "done: must be true or false, got 1"),
        ({"best": 5}, "best: must be an object, got 5"),
        ({"present": {**record, "strategy": 5}}, "present.strategy: must have "),
        ({"best": {**record, "strategy": {**strategy, "servers": 8}}}, "best.strategy: must place layers on 4 servers"),
        ({"best": {**record, "strategy": {**strategy, "placement": less}}}, "best.strategy: must place the "),
        (
            {"present": {**record, "strategy": {**strategy, "placement": {**less, first: [0, 1, 3]}}}},
            "present.strategy: must place the ",
        ),
        ({"best": {**record, "wiring": []}}, "best.wiring: must be an object, got []"),
        ({"present": {**record, "wiring": {**wiring, "emphasis": 7}}}, "present.wiring.emphasis: must be one of "),
        ({"best": {**record, "wiring": {**wiring, "strides": [0]}}}, "best.wiring.strides: must be a list of whole "),
        (
            {"best": {**record, "wiring": {**wiring, "strategy": {**strategy, "servers": 8}}}},
            "best.wiring.strategy: must place layers on 4",
        ),
        ({"walk": [1]}, "walk: must be an object, got [1]"),
        (
            {"walk": {"step": 10**6}},
            "present.strategy: walk.step: must be a whole number within 0..50, got ",
        ),
        ({"walk": {"stuck": 0}}, "walk.step: must be given"),
        ({"rounds": {}}, "rounds: must be a list, got {}"),
        ({"rounds": [5]}, "rounds[0]: must be an object, got 5"),
        ({"rounds": [{"round": 0}]}, "rounds[0].steps: must be given, got nothing"),
    ]
    arrays: list[tuple[str, Any, str]] = [
        ("placement", half, "walk.placement: must be int32 ["),
        ("placement", walk.placement.astype(np.int64), "walk.placement: must be int32 ["),
        ("placement", low, "walk.placement: must be choices within 0.."),
        ("best_placement", far, "walk.best_placement: must be choices within 0.."),
        ("best_placement", np.zeros((0, 0), np.int32), "walk.best_placement: must be int32 ["),
        ("energy", walk.energy * np.nan, "walk.energy: must be positive and finite, got "),
        ("energy", walk.energy[:, None], "walk.energy: must be float64 ["),
        ("temperature", walk.temperature[:, ::-1], "walk.temperature: must be ascending, got "),
        ("temperature", -walk.temperature, "walk.temperature: must be positive and finite, got "),
        ("rung", walk.rung + 1, "walk.rung: must be each of 0.."),
        ("slower", walk.slower - 10**6, "walk.slower: must be at least 0, got "),
        ("stuck", walk.stuck + 21, "walk.stuck: must be within 0..20, got "),
        ("stuck", walk.stuck[:0], "walk.stuck: must be int32 [1], got "),
        ("best", walk.best[:, ::-1].copy(), "walk.best: must be positive and ascending"),
        ("history", good.history.steps[:, :5], "history: must be float64 [H, 6], got "),
        ("history", good.history.steps + np.inf, "history: must be finite and not negative"),
        ("energy", np.array(["x"]), "walk.energy: must be float64 ["),
        ("rung", None, "'rung'"),
    ]
    for meta, message in metas:
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            read(meta, {})
        assert str(error.value).startswith(f"{path}: ")
    for name, array, message in arrays:
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            read({}, {name: array})
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)


def test_the_optimum_of_a_space_small_enough_to_try_all_is_found(problem: Make) -> None:
    """3 layers, each on one of 9 sets of 4 servers: 729 strategies on one switch, whose network is always the same."""
    tiny = ("workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1", "workload.rows=100000")
    instance = problem("servers=4", "fabric=ideal_switch", "strategy=data_parallel", *tiny, seed=1)
    sets = choices(4)
    states = np.array(list(itertools.product(range(sets.count), repeat=3)), np.int32)
    judge, wiring = Judge(instance, Fluid(), Run()), Wiring(instance.start, 1.0)
    built = judge.fabric(wiring)
    strategies = [sets.strategy(instance.workload, state, instance.start) for state in states]
    best = min(plan.iteration_time for plan in judge.judge([(strategy, wiring, built) for strategy in strategies]))
    result = search(instance, SearchSettings(proposals=2000, chains=8, rounds=4, decide=8, coarse={}))
    assert result.plan.iteration_time == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["ideal_switch", "fat_tree"])
def test_defaults_find_what_screening_likes_best_of_all_and_rules_are_never_faster(problem: Make, fabric: str) -> None:
    """By exhaustion, on a network that is the same for all strategies: the walk finds the least estimate.

    So the plan is no slower than that strategy, but for the merged events (``search.coarse``) that decide. Of the
    optimum it is within the ratio of how much the estimate overrates the optimum and what it likes best.
    """
    tiny = ("workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1", "workload.rows=100000")
    instance = problem("servers=4", f"fabric={fabric}", "strategy=data_parallel", *tiny, seed=1)
    sets, layers = choices(4), len(instance.workload.layers)
    states = np.array(list(itertools.product(range(sets.count), repeat=layers)), np.int32)
    judge, wiring = Judge(instance, Fluid(), Run()), Wiring(instance.start, 1.0)
    built = judge.fabric(wiring)
    fits = budget(instance.workload, sets)
    states = states[fits.fits(fits.used(states))]
    estimates = screen(instance, built, sets).makespans(states)
    candidates = judge.judge(
        [(sets.strategy(instance.workload, state, instance.start), wiring, built) for state in states]
    )
    times = np.array([plan.iteration_time for plan in candidates])
    searched = search(instance, SearchSettings()).plan.iteration_time
    tolerance = 1 + SearchSettings().coarse["fluid"]["merge"]
    liked = estimates <= estimates.min() * (1 + 1e-9)
    assert searched <= times[liked].max() * tolerance
    optimum = times.argmin()
    overrated = estimates / times
    assert times.min() <= searched * (1 + 1e-9)
    assert searched <= times.min() * tolerance * overrated[optimum] / overrated[liked].min()
    hybrid = Hybrid().place(instance.workload, 4)
    (rule,) = judge.judge([(hybrid, wiring, built)])
    assert searched <= min(rule.iteration_time, times[(states == sets.count - 1).all(axis=1)].min()) * tolerance


def test_a_recorded_job_keeps_its_strategy_and_gets_a_network(problem: Make) -> None:
    trace = Path(__file__).resolve().parents[2] / "examples" / "ddp_4_ranks.jsonl.gz"
    instance = problem("workload=captured", f"workload.trace={trace}")
    result = search(instance, SearchSettings())
    assert result.strategy == instance.start
    assert result.plan.iteration_time <= result.start.iteration_time
    assert len(result.history.steps) == 0
    assert [len(ring.orders) for ring in result.plan.rings] == [4]  # all interfaces are for its only group


def test_degrees_of_a_transformer_are_searched_with_its_network(problem: Make) -> None:
    """A start that is far from the best: pipelined without need."""
    instance = problem(
        "workload=transformer", "workload.layers=4", "servers=4", "strategy=parallel", "strategy.pipeline=2"
    )
    result = search(instance, SearchSettings(degrees=12, decide=2, rounds=3))
    assert result.plan.iteration_time < result.start.iteration_time
    assert result.strategy.distance(instance.start) > 0
    assert Plan.from_json(result.plan.to_json()).chosen() == result.strategy
    assert search(instance, SearchSettings(degrees=12, decide=2, rounds=3)).plan == result.plan


def test_objectives_choose_as_they_say(problem: Make) -> None:
    plan = search(problem("servers=2"), replace(QUICK, proposals=0, rounds=1)).plan
    plans = [
        replace(plan, iteration_time=f, bound=0.0, cost=c, power=p)
        for f, c, p in ((3, 1, 9), (1, 9, 8), (2, 3, 1), (2, 4, 1))
    ]
    assert chosen(plans, "time") == [1]
    assert chosen(plans, "cost") == [0]  # 3, 9, 6, 8 USD s
    assert chosen(plans, "power") == [2]  # 27, 8, 2, 2 J; of equal ones the first
    assert chosen(plans, "pareto") == [0, 2, 1]
    with pytest.raises(
        ValueError, match=r"^search.objective: needs the cost of topoopt, which has no bill of materials$"
    ):
        chosen([replace(plan, cost=None)], "pareto")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("proposals", -1, "search.proposals: must be a whole number of at least 0, got -1"),
        ("ladders", 0, "search.ladders: must be a whole number within 1..65536, got 0"),
        ("chains", 0, "search.chains: must be a whole number within 1..65536, got 0"),
        ("acceptance", (0.0, 0.1), r"search.acceptance: must be two shares .* first, got \[0.0, 0.1\]"),
        ("acceptance", (0.2, 0.1), r"search.acceptance: must be two shares .* first, got \[0.2, 0.1\]"),
        ("acceptance", (0.2,), r"search.acceptance: must be two shares .* first, got \[0.2\]"),
        ("patience", -1, "search.patience: must be a whole number within 0..65536, got -1"),
        ("patience", 10**21, f"search.patience: must be a whole number within 0..65536, got {10**21}"),
        ("chains", 10**9, "search.chains: must be a whole number within 1..65536, got 1000000000"),
        ("proposals", 10**21, f"search.proposals: must be at most 67108864 of 16 chains, got {10**21}"),
        ("emphasis", (), "search.emphasis: must have at least one number, got none"),
        ("objective", "joy", "search.objective: must be one of time, cost, power, pareto, got 'joy'"),
    ],
)
def test_a_wrong_setting_is_one_line(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        SearchSettings(**{field: value})
