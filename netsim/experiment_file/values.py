"""Types for values of the experiment file that can be written in several ways."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator

from netsim.checks import check_whole, refuse_set
from netsim.errors import InputError
from netsim.jobs.stragglers import check_factor
from netsim.plain import plain
from netsim.units import LONG_INTERVAL, parse_bytes, parse_rate, parse_seconds

#: Most seeds of a sweep; more are taken for a typing error, and would fill the memory.
_MOST_SEEDS = 10**6

#: A duration or an instant, ``"10ms"`` or a number of seconds; kept in seconds.
Seconds = Annotated[float, BeforeValidator(lambda value: parse_seconds(value))]

#: The same, but not 0; None where it is not given.
PositiveSeconds = Annotated[float | None, BeforeValidator(
    lambda value: None if value is None else parse_seconds(value, strict=True))]


def _interval(value: Any) -> float:
    parse_seconds(value)  # its errors do not repeat the key
    return parse_seconds(value, "observe_interval", usual=LONG_INTERVAL)


#: The same, for the observe interval.
Interval = Annotated[float, BeforeValidator(_interval)]

#: ``"40MB"`` or a number of bytes.
Bytes = Annotated[float, BeforeValidator(lambda value: parse_bytes(value))]

#: ``"10Gbps"`` or a number of bytes per second; kept in bytes per second.
Rate = Annotated[float, BeforeValidator(lambda value: parse_rate(value, "capacity"))]


def _stragglers(given: object) -> object:
    if not isinstance(given, Mapping):
        raise InputError(f"must be a table of hosts and factors, not {given!r}")
    given = dict(map(plain, given.items()))
    for host, factor in given.items():
        check_factor(factor, f"the factor of host {host}")
    return {str(host): float(factor) for host, factor in given.items()}


#: Factors by host; keys are strings, as in a file.
Stragglers = Annotated[dict[str, float], BeforeValidator(_stragglers)]


def _name_or_number(of: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"must be a {of}'s name or number, not {value!r}")
    return value


#: A link's name or number.
LinkName = Annotated[Any, BeforeValidator(partial(_name_or_number, "link"))]

#: The same, for a host.
HostName = Annotated[Any, BeforeValidator(partial(_name_or_number, "host"))]


def seeds_of(given: int | Iterable[int], first: int = 0) -> list[int]:
    """List and check seeds, given as a list or as a number of seeds that count up from `first`."""
    refuse_set(given, "seeds")
    given = plain(given)
    if isinstance(given, int):
        if not 1 <= given <= _MOST_SEEDS:
            raise InputError(f"seeds must be a number from 1 to {_MOST_SEEDS:,}, or a list of "
                             f"them, not {reprlib.repr(given)}")
        given = range(first, first + given)
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError("seeds must be a whole number, or a list of them, not "
                         f"{reprlib.repr(given)}")
    listed = plain(list(given))
    if not listed:
        raise InputError("seeds must be a number, or a list of them, which is empty")
    for seed in listed:
        check_whole(seed, "seeds: each")
    if len(set(listed)) < len(listed):
        raise InputError(f"seeds: a seed occurs twice in {listed}")
    return listed
