"""Communication patterns: one file each, one entry each in `PATTERNS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.checks import check_options
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns.all_to_all import AllToAll
from netsim.jobs.patterns.base import Pattern
from netsim.jobs.patterns.mixed import (
    ModelCoflow,
    exchanging_in_turn,
    model_coflows,
    model_stages,
)
from netsim.jobs.patterns.parameter_server import ParameterServer
from netsim.jobs.patterns.ring import RingAllReduce
from netsim.lazy import loading

__all__ = ["PATTERNS", "AllToAll", "ModelCoflow", "ParameterServer", "Pattern", "RingAllReduce",
           "exchanging_in_turn", "make_pattern", "model_coflows", "model_stages"]

#: The patterns that jobs can name.
PATTERNS: dict[str, type] = {
    "all-to-all": AllToAll,
    "parameter-server": ParameterServer,
    "ring-all-reduce": RingAllReduce,
}


def make_pattern(pattern: str | Mapping[str, Any] | Pattern) -> Pattern:
    """Return a pattern given by name, by ``{"name": ..., option: ...}``, or as it is.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist; the choices are listed.
    InputError
        If it is none of these.
    """
    options = {"name": pattern} if isinstance(pattern, str) else pattern
    if not isinstance(options, Mapping):
        if isinstance(options, Pattern):
            return options
        raise InputError(f"{pattern!r} is not a pattern: it has no method stages")
    options = dict(options)
    name = options.pop("name", None)
    if name not in PATTERNS:
        raise UnknownNameError("pattern", name, PATTERNS)
    check_options(PATTERNS[name], options, f"pattern {name!r}")
    made: Pattern = PATTERNS[name](**options)
    return made

__getattr__ = loading(__name__)
