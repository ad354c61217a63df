"""Name the key, what it must be, and the value in an error of Hydra, OmegaConf or YAML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import MarkedYAMLError

from topoflow.study.configure.errors import reason
from topoflow.study.configure.hints import suggest
from topoflow.study.configure.key_hints import suggest_key
from topoflow.study.configure.sources import Sources


def named(cause: Exception, overrides: Sequence[str], name: str, sources: Sources) -> NoReturn:
    """Raise ``ValueError`` in one line for ``cause``, else ``cause``. Needs an initialized Hydra."""
    try:
        raise cause
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        if not error.options:
            raise ValueError(reason(error)) from error
        close = suggest(option, error.options, "")
        hint = f" ({close.removeprefix('; ')})" if "did you mean" in close else ""
        raise ValueError(f"{group}: must be one of {', '.join(error.options)}, got {option!r}{hint}") from error
    except ConfigCompositionException as error:
        missing = re.match(r"Could not override '([^']+)'", str(error))
        merging = re.match(r"Error merging override [+~]*([^=]+)", str(error))
        if merging is not None and error.__cause__ is not None:
            raise ValueError(f"{merging.group(1)}: {reason(error.__cause__)}") from error
        if missing is None:
            raise ValueError(f"{' '.join(overrides)}: {reason(error)}") from error
        key = missing.group(1)
        raise ValueError(f"{key}: no such key{suggest_key(key, overrides, name, sources)}") from error
    except MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key}: must be given, e.g. {error.full_key}=VALUE") from error
    except OmegaConfBaseException as error:
        text = reason(error).removeprefix("ValueError raised while resolving interpolation: ")
        raise ValueError(f"{error.full_key or 'config'}: {text}") from error
    except HydraException as error:
        raise ValueError(f"{' '.join(overrides)}: {reason(error)}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"{mark.name}: line {mark.line + 1} column {mark.column + 1}: "
        raise ValueError(f"{place}must be YAML of plain values, got {error.problem}") from error
