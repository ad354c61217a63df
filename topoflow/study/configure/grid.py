"""The grid of a comparison: ``key=value`` arguments become composed configurations, and those become objects.

Arguments are Hydra overrides; the grid has the points of ``hydra --multirun`` in the same order, with the defaults of
``hydra.sweeper.params`` in ``configs/compare.yaml``. What Hydra has to say about a wrong argument is made one line.
"""

from __future__ import annotations

import dataclasses
import pickle
import pkgutil
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from pathlib import Path

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    InstantiationException,
    MissingConfigException,
)
from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import MarkedYAMLError

from topoflow.engine.base import Fidelity, Run
from topoflow.engine.device import Device, check_name
from topoflow.engine.executor.base import Workers
from topoflow.engine.executor.local import Local
from topoflow.engine.observer import Observer, Silent
from topoflow.study.configure.composer import FIDELITY, Composed, Composer, settings_of
from topoflow.study.configure.given import described, name_of
from topoflow.study.configure.hints import suggest, suggest_key
from topoflow.study.configure.memo import composed, options
from topoflow.study.configure.os_errors import named, of_group
from topoflow.study.configure.search_path import initialized
from topoflow.study.configure.sweeps import MOST_POINTS, check_sweeps, nested
from topoflow.study.configure.template import Template, resolved
from topoflow.track import trackers

CONFIG = "compare"
MAX_BUILT = 1024  # objects kept; points share most of theirs, but a sweep of the bandwidth has a design for each value
MOST_KNOWN = 64  # templates kept, of 1 MB each; a grid over many files uses one for a few points only
TARGET = "_target_"  # the key of a config that names its class
OF_HYDRA = (("_convert_", "all"),)  # what it is asked for in any case
EXECUTOR = "executor"
OF_RUNS = (*trackers(), "study", EXECUTOR)  # optional config groups; no answer depends on them
HYDRA = "hydra"  # the node of a configuration that is not of the point
SEVERAL_GPUS = r"^(\+*device=)(cuda:\d+(?:,cuda:\d+)+)$"  # one value, where Hydra would see several


_built: dict[tuple[str, bytes], typing.Any] = {}  # frozen objects by group and configuration: instantiating takes 3 ms
# The same by the ids of configurations, which are kept so that these stay theirs: nobody changes one of a point, and
# points of a template share most.
_seen: dict[tuple[str, int], tuple[typing.Any, typing.Any]] = {}
Check = Callable[[Mapping[str, typing.Any]], None]


@dataclass(frozen=True)
class Product(Sequence[list[str]]):
    """The overrides of every point of a grid, in the order of ``hydra --multirun``: the last key changes first."""

    values: Mapping[str, Sequence[str]]  # of each key, as typed

    def __len__(self) -> int:
        return prod(map(len, self.values.values()))

    def __getitem__(self, number: typing.Any) -> typing.Any:
        """The overrides of a point, by its number."""
        if not isinstance(number, int) or not 0 <= number < len(self):
            raise IndexError(number)
        found = []
        for key, values in reversed([*self.values.items()]):
            number, index = divmod(number, len(values))
            found.append(f"{key}={values[index]}")
        return found[::-1]

    @cached_property
    def varying(self) -> frozenset[str]:
        """Keys that have more than one value."""
        return frozenset(key for key, values in self.values.items() if len(set(values)) > 1)


@dataclass(frozen=True)
class Point:
    """One point of the grid: its configuration, resolved, and the names chosen in each config group."""

    swept: Mapping[str, str]  # what differs between the points: key -> value as typed
    choices: Mapping[str, str]  # "fabric" -> "fat_tree"
    config: Mapping[str, typing.Any]
    by_default: frozenset[str] = frozenset()  # keys that were swept without being asked for
    objects: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)  # made in Python, by their groups


def grid(
    arguments: Sequence[str],
    check: Check,
    config: str = CONFIG,
    observer: Observer = Silent(),
    objects: Mapping[str, typing.Any] | None = None,
    folders: Sequence[str] = (),
) -> list[Point]:
    """Expand and compose; ``observer`` sees each point. Raises ``ValueError`` in one line for a wrong argument.

    ``check`` gets what is at the top of each configuration, before anything is computed from it. ``config`` is the
    file of ``configs/`` that has the keys. ``objects``: what some values of the arguments stand for, by these values.
    ``folders`` have more files of configurations.
    """
    return Grid.of(arguments, check, config, objects, folders).compose(observer=observer)


@dataclass(frozen=True)
class Grid(Sequence[Point]):
    """The points of arguments, each composed when it is asked for."""

    product: Product
    own: tuple[str, ...]  # overrides of Hydra itself
    by_default: frozenset[str]
    check: Check
    config: str = CONFIG
    objects: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    folders: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        arguments: Sequence[str],
        check: Check,
        config: str = CONFIG,
        objects: Mapping[str, typing.Any] | None = None,
        folders: Sequence[str] = (),
        most: int = MOST_POINTS,
    ) -> Grid:
        """Of at most ``most`` points. Raises ``ValueError`` in one line for a wrong argument."""
        _built.clear()  # files that they were read from may have changed since
        _seen.clear()
        arguments = [re.sub(SEVERAL_GPUS, r"\1'\2'", argument) for argument in arguments]
        own = [argument for argument in arguments if is_of_hydra(argument)]
        with initialized(folders):
            swept = [argument for argument in arguments if argument not in own]
            points, by_default = expand(swept, own, config, most)
        return cls(points, tuple(own), by_default, check, config, objects or {}, folders)

    def __len__(self) -> int:
        return len(self.product)

    def __getitem__(self, number: typing.Any) -> typing.Any:
        """The point of that number."""
        if not isinstance(number, int) or not 0 <= number < len(self):
            raise IndexError(number)
        return self.compose([number])[0]

    @cached_property
    def _points(self) -> Points:
        return Points(Composer(self.config, self.own), self.check)

    def compose(self, numbers: Sequence[int] | None = None, observer: Observer = Silent()) -> list[Point]:
        """The points of these ``numbers``; None: all. ``observer`` sees each. Raises ``ValueError`` as ``of`` does."""
        found = []
        numbers = range(len(self)) if numbers is None else numbers
        with initialized(self.folders):
            for done, number in enumerate(numbers):
                observer.advance(done, len(numbers))
                found.append(self._composed(self.product[number]))
        observer.advance(len(numbers), len(numbers))
        return found

    def _composed(self, overrides: Sequence[str]) -> Point:
        pairs, given = [override.partition("=")[::2] for override in overrides], self.objects
        names = {key: name_of(given[value]) if value in given else value for key, value in pairs}
        swept = {key.lstrip("+"): names[key] for key, _ in pairs if key in self.product.varying}
        made = {key: given[value] for key, value in pairs if value in given}
        texts = [override for override in overrides if override.partition("=")[2] not in given]
        return self._points.compose(texts, Point(swept, {}, {}, self.by_default, made))


def swept_values(points: Sequence[Point]) -> dict[str, Sequence[str]]:
    """The values of the keys that vary, in the order of the grid."""
    if isinstance(points, Grid):
        values = points.product.values
        return {key.lstrip("+"): values[key] for key in values if len(values[key]) > 1}
    keys = points[0].swept
    return {key: list(dict.fromkeys(point.swept[key] for point in points)) for key in keys}


@dataclass
class Points:
    """Composes points one after the other; those that differ in plain values alone are made of one template."""

    composer: Composer
    check: Check
    known: dict[tuple[str, ...], Known | None] = dataclasses.field(default_factory=dict)  # by what is the same

    def compose(self, overrides: Sequence[str], point: Point, make: Callable[[], Composed] | None = None) -> Point:
        """``point`` with the configuration of ``overrides``, which ``make`` gives where it is at hand.

        Raises ``ValueError`` in one line.
        """
        make = make or (lambda: self.composer.compose(overrides))
        with one_line(overrides, self.composer.name):
            if point.objects:
                return point_of(*make(), point, self.check, overrides)
            same, keys, values = self.composer.split(overrides)
            known = self.known.get(same)
            if known is not None:
                with suppress(ValueError, TypeError, AssertionError, HydraException, OmegaConfBaseException):
                    return known.with_values(values, point, self.check)
            config, choices = make()  # which says what is wrong, where something is
            fidelities = settings_of(config, choices, overrides)
            _check(self.check, config, fidelities)
            template = self._template(config, same, keys)
            if template is None:
                return _valued(point, choices, config_values(config), fidelities)
            found = _valued(point, choices, template.resolved(), fidelities)
            self.known[same] = Known(template, choices, tuple(fidelities))
            return found

    def _template(self, config: DictConfig, same: tuple[str, ...], keys: Sequence[str]) -> Template | None:
        """The second point of the ``same`` files is a template of those that follow: many points are the only one."""
        if same in self.known:
            return Template.of(config, keys) if self.known[same] is None else None
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[same] = None
        return None


@dataclass(frozen=True)
class Known:
    """What points of the same files have in common."""

    template: Template
    choices: Mapping[str, str]
    fidelities: Sequence[str]

    def with_values(self, values: Sequence[typing.Any], point: Point, check: Check) -> Point:
        """The point with these values of the keys of the template."""
        self.template.set(values)
        config = self.template.resolved()
        _check(check, config, self.fidelities)
        return _valued(point, self.choices, config, self.fidelities)


def is_of_hydra(argument: str) -> bool:
    """Whether an argument is a setting of Hydra itself: ``hydra.run.dir=here``, ``hydra/launcher=basic``."""
    return re.match(r"[+~]*hydra\b", argument) is not None


def expand(
    arguments: Sequence[str], own: Sequence[str] = (), config: str = CONFIG, most: int = MOST_POINTS
) -> tuple[Product, frozenset[str]]:
    """The overrides of every point, as ``hydra --multirun`` makes them, and the keys that only the config sweeps.

    ``own`` are the overrides of Hydra itself. Needs an initialized Hydra.
    """
    with one_line(arguments, config):
        parser = checked_parser([*own, *arguments])
        defaults = composed(config, [*own, *_added_files(arguments, own, config)]).hydra.sweeper.params or {}
        swept = [f"{key}={value}" for key, value in defaults.items()]
        parsed = parser.parse_overrides([*swept, *arguments])
        check_sweeps(parsed, most)
        values = {override.get_key_element(): _values(override) for override in parsed}  # the last of a key counts
        named = {override.get_key_element() for override in parser.parse_overrides(list(arguments))}
        return Product(values), frozenset(map(str, defaults)) - named


def _added_files(arguments: Sequence[str], own: Sequence[str], config: str) -> list[str]:
    """``+experiment=mine``: files, added to those of the config groups, that may say what is swept by default."""
    added = [argument for argument in arguments if re.fullmatch(r"\+[\w/]+=[\w/]+", argument)]
    groups = {each: each[1:].partition("=")[0] for each in added}
    return [each for each in added if options(groups[each], config, own)]


def _values(override: Override) -> list[str]:
    """What a key is swept over. Raises ``ValueError`` for nothing: a list that is empty, a pattern that no file has."""
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    values = [*override.sweep_string_iterator()]
    if not values:
        raise ValueError(f"{override.key_or_group}: must be at least one value, got {override.get_value_string()}")
    return values


def checked_parser(arguments: Sequence[str]) -> OverridesParser:
    """Hydra's own, once each of the ``arguments`` has its syntax, else ``ValueError``. Needs an initialized Hydra."""
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    for argument in arguments:
        if not re.match(r"[~+\w]", argument):
            raise ValueError(f"{argument!r}: must be KEY=VALUE")
        try:
            parser.parse_overrides([argument])
        except HydraException as error:
            if re.search(r"(Choice|Range|Interval)Sweep", str(error)):
                raise nested(*argument.partition("=")[::2]) from error
            raise ValueError(f"{argument!r}: must be KEY=VALUE in Hydra's syntax ({_reason(error)})") from error
    return parser


def point_of(
    config: DictConfig, choices: Mapping[str, str], point: Point, check: Check, overrides: Sequence[str] = ()
) -> Point:
    """``point`` with its choices and its configuration, once ``check`` has seen the latter.

    ``config`` is changed; the node of Hydra may be in it. ``overrides`` are those that it was composed with.
    """
    for group, made in point.objects.items():
        if group not in (FIDELITY, *choices):
            raise ValueError(f"{group}: must be text, a number or a list of these, got {type(made).__name__}")
        if group == "gpu":  # which is a part of workloads, too
            config.gpu = described(made)
    fidelities = settings_of(config, choices, overrides)
    _check(check, config, fidelities)
    return _valued(point, choices, config_values(config), fidelities)


def config_values(config: DictConfig) -> dict[str, typing.Any]:
    """What a configuration holds as plain Python, without Hydra's own node."""
    return {str(key): resolved(config[key]) for key in config if key != HYDRA}


def _check(check: Check, config: Mapping[typing.Any, typing.Any], fidelities: Sequence[str]) -> None:
    """``check`` what is at the top of a configuration, but for the settings of fidelities and what answers need not."""
    check({str(key): config[key] for key in config if key not in (*fidelities, *OF_RUNS, HYDRA)})


def _valued(
    point: Point, choices: Mapping[str, str], values: Mapping[str, typing.Any], fidelities: Sequence[str]
) -> Point:
    """``point`` with its choices and its configuration, whose optional groups are sound."""
    found = dataclasses.replace(point, choices=choices, config=values)
    for name in OF_RUNS:
        if name in values:
            build(found, name)
    return _with_objects(_of_fidelity(found, fidelities))


def _with_objects(point: Point) -> Point:
    """``point`` with the objects of Python where its configuration has the files of their groups."""
    names = {group: name_of(made) for group, made in point.objects.items()}
    config = {**point.config, **{group: described(made) for group, made in point.objects.items()}}
    if FIDELITY in names:
        config[FIDELITY] = names[FIDELITY]
    return dataclasses.replace(point, choices={**point.choices, **names}, config=config)


def _of_fidelity(point: Point, fidelities: Sequence[str]) -> Point:
    """``point`` without the settings of other fidelities than its own; these must be valid nevertheless."""
    if FIDELITY not in point.config:  # nothing is simulated
        return point
    chosen = point.config[FIDELITY]
    if chosen not in fidelities:
        raise ValueError(f"{FIDELITY}: must be one of {', '.join(fidelities)}, got {chosen!r}")
    for name in fidelities:
        build(point, name)
    others = set(fidelities) - {chosen}
    return dataclasses.replace(point, config={key: each for key, each in point.config.items() if key not in others})


def fidelity_of(point: Point) -> Fidelity:
    """The fidelity that a point is simulated in."""
    fidelity: Fidelity = build(point, FIDELITY if FIDELITY in point.objects else point.config[FIDELITY])
    return fidelity


def run_of(points: Sequence[Point], observer: Observer, out: Path | None = None) -> Run:
    """Return how all ``points`` are simulated. Raise ``ValueError`` where they differ in it, or without the device."""
    for key in ("device", "threads", EXECUTOR):
        values = dict.fromkeys(str(point.config.get(key)) for point in points)
        if len(values) > 1:
            raise ValueError(f"{key}: must be one for all, got {', '.join(values)}")
    config = points[0].config
    device, threads = config["device"], config["threads"]
    check_name(device)
    executor = build(points[0], EXECUTOR) if EXECUTOR in config else Local()
    if isinstance(executor, Executor):
        workers: Workers | None = Workers(executor, device, threads or 1)
    else:
        workers = executor.workers(device, threads, out)
    return Run(Device.named(device) if workers is None else Device(), threads, observer, workers)


def build(point: Point, group: str) -> typing.Any:
    """The object that the config of ``group`` describes. Raises ``ValueError`` in one line that names the key."""
    if group in point.objects:
        return point.objects[group]
    config = point.config.get(group)
    place = group, id(config)
    if place not in _seen:
        if not isinstance(config, dict) or TARGET not in config:
            raise ValueError(f"{group}: must be a config with a _target_, got {config!r}")
        if len(_seen) >= MAX_BUILT:
            _seen.clear()
        _seen[place] = config, _built_once(group, config)
    return _seen[place][1]


def _built_once(group: str, config: dict[str, typing.Any]) -> typing.Any:
    """What equal configurations have in common."""
    key = group, pickle.dumps(config)
    if key not in _built:
        if len(_built) >= MAX_BUILT:
            _built.clear()
        _built[key] = _instantiated(group, config)
    return _built[key]


def _instantiated(group: str, config: dict[str, typing.Any]) -> typing.Any:
    try:
        target = _target(group, config["_target_"])
        check_fields(group, target, config)
        values = {key: value for key, value in config.items() if (key, value) not in OF_HYDRA and key != TARGET}
        return _called(target, values) if _is_plain(values) else instantiate(config, _convert_="all")
    except InstantiationException as error:
        cause: BaseException = error  # the first that says place and field, not what led to it
        while cause.__cause__ is not None and not isinstance(cause, ValueError | OSError):
            cause = cause.__cause__
        if isinstance(cause, ValueError | OSError):
            with named(of_group(group, config)):
                raise cause from error
        raise ValueError(f"{group}: {_reason(cause)}") from error


def _is_plain(value: object) -> bool:
    """Whether Hydra's ``instantiate`` would pass a value on as it is: nothing in it is another object to make."""
    if isinstance(value, dict):
        return all(not str(key).startswith("_") and _is_plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or (isinstance(value, bool | int | float | str) and "$" not in str(value) and value != "???")


def _called(target: type, values: Mapping[str, typing.Any]) -> typing.Any:
    """What Hydra's ``instantiate`` gives of plain values, in a tenth of its 3 ms; of price lists, a hundredth of 19."""
    try:
        return target(**deepcopy(values))
    except Exception as error:
        raise InstantiationException(str(error)) from error


def _target(group: str, name: object) -> type:
    """The dataclass that ``_target_`` names."""
    place = f"{group}._target_"
    try:
        target = pkgutil.resolve_name(str(name))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{place}: must name a class, got {name!r} ({_reason(error)})") from error
    if not isinstance(target, type) or not dataclasses.is_dataclass(target):
        raise ValueError(f"{place}: must name a dataclass, got {name!r}")
    return target


def check_fields(where: str, target: type, config: Mapping[str, typing.Any]) -> None:
    """Raise ``ValueError`` unless ``config`` has the fields of the dataclass ``target``, with plain types right."""
    hints, required = _fields(target)
    for key in sorted(required - set(config)):
        raise ValueError(f"{where}.{key}: must be given")
    for key, value in config.items():
        if key.startswith("_"):  # _target_ and the like are for Hydra
            continue
        if key not in hints:
            raise ValueError(f"{where}.{key}: no such key{suggest(key, list(hints), where)}")
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, dict) and "_target_" not in value:
            raise ValueError(f"{where}.{key}: must be a config with a _target_, got {value!r}")
        if not _fits(value, hints[key]):
            raise ValueError(f"{where}.{key}: must be {_type_name(hints[key])}, got {value!r}")


@cache
def _fields(target: type) -> tuple[Mapping[str, typing.Any], frozenset[str]]:
    """The types of the fields of a dataclass that can be given, and those that must be."""
    given = {field.name for field in dataclasses.fields(target) if field.init}
    hints = {key: hint for key, hint in typing.get_type_hints(target).items() if key in given}
    required = frozenset(
        f.name for f in dataclasses.fields(target) if f.init and f.default is f.default_factory is dataclasses.MISSING
    )
    return hints, required


def _fits(value: object, hint: object) -> bool:
    """Whether a value has the type that is asked for; what a list or a mapping holds is left to the object itself."""
    if isinstance(hint, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (str, bool, type(None)):
        return isinstance(value, typing.cast("type", hint))
    origin = typing.get_origin(hint)
    if origin is Sequence:
        return isinstance(value, list | tuple)
    if origin is Mapping or dataclasses.is_dataclass(hint):
        return isinstance(value, dict)
    return True


def _type_name(hint: object) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return " or ".join(names.get(part) or _container_name(part) for part in parts)


def _container_name(hint: object) -> str:
    return "a list, as [1, 2]" if typing.get_origin(hint) is Sequence else "a mapping, as {name: value}"


@contextmanager
def one_line(overrides: Sequence[str], name: str) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into a ``ValueError`` of one line: key, law, value."""
    try:
        yield
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        if not error.options:
            raise ValueError(_reason(error)) from error
        raise ValueError(f"{group}: must be one of {', '.join(error.options)}, got {option!r}") from error
    except ConfigCompositionException as error:
        missing = re.match(r"Could not override '([^']+)'", str(error))
        merging = re.match(r"Error merging override [+~]*([^=]+)", str(error))
        if merging is not None and error.__cause__ is not None:
            raise ValueError(f"{merging.group(1)}: {_reason(error.__cause__)}") from error
        if missing is None:
            raise ValueError(f"{' '.join(overrides)}: {_reason(error)}") from error
        key = missing.group(1)
        raise ValueError(f"{key}: no such key{suggest_key(key, overrides, name)}") from error
    except MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key}: must be given, e.g. {error.full_key}=VALUE") from error
    except OmegaConfBaseException as error:
        reason = _reason(error).removeprefix("ValueError raised while resolving interpolation: ")
        raise ValueError(f"{error.full_key or 'config'}: {reason}") from error
    except HydraException as error:
        raise ValueError(f"{' '.join(overrides)}: {_reason(error)}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"{mark.name}: line {mark.line + 1} column {mark.column + 1}: "
        raise ValueError(f"{place}must be YAML of plain values, got {error.problem}") from error


def _reason(error: BaseException) -> str:
    """What an exception says, without Hydra's pointer to its documentation, on one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    useful = [line for line in lines if line and not line.startswith(("See https", "full_key:", "object_type="))]
    return "; ".join(line for line in useful if not line.startswith("Error parsing override")) or type(error).__name__


@contextmanager
def at(point: Point) -> Iterator[None]:
    """Of a ``ValueError``, which of several points it is about: what was swept, as far as it was asked for."""
    try:
        yield
    except ValueError as error:
        swept = ",".join(f"{key}={value}" for key, value in point.swept.items() if key not in point.by_default)
        if not swept or str(error).startswith(f"{swept}: "):
            raise
        raise ValueError(f"{error} (at {swept})") from error


def unique_names(points: Sequence[Point]) -> list[str]:
    """A name for every point: what was swept, ``fabric=fat_tree,bandwidth_gbps=25``; numbered where it repeats."""
    names = [
        ",".join(f"{key}={value}" for key, value in point.swept.items()) or point.choices["fabric"] for point in points
    ]
    return numbered(names)


def numbered(names: Sequence[str]) -> list[str]:
    """``names``, with a number where one repeats: ``a``, ``a (2)``."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique
