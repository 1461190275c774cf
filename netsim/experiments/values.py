"""Values of the experiment file that are written in several ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from netsim.errors import InputError
from netsim.jobs.stragglers import check_factor
from netsim.units import parse_rate, parse_seconds

__all__ = ["LinkName", "PositiveSeconds", "Rate", "Seconds", "Stragglers"]

#: A duration or an instant, ``"10ms"`` or a number of seconds; kept in seconds.
Seconds = Annotated[float, BeforeValidator(lambda value: parse_seconds(value))]

#: The same, but not 0; None where it is not given.
PositiveSeconds = Annotated[float | None, BeforeValidator(
    lambda value: None if value is None else parse_seconds(value, strict=True))]

#: ``"10Gbps"`` or a number of bytes per second; kept in bytes per second.
Rate = Annotated[float, BeforeValidator(lambda value: parse_rate(value))]


def _stragglers(given: object) -> object:
    if not isinstance(given, Mapping):
        raise InputError(f"must be a table of hosts and factors, not {given!r}")
    for host, factor in given.items():
        check_factor(factor, f"the factor of host {host}")
    return {str(host): float(factor) for host, factor in given.items()}


#: Factors by host; keys are strings, as in a file.
Stragglers = Annotated[dict[str, float], BeforeValidator(_stragglers)]


def _link(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"must be a link's name or number, not {value!r}")
    return value


#: A link's name or number.
LinkName = Annotated[Any, BeforeValidator(_link)]
