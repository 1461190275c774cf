"""Parse and format quantities with units, such as ``"10Gbps"``.

Inside netsim, all numbers are in base units: seconds, bytes, bytes per second. Strings are accepted
at the boundary (experiment files, readers, constructors) and parsed here only. A number without a
unit is in base units.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

import numpy as np

from netsim.base.values import plain
from netsim.errors import NetsimWarning, UnitError, key_of

Quantity = str | int | float

#: The largest quantity and the lowest rate. They exceed realistic values, but neither bytes over a
#: rate nor sums of many quantities overflow.
_MOST, _SLOWEST = 1e100, 1e-18

_MOST_DECIMALS = 6  # of a column

#: Bytes per second and bytes below which, and seconds from which on, a number without a unit may be
#: meant in another unit: of an interval between decisions, and of what a byte waits on its way.
SMALL_RATE, SMALL_SIZE, LONG_INTERVAL, LONG_LATENCY = 1000.0, 1000.0, 1.0, 1e-3

#: Such numbers that have been parsed in `question_units`, with their names, by their base unit.
_questioned: ContextVar[dict[str, dict[float, str]] | None] = ContextVar("_questioned",
                                                                         default=None)

#: Base units of which this process has warned.
_told: set[str] = set()

#: The name of each base unit in messages, and an example with another unit.
_SAID = {"B/s": ("bytes/s", "40Gbps"), "B": ("bytes", "40MB"), "s": ("s", "10ms")}

_NUMBER = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\d\s].*)?")

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_PREFIX = _DECIMAL | _BINARY

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
            "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {prefix + "B": scale for prefix, scale in _PREFIX.items()} | {
    prefix + "bit": scale / 8 for prefix, scale in _PREFIX.items()
}
_RATE = {prefix + "B/s": scale for prefix, scale in _PREFIX.items()} | {
    prefix + unit: scale / 8
    for prefix, scale in _PREFIX.items()
    for unit in ("bps", "bit/s", "b/s")
}

#: The accepted units of each base unit, with their sizes.
UNITS = {"s": _SECONDS, "B": _BYTES, "B/s": _RATE}

#: Common spellings of units that are not accepted, for suggestions.
_WORDS = {"sec": "s", "second": "s", "msec": "ms", "millisecond": "ms", "usec": "us",
          "microsecond": "us", "nsec": "ns", "nanosecond": "ns", "m": "min", "minute": "min",
          "hr": "h", "hour": "h", "day": "d", "byte": "B"}

#: Similarity, from 0 to 1, from which a unit is suggested; longer ones are like none.
_NEAR, _LONGEST_UNIT = 0.7, 20


class WithUnit(float):
    """A number that is known to be in base units, so that it is not questioned."""


def _parse(value: Quantity, units: Mapping[str, float], what: str, example: str, least: float,
           strict: bool) -> float:
    try:
        number = _in_base_units(value, units, what, example)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _wrong(what, f"must be finite, not {plain(value)!r}")
    if number < least or (strict and number == least):
        bound = "greater than" if strict else "at least"
        raise _wrong(what, f"must be {bound} {least:g}, not {plain(value)!r}")
    if number > _MOST:
        raise _wrong(what, f"must be at most {_MOST:g}, not {plain(value)!r}")
    return number


def _wrong(what: str, message: str) -> UnitError:
    return UnitError(f"{what} {message}", key_of(what))


def _in_base_units(value: Quantity, units: Mapping[str, float], what: str, example: str) -> float:
    if type(value) is float:  # most are; whether something is a Real takes ten times as long
        return value
    if not isinstance(value, str):
        value = plain(value)
        if isinstance(value, Real) and not isinstance(value, bool | np.timedelta64):
            return float(value)
        raise _wrong(what, f"must be a number or a string such as {example!r}, not {value!r}")
    match = _NUMBER.fullmatch(value.strip())
    if match is None:
        raise _wrong(what, f"{value!r} is not a number with a unit, such as {example!r}")
    number, unit = match.groups()
    if unit is None:
        return float(number)
    if unit not in units:
        near = " or ".join(f"{number}{each}" for each in _nearest(unit, units))
        hint = f" (did you mean {near}?)" if near else ""
        raise _wrong(what, f"{value!r} has the unknown unit {unit!r}{hint}; "
                           f"choose from: {_listed(units)}")
    return float(number) * units[unit]


def _listed(units: Mapping[str, float]) -> str:
    """List units; those with prefixes in short."""
    bases = [each for each in units if f"k{each}" in units]
    if not bases:
        return ", ".join(units)
    prefixes = [each for each in _PREFIX if each not in ("", "K")]
    return (f"{', '.join(bases)}, also after {', '.join(prefixes[:-1])} or {prefixes[-1]}, such as "
            f"{' and '.join('G' + each for each in bases[:2])}")


def _nearest(unit: str, units: Mapping[str, float]) -> list[str]:
    """Return the unit that is probably meant; two if it may be bits or bytes; or none."""
    if len(unit) > _LONGEST_UNIT:
        return []
    small = unit.lower()
    word = _WORDS.get(small) or _WORDS.get(small.removesuffix("s"))
    if word is not None and word in units and small not in map(str.lower, units):
        return [word]
    found = []
    for each in units:
        alike = _similarity(small, each.lower())
        if alike >= _NEAR or each.lower().startswith(small):
            found.append((alike + _similarity(unit, each), _similarity(unit, each), each))
    if not found:
        return []
    _, exact, best = max(found, key=lambda one: one[0])  # the first of several maxima
    others = [each for _, alike, each in found
              if alike >= exact and units[each] / units[best] in (1 / 8, 8)]  # bits or bytes
    return sorted([best, *others[:1]], key=list(units).index)


def _similarity(one: str, other: str) -> float:
    """The similarity of two strings, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other).ratio()


def parse_seconds(value: Quantity, what: str = "time", *, least: float = 0.0,
                  strict: bool = False, usual: float = math.inf) -> float:
    """Parse a duration or an instant, such as ``"10ms"``, into seconds.

    It must be at least `least`, or greater if `strict`, and at most 1e100. A number without a unit
    is questioned from `usual` on; see `question_units`.
    """
    seconds = _parse(value, _SECONDS, what, "10ms", least, strict)
    if seconds >= usual:
        _question(value, "s", what, seconds)
    return seconds


def parse_bytes(value: Quantity, what: str = "size", *, least: float = 0.0,
                strict: bool = False, usual: float = 0.0) -> float:
    """Parse a size into bytes, where ``MB`` is 1e6 bytes and ``MiB`` 2**20; see `parse_seconds`.

    Here, a number without a unit is questioned below `usual`.
    """
    nbytes = _parse(value, _BYTES, what, "40MB", least, strict)
    if 0 < nbytes < usual:
        _question(value, "B", what, nbytes)
    return nbytes


def parse_rate(value: Quantity, what: str = "rate", *, strict: bool = False) -> float:
    """Parse a rate into bytes per second, where ``bps`` counts bits; see `parse_seconds`.

    A rate must be 0 or at least 1e-18, as times at lower rates could overflow.
    """
    rate = _parse(value, _RATE, what, "10Gbps", 0.0, strict)
    if 0 < rate < _SLOWEST:
        raise _wrong(what, f"must be at least {_SLOWEST:g} bytes/s, not {plain(value)!r}")
    if 0 < rate < SMALL_RATE:
        _question(value, "B/s", what, rate)
    return rate


def _question(value: Quantity, unit: str, what: str, number: float) -> None:
    """Note a number that is not as usual, if it has no unit and units are questioned."""
    questioned = _questioned.get()
    if questioned is not None and _has_no_unit(value):
        questioned.setdefault(unit, {}).setdefault(number, f"{what} = {_as_python(value)!r}")


def _has_no_unit(value: Quantity) -> bool:
    if isinstance(value, str):
        return value.strip()[-1:] in "0123456789."
    return not isinstance(value, WithUnit)


def _as_python(value: Quantity) -> Quantity:
    """Convert numbers of other types to Python's own, for messages."""
    return value if isinstance(value, str | int) else float(value)


@contextmanager
def question_units(ask: bool = True, again: bool = False) -> Iterator[None]:
    """Warn of numbers without a unit that are parsed in this context and may be meant in another.

    These are rates below 1 kB/s, and times and sizes for which a parser says what is usual. The
    warnings come at the end of the context, unless it ends by an exception; a process warns once of
    each kind, or with `again` every time. Without `ask`, there are none: for numbers whose unit is
    known from elsewhere, or that are given in code.
    """
    token = _questioned.set({} if ask else None)
    try:
        yield
        questioned = _questioned.get()
    finally:
        _questioned.reset(token)
    for unit, numbers in (questioned or {}).items():
        if again or unit not in _told:
            _told.add(unit)
            warnings.warn(NetsimWarning(_asked(unit, numbers)), stacklevel=4)


def _asked(unit: str, numbers: Mapping[float, str]) -> str:
    """Word the question about numbers without a unit that are in one base unit."""
    (number, first), *others = numbers.items()
    said, example = _SAID[unit]
    listed = ", ".join(name for _, name in others[:3]) + (", ..." if others[3:] else "")
    more = f"; likewise: {listed}" if others else ""
    return (f"{first} has no unit and is read as {number:g} {said}; write "
            f'"{number:g}{unit}" if this is meant, otherwise add the unit, as in "{example}"{more}')


def decimal(text: str) -> float:
    """Parse a number; NaN if it is none, or has underscores or digits other than 0 to 9.

    Python accepts these, but in a file they are mistakes.
    """
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def is_digits(text: str, most: int = 18) -> bool:
    """Whether a text is a whole number of at most `most` digits, all of them from 0 to 9."""
    return text.isascii() and text.isdecimal() and len(text) <= most


def parse_value(text: str) -> Any:
    """Parse a TOML value; return a text that is not one, such as ``10Gbps``, stripped."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # such as numbers of 5,000 digits, or 5,000 brackets
        return text.strip()


def _scaled(number: float, unit: str, digits: int = 4) -> str:
    for prefix in ("P", "T", "G", "M", "k"):
        if abs(number) >= _DECIMAL[prefix]:
            return f"{number / _DECIMAL[prefix]:.{digits}g} {prefix}{unit}"
    return f"{number:.{digits}g} {unit}"


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """Format a number in "s", "B" or "B/s" as netsim parses it, with rates in bits per second.

    >>> format_quantity(0.01234567, "s"), format_quantity(1103906250, "B/s", 6)
    ('12.35 ms', '8.83125 Gbps')
    """
    if unit == "s":
        scale = next((name for name in ("s", "ms", "us", "ns") if abs(value) >= _SECONDS[name]),
                     "s")
        return f"{value / _SECONDS[scale]:.{digits}g} {scale}"
    return _scaled(value * 8, "bps", digits) if unit == "B/s" else _scaled(value, unit, digits)


def format_count(count: int, noun: str) -> str:
    """Format a number of things: ``format_count(2400, "GPU")`` is ``"2,400 GPUs"``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_number(value: float) -> str:
    """Format a number for people: four significant digits, or all integer digits if more."""
    return f"{value:,.0f}" if 999.95 <= abs(value) < 1e15 else f"{value:.4g}"


def decimals_for(values: Iterable[float], digits: int = 3) -> int:
    """Compute how many decimals show `digits` digits of the smallest positive value."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    return max(0, digits - 1 - math.floor(math.log10(min(known)))) if known else 0


def format_aligned(values: Iterable[float]) -> list[str]:
    """Format the numbers of a column with equally many decimals; NaN becomes an empty string.

    A column of whole numbers has no decimals. Others have four significant digits of the largest
    number and three of the smallest, unless these two are too far apart.

    >>> format_aligned([1.3491, 0.98, 1.0, math.nan]), format_aligned([2e-9, 1.5])
    (['1.349', '0.980', '1.000', ''], ['2e-09', '1.5'])
    """
    every = list(values)
    known = [value for value in every if math.isfinite(value)]
    decimals = 0 if all(value.is_integer() for value in map(float, known)) else max(
        decimals_for(known), decimals_for([max(map(abs, known))], 4))
    return ["" if math.isnan(value) else f"{value:,.{decimals}f}" if decimals <= _MOST_DECIMALS
            else format_number(value) for value in every]


def format_bytes(nbytes: float) -> str:
    """Format a size for people: ``format_bytes(4e7)`` is ``"40 MB"``."""
    return _scaled(nbytes, "B")


def format_size(nbytes: float) -> str:
    """Format a size as people give it: in binary units if it is a whole number of them."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if nbytes % 1024**power == 0 and 1 <= nbytes / 1024**power < 1024:
            return f"{nbytes / 1024**power:,.0f} {unit}"
    return format_bytes(nbytes)


def format_rate(rate: float) -> str:
    """Format a rate for people, in bits: ``format_rate(1.25e9)`` is ``"10 Gbps"``."""
    return _scaled(rate * 8, "bps")


def format_seconds(seconds: float) -> str:
    """Format a duration for people: ``format_seconds(0.0123)`` is ``"12.3 ms"``."""
    if seconds == 0 or abs(seconds) >= 1:
        return f"{format_number(seconds)} s"
    for unit in ("ms", "us", "ns"):
        if abs(seconds) >= _SECONDS[unit]:
            break
    return f"{seconds / _SECONDS[unit]:.4g} {unit}"
