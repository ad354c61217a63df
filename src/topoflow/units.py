"""Units: SI inside topoflow, human units only in configs.

Everything in topoflow is bytes, seconds, bytes per second, FLOP per second; G = 10^9. The resolvers
below are the only place where a human unit becomes an SI number; configs write ``${gbps:100}``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from numbers import Real

# Bytes of one element; the names are PyTorch's, which every trace format can be mapped to.
DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,  # two numbers of 4 bits
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
}


LARGEST_BANDWIDTH = 1e18  # B/s: a million links of 8 Tb/s; sums and products of larger values could overflow


SMALLEST_RATE = 1e-6  # B/s, FLOP/s: 2^63 units take 3e11 years; times at smaller rates could overflow


def gbps(value: float) -> float:
    """Convert gigabits per second to bytes per second: ``gbps(100) == 12.5e9``."""
    return float(value) * 1e9 / 8


def us(value: float) -> float:
    """Convert microseconds to seconds."""
    return float(value) * 1e-6


def mib(value: float) -> int:
    """Convert mebibytes to bytes: ``mib(25) == 26214400``."""
    return int(float(value) * 2**20)


def gib(value: float) -> int:
    """Convert gibibytes to bytes: ``gib(1) == 1073741824``."""
    return round(float(value) * 2**30)


def register_resolvers(*more: Callable[[str], str]) -> None:
    """Register ``${gbps:100}``, ``${us:1}``, ``${mib:25}``, and ``more`` by name, with OmegaConf (idempotent)."""
    from omegaconf import OmegaConf

    resolvers: tuple[Callable[..., object], ...] = (gbps, us, mib, *more)
    for resolver in resolvers:
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)


def check_bandwidth(field: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` (B/s) is within ``SMALLEST_RATE`` and ``LARGEST_BANDWIDTH``."""
    check_rate(field, value)
    _check_most(field, value)


def check_capacity(field: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` (B/s) is a valid link capacity; 0 means that it carries nothing."""
    check_not_negative(field, value)
    _check_most(field, value)


def check_limit(field: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` (B/s) is a valid rate limit of a flow; inf means no limit."""
    if value != math.inf:
        check_positive(field, value)
        _check_most(field, value)


def is_finite(value: float) -> bool:
    """Return whether ``value`` is in the range of a float; a file can have a whole number of hundreds of digits."""
    return -sys.float_info.max <= value <= sys.float_info.max


def check_share(field: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` is positive and at most 1."""
    check_positive(field, value)
    if value > 1:
        raise ValueError(f"{field}: must be at most 1, got {value}")


def check_positive(field: str, value: float) -> None:
    """Raise ``ValueError("field: must be positive, got value")`` unless ``value`` is finite and > 0."""
    _check_number(field, value)
    if not (is_finite(value) and value > 0):
        raise ValueError(f"{field}: must be positive, got {value}")


def check_rate(field: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` is finite and at least ``SMALLEST_RATE``."""
    check_positive(field, value)
    if value < SMALLEST_RATE:
        raise ValueError(f"{field}: must be at least {SMALLEST_RATE:g} per second, got {value}")


def check_count(field: str, value: int) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number > 0 of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{field}: must be a whole number, got {value!r}")
    check_positive(field, value)
    if value >= 2**63:
        raise ValueError(f"{field}: must be less than 2^63, got {value}")


def check_whole(field: str, value: object, least: int = 0, most: int | None = None) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number of at least ``least``, and at most ``most`` if given."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= (value if most is None else most):
        rule = f"of at least {least}" if most is None else f"within {least}..{most}"
        raise ValueError(f"{field}: must be a whole number {rule}, got {value!r}")


def check_seed(field: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number that every random generator accepts."""
    check_whole(field, value, 0, 2**63 - 1)


def check_among(field: str, value: object, allowed: Collection[object]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of those ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{field}: must be one of {', '.join(map(str, allowed))}, got {value!r}")


def check_not_negative(field: str, value: float) -> None:
    """Raise ``ValueError`` unless ``value`` is finite and >= 0."""
    _check_number(field, value)
    if value < 0:
        raise ValueError(f"{field}: must not be negative, got {value}")
    if not is_finite(value):
        raise ValueError(f"{field}: must be finite, got {value}")


def _check_most(field: str, value: float) -> None:
    if value > LARGEST_BANDWIDTH:
        raise ValueError(f"{field}: must be at most {LARGEST_BANDWIDTH:g}, got {value}")


def _check_number(field: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a real number; configs and files can hold anything."""
    if type(value) is float:  # the common case; isinstance(value, Real) takes longer than all other checks
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{field}: must be a number, got {value!r}")


PREFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def human(value: float, unit: str) -> str:
    """Return an SI number as text: ``human(12.5e9, "B/s") == "12.5 GB/s"``, ``human(2e-5, "s") == "20 us"``."""
    divisor, prefixed_unit = prefixed(value, unit)
    return f"{value / divisor:.4g} {prefixed_unit}"


def prefixed(value: float, unit: str) -> tuple[float, str]:
    """Return (divisor, unit) for a readable number: ``prefixed(0.02, "s") == (1e-3, "ms")``."""
    if value == 0 or not is_finite(value):
        return 1.0, unit
    lowest, highest = (-9, 0) if unit == "s" else (0, 15)
    exponent = min(max(3 * math.floor(math.log10(abs(value)) / 3), lowest), highest)
    return 10.0**exponent, PREFIXES[exponent] + unit


def counted(number: int, what: str) -> str:
    """Return a number of things, e.g. "1 world" or "6,000 worlds"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
