"""Settings that a sweep varied: their names in words, their places on an axis, and their roles."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from netsim.analysis.intervals import policies_in
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.plots.style import short
from netsim.units import parse_bytes, parse_rate, parse_seconds

__all__ = ["ROLES", "SCALES", "Placed", "labels_of", "placed", "roles_of", "titled", "words"]

#: What a varied setting can be in a figure.
ROLES = ("x", "hue", "col", "row", "style")

SCALES = ("linear", "log", "categories")

#: Settings in words, where the last part of the key does not say it.
_WORDS = {"network.capacity": "link speed", "network.name": "network", "cluster.name": "cluster",
          "workload.name": "workload", "edge_cloud.name": "edge-cloud", "gpus": "GPUs",
          "edge_cloud.edge_links": "links of edge servers"}

#: Units of settings that are given as plain numbers.
_UNITS = {"observe_interval": "s", "network.capacity": "B/s"}

_QUANTITY = re.compile(r"([-+.\deE]+)\s*([^\W\d_][\w/%]*)")

_WIDE = 10.0  # ratio of the largest to the smallest value from which an axis is logarithmic


class Placed(NamedTuple):
    """The positions of a setting's values on an axis.

    Attributes
    ----------
    places : dict
        Position of each value, in the order of the axis.
    scale : str
        One of `SCALES`.
    numeric : bool
        Whether values are numbers, so that lines may join them.
    labels : dict of float to str
        Labels of positions.
    name : str
        The setting in words, with the unit if all values have the same.
    """

    places: dict[Any, float]
    scale: str
    numeric: bool
    labels: dict[float, str]
    name: str


def words(key: str) -> str:
    """Return a key of an experiment file in words.

    Examples
    --------
    >>> words("network.capacity"), words("observe_interval"), words("workload.seed")
    ('link speed', 'observe interval', 'workload seed')
    """
    if key in _WORDS:
        return _WORDS[key]
    *table, last = key.split(".")
    kept = [*table[-1:], last] if last in ("name", "seed", "kind") else [last]
    return " ".join(kept).replace("_", " ")


def titled(key: str, value: Any) -> str:
    """Return a title of what has a value of a setting: names alone, numbers with the setting.

    Examples
    --------
    >>> titled("observe_interval", "10ms"), titled("allocator", "sebf"), titled("jobs", 20)
    ('observe interval 10 ms', 'sebf', 'jobs 20')
    """
    if isinstance(value, str):
        found = _quantity(value)
        return f"{words(key)} {found[1]} {found[2]}" if found else value
    return f"{words(key)} {_number(value)} {_UNITS.get(key, '')}".rstrip()


def labels_of(table: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Return the label of each row: its values of `keys`, numbers with the name of their key."""
    parts = [table[key].map(lambda value, key=key: value if isinstance(value, str)
                            else f"{key.rpartition('.')[-1]} {value}") for key in keys]
    return pd.Series([", ".join(row) for row in zip(*parts, strict=True)] if parts else "",
                     index=table.index, dtype=object)


# --- axes ----------------------------------------------------------------------------------


def placed(values: list[Any], key: str, scale: str | None) -> Placed:
    """Choose the scale of an axis, and the position and the label of each value of a setting.

    Parameters
    ----------
    values : list
        The distinct values, in their order.
    key : str
        The setting.
    scale : str or None
        One of `SCALES`; None for the one that suits the values.

    Raises
    ------
    UnknownNameError
        If there is no such scale.
    InputError
        If values do not fit the scale.
    """
    if scale is not None and scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    texts, unit = _texts(values, key)
    name = f"{words(key)} ({unit})" if unit else words(key)
    numbers = _numbers(values)
    if numbers is None:
        if scale in ("linear", "log"):
            raise InputError(f"{key} has no {scale} scale: not all of its values are numbers, or "
                             f"quantities of one kind: {', '.join(map(repr, values))}")
        places = {value: float(place) for place, value in enumerate(values)}
        return Placed(places, "categories", False, _by_place(places, texts), name)
    ordered = sorted(values, key=dict(zip(values, numbers, strict=True)).__getitem__)
    chosen = scale or _natural(sorted(numbers))
    if chosen == "log" and min(numbers) <= 0:
        raise InputError(f"{key} has no log scale: it has the value {ordered[0]!r}")
    spots = range(len(ordered)) if chosen == "categories" else sorted(numbers)
    places = {value: float(spot) for value, spot in zip(ordered, spots, strict=True)}
    return Placed(places, chosen, True, _by_place(places, texts), name)


def _by_place(places: Mapping[Any, float], texts: Mapping[Any, str]) -> dict[float, str]:
    """Return labels by position."""
    return {place: texts[value] for value, place in places.items()}


def _texts(values: Sequence[Any], key: str) -> tuple[dict[Any, str], str]:
    """Return the label of each value, and the unit that all have in common, or an empty text."""
    found = {value: _quantity(value) for value in values}
    units = {match[2] for match in found.values() if match}
    bare = [value for value in values if not found[value]]
    if len(units) == 1 and not any(map(_is_amount, bare)):
        return {value: match[1] if match else "0" for value, match in found.items()}, min(units)
    if not units and all(isinstance(value, int | float) for value in values):
        return {value: _number(value) for value in values}, _UNITS.get(key, "")
    return {value: f"{match[1]} {match[2]}" if match else _number(value)
            for value, match in found.items()}, ""


def _quantity(value: Any) -> re.Match[str] | None:
    """Match the number and the unit of a quantity, such as ``"10Gbps"``."""
    return _QUANTITY.fullmatch(value) if isinstance(value, str) and _numbers([value]) else None


def _is_amount(value: Any) -> bool:
    """Whether a value without a unit is something other than zero, which needs none."""
    return str(value).strip("0.") != ""


def _number(value: Any) -> str:
    """Return a value as text; numbers without superfluous digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return short(str(value))
    return f"{value:g}"


def _natural(numbers: list[float]) -> str:
    """Return the default scale for sorted numbers."""
    positive = [number for number in numbers if number > 0]
    if numbers[0] < 0 or not positive or positive[-1] < _WIDE * positive[0]:
        return "linear"
    return "log" if numbers[0] > 0 else "categories"


def _numbers(values: Sequence[Any]) -> list[float] | None:
    """Parse values as numbers or as quantities of one kind; return None if they are neither."""
    if any(isinstance(value, bool) for value in values):
        return None
    readers: tuple[Callable[[Any], float], ...] = (float, parse_rate, parse_seconds, parse_bytes)
    for read in readers:
        try:
            numbers = [read(value) for value in values]
        except (NetsimError, ValueError, TypeError):
            continue
        return numbers if all(map(math.isfinite, numbers)) else None
    return None


# --- roles ---------------------------------------------------------------------------------


def roles_of(varied: Mapping[str, int], roles: Sequence[str], given: Mapping[str, str | None]
             ) -> dict[str, str]:
    """Give each varied setting a role in a figure.

    Parameters
    ----------
    varied : mapping of str to int
        The number of values of each setting.
    roles : sequence of str
        The roles that the figure has, in the order in which they are filled. The policy is the
        hue; x is the other setting with the most values.
    given : mapping of str to str or None
        Settings by role, as far as the caller chose.

    Returns
    -------
    dict
        Maps roles to settings. Settings other than policies that have one value get no role unless
        they are given one.

    Raises
    ------
    UnknownNameError
        If a setting was not varied.
    InputError
        If the figure has no such role, a setting has two, or more were varied than there are roles.
    """
    chosen = {role: key for role, key in given.items() if key is not None}
    for role, key in chosen.items():
        if role not in roles:
            raise InputError(f"this plot has no {role} to choose; choose from: {', '.join(roles)}")
        if key not in varied:
            raise UnknownNameError("varied key", key, varied)
        if list(chosen.values()).count(key) > 1:
            raise InputError(f"{key} can be one of {' and '.join(chosen)} only")
    policies = policies_in(varied)
    left = [key for key in (*policies, *(key for key in varied if key not in policies))
            if key not in chosen.values() and (key in policies or varied[key] > 1)]
    for role in roles:
        if role in chosen or not left:
            continue
        others = [key for key in left if key not in policies]
        if role == "x":
            if not others:
                others = [key for key in varied if key not in policies
                          and key not in chosen.values()]
            if not others:
                raise InputError(f"nothing but the {' and the '.join(policies) or 'seed'} was "
                                 "varied: draw bars")
            chosen[role] = max(others, key=varied.__getitem__)
        else:
            chosen[role] = left[0]
        left = [key for key in left if key != chosen[role]]
    left = [key for key in left if varied[key] > 1]
    if left:
        raise InputError(f"{', '.join(left)} varied too, for which the plot has no place: choose "
                         "runs with Sweep.where")
    return chosen
