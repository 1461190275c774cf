"""Values of the experiment file: quantities with units, and words that stand for tables."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any

from pydantic import BeforeValidator

from netsim.errors import InputError
from netsim.units import parse_rate, parse_seconds

__all__ = ["LinkName", "PositiveSeconds", "Rate", "Seconds", "parse_allocator", "parse_value"]

#: A duration or an instant, ``"10ms"`` or a number of seconds; kept in seconds.
Seconds = Annotated[float, BeforeValidator(lambda value: parse_seconds(value))]

#: The same, but not 0; None where it is not given.
PositiveSeconds = Annotated[float | None, BeforeValidator(
    lambda value: None if value is None else parse_seconds(value, strict=True))]

#: ``"10Gbps"`` or a number of bytes per second; kept in bytes per second.
Rate = Annotated[float, BeforeValidator(lambda value: parse_rate(value))]


def _link(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"must be a link's name or number, not {value!r}")
    return value


#: A link's name or number.
LinkName = Annotated[Any, BeforeValidator(_link)]


def parse_allocator(text: str) -> dict[str, Any]:
    """Return an allocator written on one line as a table.

    Examples
    --------
    >>> parse_allocator("parrot:work_conservation=none:theta_max=0.6")
    {'name': 'parrot', 'work_conservation': 'none', 'theta_max': 0.6}
    >>> parse_allocator("package.module:Class")
    {'name': 'package.module:Class'}
    """
    parts = text.split(":")
    options = [part.partition("=") for part in parts if "=" in part]
    name = ":".join(part for part in parts if "=" not in part)
    return {"name": name} | {key.strip(): parse_value(value) for key, _, value in options}


def parse_value(text: str) -> Any:
    """Return the TOML value that `text` is, or `text` itself where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
