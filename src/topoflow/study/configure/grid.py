"""The grid of a sweep: the points of all combinations of the values that arguments give.

Arguments are Hydra overrides. The grid has the points of ``hydra --multirun`` in the same order, with the defaults of
``hydra.sweeper.params`` in ``configs/compare.yaml``. An error about a wrong argument is one line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from topoflow.engine.observer import Observer, Silent
from topoflow.memory import no_garbage_collection
from topoflow.study.configure.build import forget
from topoflow.study.configure.errors import one_line, reason
from topoflow.study.configure.keys import SPEEDS
from topoflow.study.configure.nodes import default_sweep
from topoflow.study.configure.point import Point
from topoflow.study.configure.points import CONSTANTS, NUMBER, Check, PointComposer, is_word
from topoflow.study.configure.sources import OWN, Sources, is_hydra_override
from topoflow.study.configure.sweeps import MOST_POINTS, check_total
from topoflow.study.configure.user_object import name_of

if TYPE_CHECKING:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override

CONFIG = "compare"
SEVERAL_GPUS = r"^(\+*device=)(cuda:\d+(?:,cuda:\d+)+)$"  # one value, where Hydra would see several


@dataclass(frozen=True)
class Product(Sequence[list[str]]):
    """The overrides of every point of a grid, in the order of ``hydra --multirun``: the last key changes first."""

    values: Mapping[str, Sequence[str]]  # of each key, as typed

    def __len__(self) -> int:
        return prod(map(len, self.values.values()))

    def __getitem__(self, number: Any) -> Any:
        """Return the overrides of a point, by its number."""
        if not isinstance(number, int) or not 0 <= number < len(self):
            raise IndexError(number)
        return [f"{key}={values[number // step % len(values)]}" for key, step, values in self._steps]

    def swept(self, number: int) -> dict[str, str]:
        """Return the values of a point, of the keys that are given several."""
        return {key: values[number // step % len(values)] for key, step, values in self._steps if len(values) > 1}

    def split(self, number: int) -> tuple[int, dict[str, str]]:
        """Return the first point that a point differs from in ``SPEEDS`` alone, and which of these the point has."""
        first, speeds = number, {}
        for key, step, values in self._speeds:
            index = number // step % len(values)
            first -= index * step
            speeds[key] = values[index]
        return first, speeds

    @cached_property
    def _steps(self) -> list[tuple[str, int, Sequence[str]]]:
        """Return each key, the number of points until its value changes, and its values."""
        counts = [*map(len, self.values.values())]
        return [(key, prod(counts[place + 1 :]), values) for place, (key, values) in enumerate(self.values.items())]

    @cached_property
    def _speeds(self) -> list[tuple[str, int, Sequence[str]]]:
        return [steps for steps in self._steps if steps[0] in SPEEDS and steps[0] in self.varying]

    @cached_property
    def varying(self) -> frozenset[str]:
        """Keys that have more than one value."""
        return frozenset(key for key, values in self.values.items() if len(set(values)) > 1)


def grid(
    arguments: Sequence[str],
    check: Check,
    config: str = CONFIG,
    observer: Observer = Silent(),
    objects: Mapping[str, Any] | None = None,
    folders: Sequence[str] = (),
) -> list[Point]:
    """Return all points of ``arguments``. Raise ``ValueError`` in one line for a wrong argument.

    ``check`` gets the values at the top of each configuration. ``config`` is the file of ``configs/`` that has the
    keys. ``observer`` is informed of each point. ``objects``: the objects of Python that stand for some values of the
    arguments, by these values. ``folders`` have more files of configurations.
    """
    return Grid.of(arguments, check, config, objects, folders).compose(observer=observer)


@dataclass(frozen=True)
class Grid(Sequence[Point]):
    """The points of arguments; each is composed when it is read."""

    product: Product
    sources: Sources
    by_default: frozenset[str]
    check: Check
    config: str = CONFIG
    objects: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        arguments: Sequence[str],
        check: Check,
        config: str = CONFIG,
        objects: Mapping[str, Any] | None = None,
        folders: Sequence[str] = (),
        most: int = MOST_POINTS,
    ) -> Grid:
        """Return the grid of ``arguments``. Raise ``ValueError`` for a wrong one, or for more than ``most`` points."""
        forget()
        arguments = with_workload(arguments)
        arguments = _without_files(arguments, ("micro_batch",) if config == "search" else ())  # a search chooses it
        arguments = [re.sub(SEVERAL_GPUS, r"\1'\2'", argument) for argument in arguments]
        hydra_overrides = [argument for argument in arguments if is_hydra_override(argument)]
        sources = Sources(tuple(folders), tuple(hydra_overrides))
        swept = [argument for argument in arguments if argument not in hydra_overrides]
        points, by_default = expand(swept, sources, config, most)
        return cls(points, sources, by_default, check, config, objects or {})

    def __len__(self) -> int:
        return len(self.product)

    @property
    def given_keys(self) -> frozenset[str]:
        """Keys that the arguments or their recipe give."""
        return frozenset(self.product.values) - self.by_default

    def __getitem__(self, number: Any) -> Any:
        """Return the point of that number."""
        if not isinstance(number, int) or not 0 <= number < len(self):
            raise IndexError(number)
        return self.compose([number])[0]

    @cached_property
    def _points(self) -> PointComposer:
        return PointComposer(self.config, self.check, self.sources)

    @no_garbage_collection()
    def compose(self, numbers: Sequence[int] | None = None, observer: Observer = Silent()) -> list[Point]:
        """Return the points of ``numbers``, by default all. ``observer`` is informed of each. Raise as ``of`` does."""
        points = []
        numbers = range(len(self)) if numbers is None else numbers
        for done, number in enumerate(numbers):
            observer.advance(done, len(numbers))
            points.append(self._composed(number))
        observer.advance(len(numbers), len(numbers))
        return points

    def _composed(self, number: int) -> Point:
        first, speeds = self.product.split(number)
        known = self._points.alike.get(first)
        if known is not None and (point := known.at(speeds, {**known.point.swept, **speeds})) is not None:
            return point
        overrides, objects, varying = self.product[number], self.objects, self.product.varying
        swept = {key.lstrip("+"): value for key, value in self.product.swept(number).items() if key in varying}
        if not objects:
            point = self._points.compose(overrides, Point(swept, {}, {}, self.by_default))
            if point.alike is not None:
                self._points.alike[first] = point.alike
            return point
        swept = {key: name_of(objects[value]) if value in objects else value for key, value in swept.items()}
        pairs = [override.partition("=")[::2] for override in overrides]
        user_objects = {key: objects[value] for key, value in pairs if value in objects}
        texts = [override for override in overrides if override.partition("=")[2] not in objects]
        return self._points.compose(texts, Point(swept, {}, {}, self.by_default, user_objects))


def swept_values(points: Sequence[Point]) -> dict[str, Sequence[str]]:
    """Return the values of the keys that vary, in the order of the grid."""
    if isinstance(points, Grid):
        values = points.product.values
        return {key.lstrip("+"): values[key] for key in values if len(values[key]) > 1}
    keys = points[0].swept
    return {key: list(dict.fromkeys(point.swept[key] for point in points)) for key in keys}


def with_workload(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``workload`` in place of ``model``. Raise ``ValueError`` where both are given."""
    if {"model", "workload"} <= {argument.partition("=")[0].lstrip("+~") for argument in arguments}:
        raise ValueError("model: must be left out with workload, got both")
    return [re.sub(r"^([+~]*)model(?=[=.])", r"\1workload", argument) for argument in arguments]


def _without_files(arguments: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return the arguments with the keys of files in place of ``workload=FILE.json`` and ``recipe=FILE``."""
    if any(re.match(r"workload=.*\.json['\"]?$|recipe=", text) for text in arguments):
        from topoflow.study.configure.model_file import with_model_file
        from topoflow.study.configure.recipe import with_recipe

        return with_recipe(with_model_file(arguments), chosen)
    return [*arguments]


def expand(
    arguments: Sequence[str], sources: Sources = OWN, config: str = CONFIG, most: int = MOST_POINTS
) -> tuple[Product, frozenset[str]]:
    """Return the overrides of every point, as ``hydra --multirun`` has them, and the keys that only ``config`` sweeps.

    Raises ``ValueError`` for a wrong argument, or more than ``most`` points.
    """
    with one_line(arguments, config, sources):
        typed = _typed(arguments)
        if typed is None or sources.hydra_overrides:
            with sources.hydra():
                checked_parser([*sources.hydra_overrides, *arguments])
        defaults = default_sweep(sources.default_sweep(config, _added_files(arguments, sources, config)), arguments)
        swept = _typed([f"{key}={value}" for key, value in defaults.items()])
        if typed is None or swept is None:
            typed, swept = _parsed(arguments, defaults, sources, most)
        values = {**swept, **typed}  # the last of a key counts
        check_total(prod(map(len, values.values())), most)
        return Product(values), frozenset(swept) - set(typed)


def _typed(arguments: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the values of each key; None where Hydra has to read an argument, as it is more than numbers and words."""
    values_by_key = {}
    for key, _, text in (argument.partition("=") for argument in arguments):
        values = text.split(",")
        if not re.fullmatch(r"[a-z_]\w*(\.[a-z_]\w*)*", key, re.ASCII) or not all(map(_is_as_typed, values)):
            return None
        values_by_key[key] = values
    return values_by_key


def _is_as_typed(value: str) -> bool:
    """Return whether Hydra writes a value as it was typed."""
    if NUMBER.fullmatch(value):
        return "." not in value or str(float(value)) == value
    return is_word(value) or value in CONSTANTS


def _parsed(
    arguments: Sequence[str], defaults: Mapping[str, str], sources: Sources, most: int
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the values of each key of ``arguments``, and of ``defaults``, as Hydra reads them."""
    from topoflow.study.configure.override_sweeps import check_sweeps

    with sources.hydra():
        parser = checked_parser([])
        swept = parser.parse_overrides([f"{key}={value}" for key, value in defaults.items()])
        typed = parser.parse_overrides([*arguments])
        check_sweeps([*swept, *typed], most)
        first, last = (
            {override.get_key_element(): _values(override) for override in overrides} for overrides in (swept, typed)
        )
    return last, first


def checked_parser(arguments: Sequence[str]) -> OverridesParser:
    """Return Hydra's parser of overrides. Raise ``ValueError`` for an argument without its syntax.

    Needs an initialized Hydra.
    """
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    from topoflow.study.configure.override_sweeps import nested

    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    for argument in arguments:
        if not re.match(r"[~+\w]", argument):
            raise ValueError(f"{argument!r}: must be KEY=VALUE")
        try:
            parser.parse_overrides([argument])
        except HydraException as error:
            if re.search(r"(Choice|Range|Interval)Sweep", str(error)):
                raise nested(*argument.partition("=")[::2]) from error
            text = reason(error).partition(" expecting ")[0]  # a list of what a grammar calls its tokens
            hint = "; a list of values has no spaces" if argument.endswith(",") else ""
            raise ValueError(f"{argument!r}: must be KEY=VALUE in Hydra's syntax ({text}){hint}") from error
    return parser


def _added_files(arguments: Sequence[str], sources: Sources, config: str) -> list[str]:
    """Return the arguments that add a file, ``+experiment=mine``, which may say what is swept by default."""
    added = [argument for argument in arguments if re.fullmatch(r"\+[\w/]+=[\w/]+", argument)]
    return [text for text in added if sources.options(text[1:].partition("=")[0], config)]


def _values(override: Override) -> list[str]:
    """Return the values of a key. Raise ``ValueError`` for an empty list, or a pattern that no file matches."""
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    values = [*override.sweep_string_iterator()]
    if not values:
        raise ValueError(f"{override.key_or_group}: must be at least one value, got {override.get_value_string()}")
    return values
