"""``topoflow calibrate``: fit latencies and rates to measurements of a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.table import Table

from topoflow.cli.nccl import DEFAULTS, communicator, keys
from topoflow.collectives.calibration import PARTS, Calibration, Measured, fit
from topoflow.collectives.nccl_tests_log import DTYPE_BYTES, read
from topoflow.collectives.nccl_time import INSIDE, network_named, network_of
from topoflow.hardware.presets import load
from topoflow.report.output import Output


def run(arguments: argparse.Namespace) -> None:
    """Read the logs, fit, write the file and print what changed."""
    overrides = keys(word for word in arguments.logs if "=" in word)
    paths = [Path(word) for word in arguments.logs if "=" not in word]
    if not paths:
        raise ValueError("LOG: must be at least one file of nccl-tests, got none")
    network = overrides.get("network") or network_of(load((DEFAULTS | overrides)["node"]))
    measured = [row for path in paths for row in rows(path, overrides)]
    calibration = fit(measured, network, [path.name for path in paths])
    calibration.write(arguments.out)
    console = Output(highlight=False)
    console.print(changes(calibration))
    console.print(f"{calibration.note[0].upper()}{calibration.note[1:]}.")
    console.print(f"Written {arguments.out}.")


def rows(path: Path, overrides: dict[str, str]) -> list[Measured]:
    """Return the measurements of a log; its own settings override the keys."""
    log = read(path)
    log_settings = {"gpus": str(log.ranks) if log.ranks else "", "nccl.version": log.version}
    settings = DEFAULTS | overrides | {key: value for key, value in log_settings.items() if value}
    if not log.ranks and "gpus" not in overrides:
        raise ValueError(f"{path}: gpus: must be given, as the log does not name its ranks")
    if not log.op:
        raise ValueError(f"{path}: must say which test it is of ('Collective test starting: ..._perf'), got none")
    try:
        comm = communicator(settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    width = DTYPE_BYTES[log.dtype]
    return [Measured(comm, log.op, size, width, seconds) for size, seconds in log.times.items()]


def changes(calibration: Calibration) -> Table:
    """Return the coefficients that moved."""
    table = Table("coefficient", "shipped", "fitted")
    prior = {"inside": INSIDE[calibration.kind], "network": network_named(calibration.network_name)}
    for part in PARTS:
        for name, value in vars(getattr(calibration, part)).items():
            before = getattr(prior[part], name)
            if value != before:
                table.add_row(f"{part}.{name}", _text(before), _text(value))
    return table


def _text(value: float | tuple[float, ...]) -> str:
    return ", ".join(f"{number:.3g}" for number in (value if isinstance(value, tuple) else (value,)))
