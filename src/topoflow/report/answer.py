"""The answer in sentences: the fastest fabric, and cheaper ones that are nearly as fast."""

from __future__ import annotations

from collections.abc import Mapping

from topoflow.case.base import Result
from topoflow.case.rows import endpoints
from topoflow.report.base import Report
from topoflow.report.packets import bottleneck
from topoflow.units import human

NEARLY_AS_FAST = 0.1  # a world within 10% of the fastest is nearly as fast
TIE = 0.0005  # worlds whose times differ by less are equally fast: 0.05 %, the rounding of the four digits printed
MAX_NAMED = 6  # networks in a sentence
COMPUTE_BOUND = 0.02  # of an iteration; a network that could save less does not limit the job
JOB_KEYS = ("workload", "gpu", "efficiency", "global_batch")  # config groups and keys that define a job


def answers(report: Report) -> list[str]:
    """Return the answer for each job as text."""
    texts = []
    for job in report.jobs:
        fastest = recommended(job)[0]
        answer = _answer(report, job) + bottleneck(fastest, _names(report, job)[fastest.settings.world])
        texts.append(answer if fits(job) else f"{_needs(report, job)} If memory were no limit: {answer}")
    return texts


def fits(ranked: tuple[Result, ...]) -> bool:
    """Return whether any result of a job fits in memory, so that it can be recommended."""
    return any(outcome.fits for outcome in ranked)


def _needs(report: Report, ranked: tuple[Result, ...]) -> str:
    """Say that nothing fits in memory, by how much, and which keys change that."""
    least = min(ranked, key=lambda outcome: outcome.memory or 0.0)
    needed = least.memory or 0.0
    would = "would run" if needed > least.gpu_memory else "is sure to run"
    endpoints = "servers" if least.fabric.cluster is None else "GPUs"
    return (
        f"{place(report, least)}: nothing here {would}. GPUs have {least.case.job.room}, and the least need is "
        f"{human(needed, 'B')}. Try strategy.recompute=full, strategy=fsdp, strategy=parallel with "
        f"larger degrees, a smaller workload.batch_per_gpu or micro_batch, or more {endpoints}."
    )


def _names(report: Report, ranked: tuple[Result, ...]) -> dict[str, str]:
    """Return world -> short name for the worlds of one job."""
    return dict(zip((outcome.settings.world for outcome in ranked), report.labels(ranked), strict=True))


def memory_notes(report: Report) -> list[str]:
    """Return a line for every strategy that needs more memory than a GPU has."""
    keys = [key for key in report.swept if key.partition(".")[0] == "strategy"]
    notes = []
    for outcome in report.ranking:
        if outcome.memory is not None and not outcome.fits:
            swept = "".join(f", {key}={outcome.settings.swept[key]}" for key in keys if key in outcome.settings.swept)
            needs, has = human(outcome.memory, "B"), human(outcome.gpu_memory, "B")
            would = f"has {has}: would not run"
            if outcome.memory <= outcome.gpu_memory:
                would = f"may take {outcome.case.job.room}: might not run (gpu.memory_share)"
            subject = f"{place(report, outcome)}, strategy {outcome.row.strategy}{swept}"
            notes.append(f"{subject}: needs {needs} per GPU, {would}")
    return list(dict.fromkeys(notes))


def notes(report: Report) -> list[str]:
    """Return a line for every choice that depended on a job's size, and every assumption on a recorded job."""
    lines = (f"{place(report, outcome)}: {note}" for outcome in report.outcomes for note in outcome.notes)
    return list(dict.fromkeys(lines))


def recommended(ranked: tuple[Result, ...]) -> tuple[Result, ...]:
    """Return one job's results that fit in memory on networks that can be built, fastest first.

    If nothing fits, all results count; if all networks are ideal, ideal networks count.
    """
    fitting = tuple(outcome for outcome in ranked if outcome.fits) or ranked
    return tuple(outcome for outcome in fitting if not outcome.fabric.is_ideal) or fitting


def _answer(report: Report, ranked: tuple[Result, ...]) -> str:
    fitting, job = tuple(outcome for outcome in ranked if outcome.fits) or ranked, recommended(ranked)
    fastest, row, subject = job[0], job[0].row, place(report, job[0])
    best = row.iteration_time
    names = _names(report, ranked)
    bounded = fastest.settings.lower_bound_of
    details = f", by the lower bound of {bounded}" if bounded else ""
    details += ", of what fits in memory" if len(fitting) < len(ranked) else ""
    first = f"{subject}{details}: {names[row.world]}"
    unknown, ideal = _unsized(fastest), _ideal(fitting, names)
    if len(fitting) > 1 and not any(len(outcome.flows.bytes) for outcome in fitting):
        if unknown:
            return f"{subject}{details}: {human(best, 's')} per step, which says nothing of the network.{unknown}"
        return f"{subject}{details}: {human(best, 's')} per step on any network, as nothing goes between servers."
    if len(job) == 1:
        return f"{first} takes {human(best, 's')} per step{_price(fastest)}.{unknown}{ideal}{_limit(fastest)}"
    text = _fastest(f"{subject}{details}", job, names) + unknown
    priced = sorted((outcome for outcome in job if outcome.cost is not None), key=lambda outcome: outcome.cost or 0.0)
    if not priced:
        return text + ideal + _limit(fastest)
    close = [outcome for outcome in priced if outcome.row.iteration_time <= best * (1 + NEARLY_AS_FAST)]
    if close and close[0] is not fastest and close[0].row.iteration_time > best * (1 + TIE):
        name = names[close[0].settings.world]
        text += f" Within {NEARLY_AS_FAST:.0%} of that, the cheapest is {name}{_slower(close[0], best)}."
    elif close and close[0].row.iteration_time <= best * (1 + TIE):
        text += f" Nothing cheaper comes within {NEARLY_AS_FAST:.0%} of it."
    if priced[0] is not fastest and (not close or priced[0].cost != close[0].cost):
        text += f" The cheapest of all is {names[priced[0].settings.world]}{_slower(priced[0], best)}."
    return text + ideal + _limit(fastest)


def _fastest(subject: str, job: tuple[Result, ...], names: Mapping[str, str]) -> str:
    """Describe the fastest world and its price; equally fast ones are named together, and the cheapest of them."""
    ties = [outcome for outcome in job if outcome.row.iteration_time <= job[0].row.iteration_time * (1 + TIE)]
    time, first = human(job[0].row.iteration_time, "s"), names[job[0].settings.world]
    if len(ties) == 1:
        return f"{subject}: {first} is the fastest with {time} per step{_price(job[0])}."
    named = [names[outcome.settings.world] for outcome in ties[:MAX_NAMED]]
    named += [f"{len(ties) - MAX_NAMED} more"] * (len(ties) > MAX_NAMED)
    text = f"{subject}: {', '.join(named[:-1])} and {named[-1]} are the fastest, equally so, with {time} per step"
    priced = [outcome for outcome in ties if outcome.cost is not None]
    if not priced:
        return f"{text}."
    cheapest = min(priced, key=lambda outcome: outcome.cost or 0.0)
    return f"{text}; the cheapest of these is {names[cheapest.settings.world]}{_price(cheapest)}."


def _limit(fastest: Result) -> str:
    """Describe the limit of the job in a sentence if it is not the network; otherwise ""."""
    row = fastest.row
    if not row.compute_time or row.network_time is None or row.network_time > COMPUTE_BOUND * row.iteration_time:
        return ""
    text = " The network does not limit this job: computing on the busiest server takes "
    text += f"{row.compute_time / row.iteration_time:.1%} of the step"
    if row.host_time:
        share = f"{row.host_time / row.iteration_time:.1%}"
        text += f", and its GPU waits for the host, which has launched no kernel, for {share}"
    return f"{text}."


def _ideal(fitting: tuple[Result, ...], names: Mapping[str, str]) -> str:
    """Describe the time on an ideal network in a sentence, if others were compared with it; otherwise "".

    It need not be the shortest: a direct network has fewer links, and so less latency, where it need not forward.
    """
    ideal = [outcome for outcome in fitting if outcome.fabric.is_ideal]
    if not ideal or len(ideal) == len(fitting):
        return ""
    row = ideal[0].row
    return f" {names[row.world]}, which cannot be built, takes {human(row.iteration_time, 's')}."


def _unsized(outcome: Result) -> str:
    """Describe in a sentence the recorded communication of unknown size; "" if there is none."""
    if not outcome.unsized_time:
        return ""
    time = human(outcome.unsized_time, "s")
    return f" Communication of {time} per step has no recorded size and takes that long here on any network."


def place(report: Report, outcome: Result) -> str:
    """Return the job as text, with its differences from others: ``dlrm on 16 servers, workload.tables=8``."""
    row, swept = outcome.row, outcome.settings.swept
    keys = [key for key in report.swept if key.partition(".")[0] in JOB_KEYS and key != "workload"]
    how = [f"{key}={swept[key]}" for key in keys if swept.get(key, row.workload) != row.workload]  # a motif's name
    return ", ".join([f"{row.workload} on {endpoints(row.servers, row.gpus)}", *how])


def _price(outcome: Result) -> str:
    return "" if outcome.cost is None else f", for ${outcome.cost:,.0f}"


def _slower(outcome: Result, best: float) -> str:
    """Describe how much slower than the fastest the result is, with its price."""
    more = outcome.row.iteration_time / best - 1 if best > 0 else 0.0
    text = "just as fast" if more < 0.0005 else f"{more:.1%} slower" if more < 1 else f"{1 + more:.3g} times as long"
    return f": {human(outcome.row.iteration_time, 's')} per step ({text}){_price(outcome)}"
