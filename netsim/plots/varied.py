"""Settings that a sweep varied: in words, as places on an axis, and their roles in a figure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from netsim.analysis.intervals import policies_in
from netsim.base.units import format_quantity, parse_bytes, parse_rate, parse_seconds
from netsim.base.values import as_choice
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.plots.style import fitting, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Roles that a varied setting can have in a figure.
ROLES = ("x", "y", "hue", "col", "row", "style")

SCALES = ("linear", "log", "categories")

#: Settings in words, where the last part of the key does not say it.
_WORDS = {"network.capacity": "link speed", "network.name": "network", "cluster.name": "cluster",
          "workload.name": "workload", "edge_cloud.name": "edge-cloud", "gpus": "GPUs",
          "nic": "NIC",
          "edge_cloud.edge_links": "links of edge servers",
          "workload.servers_max": "most servers of a job", "lam": "lambda",
          "workload.sample": "jobs", "workload.single_gpu_share": "share of jobs on one GPU",
          "workload.configurations": "plans",
          "workload.poisson_mean": "mean time between arrivals"}

#: Units of settings that are given as plain numbers.
_UNITS = {"observe_interval": "s", "network.capacity": "B/s"}

_QUANTITY = re.compile(r"([-+.\deE]+)\s*([^\W\d_][\w/%]*)")

WIDE = 10.0  # ratio of the largest to the smallest value from which an axis is logarithmic

_LISTED = 8  # most numbers that an axis labels one by one; of more, it labels round ones

_APART = 12  # most numbers that panels or colours are for

_TICKS = 6  # most ticks of a linear axis with round numbers


class Placed(NamedTuple):
    """The positions of a setting's values on an axis."""

    places: dict[Any, float]  #: by value, in the order of the axis
    scale: str  #: one of `SCALES`
    numeric: bool  #: whether values are numbers, so that lines may join them
    labels: dict[float, str]  #: by position: of all values, or of round ones if there are many
    name: str  #: the setting in words, with the unit if all values have the same

    @property
    def matplotlib_scale(self) -> str:
        """The scale as matplotlib calls it; a single value is on a linear one."""
        return "log" if self.scale == "log" and len(self.places) > 1 else "linear"


def words(key: str) -> str:
    """Put a key of an experiment file in words: ``"network.capacity"`` is the ``"link speed"``."""
    if key in _WORDS:
        return _WORDS[key]
    *table, last = key.split(".")
    kept = [*table[-1:], last] if last in ("name", "seed", "kind") else [last]
    return " ".join(_WORDS.get(part, part) for part in kept).replace("_", " ")


def titled(key: str, value: Any) -> str:
    """Write a title for a value of a setting: names alone, numbers with the setting."""
    if isinstance(value, str):
        found = _quantity(value)
        return (f"{words(_setting(key, [value]))} {_rounded(found[1])} {found[2]}" if found
                else value)
    return f"{words(key)} {_number(value)} {_UNITS.get(key, '')}".rstrip()


def _setting(key: str, values: Sequence[Any]) -> str:
    """The setting in which values differ: for networks that are called by speeds, the speed."""
    return "network.capacity" if key == "network" and _numbers(values)[1] == "B/s" else key


def labels_of(table: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Label each row by its values of `keys`, numbers with the name of their key."""
    parts = [table[key].map(lambda value, key=key: value if isinstance(value, str)
                            else f"{key.rpartition('.')[-1]} {value}") for key in keys]
    return pd.Series([", ".join(row) for row in zip(*parts, strict=True)] if parts else "",
                     index=table.index, dtype=object)


# --- axes ----------------------------------------------------------------------------------
def placed(values: list[Any], key: str, scale: str | None) -> Placed:
    """Choose the scale of an axis, and the position and the label of each value of a setting.

    Values are distinct and in order. Without a `scale`, it is one that suits the values.
    """
    if scale is not None:
        as_choice(scale, "scale", SCALES)
    key = _setting(key, values)
    texts, unit = _texts(values, key)
    name = f"{words(key)} ({unit})" if unit else words(key)
    numbers, kind = _numbers(values)
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
    if chosen == "categories" or len(values) <= _LISTED:
        return Placed(places, chosen, True, _by_place(places, texts), name)
    rounded, unit = _round_labels(numbers, kind or _UNITS.get(key, ""), chosen)
    return Placed(places, chosen, True, rounded, f"{words(key)} ({unit})" if unit else words(key))


def _round_labels(numbers: Sequence[float], kind: str, scale: str
                  ) -> tuple[dict[float, str], str]:
    """Label round numbers in the range of others; return also the unit that all have, if any."""
    from matplotlib.ticker import MaxNLocator

    low, high = min(numbers), max(numbers)
    unit = 0.125 if kind == "B/s" else 1.0  # rates are round in bits
    if scale == "log":
        powers = range(math.floor(math.log10(low / unit)), math.ceil(math.log10(high / unit)) + 1)
        decades = [10.0**power * unit for power in powers]
        few = sum(low <= decade <= high for decade in decades) < 3
        ticks = [digit * decade for decade in decades for digit in ((1, 2, 5) if few else (1,))]
    else:
        whole = all(number == int(number) for number in numbers)
        locator = MaxNLocator(_TICKS, steps=[1, 2, 5, 10], integer=whole)
        ticks = [tick * unit for tick in locator.tick_values(low / unit, high / unit)]
    within = [tick for tick in ticks if low <= tick <= high]
    if not kind:
        return {tick: f"{tick:,g}" for tick in within}, ""
    texts = {tick: format_quantity(tick, kind).split() for tick in within}
    units = {name for _, name in texts.values()}
    if len(units) == 1:
        return {tick: number for tick, (number, _) in texts.items()}, units.pop()
    return {tick: f"{number} {name}" for tick, (number, name) in texts.items()}, ""


def _by_place(places: Mapping[Any, float], texts: Mapping[Any, str]) -> dict[float, str]:
    """The labels of values, by position."""
    return {place: texts[value] for value, place in places.items()}


def _texts(values: Sequence[Any], key: str) -> tuple[dict[Any, str], str]:
    """The label of each value, and the unit that all have in common, or an empty text."""
    found = {value: _quantity(value) for value in values}
    units = {match[2] for match in found.values() if match}
    bare = [value for value in values if not found[value]]
    if len(units) == 1 and not any(map(_is_amount, bare)):
        return {value: _rounded(match[1]) if match else "0"
                for value, match in found.items()}, min(units)
    if not units and all(isinstance(value, int | float) for value in values):
        return {value: _number(value) for value in values}, _UNITS.get(key, "")
    return {value: f"{_rounded(match[1])} {match[2]}" if match else _number(value)
            for value, match in found.items()}, ""


def _quantity(value: Any) -> re.Match[str] | None:
    """Match the number and the unit of a quantity, such as ``"10Gbps"``."""
    return (_QUANTITY.fullmatch(value) if isinstance(value, str) and _numbers([value])[0]
            else None)


def _rounded(number: str) -> str:
    """Shorten the digits after the decimal point, of which drawn values have many."""
    return (f"{int(number):,}" if number.isdecimal() else
            f"{float(number):.4g}" if "." in number else number)


def _is_amount(value: Any) -> bool:
    """Whether a value needs a unit but has none; zero needs none."""
    return str(value).strip("0.") != ""


def _number(value: Any) -> str:
    """Write a value as text; numbers without superfluous digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return short(str(value))
    return f"{value:,.10g}" if value == int(value) else f"{value:,.4g}"


def _natural(numbers: list[float]) -> str:
    """The default scale for sorted numbers."""
    positive = [number for number in numbers if number > 0]
    if numbers[0] < 0 or not positive or positive[-1] < WIDE * positive[0]:
        return "linear"
    return "log" if numbers[0] > 0 else "categories"


def _numbers(values: Sequence[Any]) -> tuple[list[float] | None, str]:
    """Parse values as numbers, or as quantities of one kind; return them with their unit.

    None if they are neither.
    """
    if any(isinstance(value, bool) for value in values):
        return None, ""
    readers: tuple[tuple[Callable[[Any], float], str], ...] = (
        (float, ""), (parse_rate, "B/s"), (parse_seconds, "s"), (parse_bytes, "B"))
    for read, unit in readers:
        try:
            numbers = [read(value) for value in values]
        except (NetsimError, ValueError, TypeError):
            continue
        return (numbers, unit) if all(map(math.isfinite, numbers)) else (None, "")
    return None, ""


def numbers_among(table: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """Select the settings whose values are several numbers or quantities, most values first."""
    counts = {key: table[key].nunique() for key in keys
              if table[key].nunique() > 1 and _numbers(list(table[key].unique()))[0] is not None}
    return sorted(counts, key=counts.__getitem__, reverse=True)


def is_range_of(values: pd.Series) -> bool:
    """Whether a setting has more numeric values than panels or colours can distinguish."""
    return values.nunique() > _APART and _numbers(list(values.unique()))[0] is not None


def drawn_together(table: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """Select the settings that were drawn together as points from ranges.

    If two settings are combined, each value of one occurs with each value of the other. In drawn
    points, each value occurs with few.
    """
    counts = {key: table[key].nunique() for key in keys if table[key].nunique() > 2
              and _numbers(list(table[key].unique()))[0] is not None}
    found = {key for pair in combinations(counts, 2) for key in pair
             if len(table[list(pair)].drop_duplicates()) == max(map(counts.__getitem__, pair))}
    return [key for key in keys if key in found]


def set_x(ax: Axes, axis: Placed, *, upright: bool = False) -> None:
    """Label the x axis with as many numbers as fit, or with all categories, slanted if needed.

    If `upright`, it is the y axis, on which all labels fit. Call it after all axes that share
    theirs were drawn.
    """
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    named = ax.yaxis if upright else ax.xaxis
    named.set_minor_locator(NullLocator())
    ax.margins(y=0.06) if upright else ax.margins(x=0.06)
    kept = axis.labels if upright else fitting(named, axis.labels)
    if upright:
        named.set_ticks(list(kept), list(kept.values()))
    elif axis.scale != "categories" or len(kept) == len(axis.labels):
        ax.set_xticks(list(kept), list(kept.values()))
    else:
        ax.set_xticks(list(axis.labels), list(axis.labels.values()), rotation=30, ha="right",
                      rotation_mode="anchor")
    if named.get_scale() == "log":
        named.set_minor_locator(FixedLocator(_between_decades(axis.labels)))
        named.set_minor_formatter(NullFormatter())


def _between_decades(labels: Mapping[float, str]) -> list[float]:
    """List 1, 2, ..., 9 times each power of ten, in the unit of the labels."""
    place, label = next(iter(labels.items()))
    unit = place / float(label.split()[0].replace(",", ""))  # prefixes of units are powers of ten
    lowest, highest = (math.floor(math.log10(end / unit)) for end in (min(labels), max(labels)))
    return [digit * 10.0**power * unit for power in range(lowest - 1, highest + 1)
            for digit in range(1, 10)]


# --- roles ---------------------------------------------------------------------------------
def roles_of(varied: Mapping[str, int], roles: Sequence[str], given: Mapping[str, str | None]
             ) -> dict[str, str]:
    """Give each varied setting a role in a figure, after the settings that the caller chose.

    `varied` has the number of values of each setting. `roles` are filled in their order: the policy
    is the hue; x and y are the other settings with the most values. Settings other than policies
    that have one value get no role unless they are given one.
    """
    chosen = {role: key for role, key in given.items() if key is not None}
    for role, key in chosen.items():
        if role not in roles:
            raise InputError(f"this plot has no {role} to choose; choose from: {', '.join(roles)}")
        if key not in varied:
            raise UnknownNameError("varied key", key, varied)
        if list(chosen.values()).count(key) > 1:
            twice = " and ".join(other for other, its in chosen.items() if its == key)
            raise InputError(f"{key} is given as {twice}; a setting has one role in a plot")
    policies = policies_in(varied)
    left = [key for key in (*policies, *(key for key in varied if key not in policies))
            if key not in chosen.values() and (key in policies or varied[key] > 1)]
    for role in roles:
        if role in chosen or not (left or role in ("x", "y")):
            continue
        others = [key for key in left if key not in policies]
        if role in ("x", "y"):
            if not others:
                others = [key for key in varied if key not in policies
                          and key not in chosen.values()]
            if not others:
                known = [*policies, *(key for key in chosen.values() if key not in policies)]
                raise InputError(
                    f"nothing but the {' and the '.join(known) or 'seed'} was varied"
                    + (": draw bars" if role == "x" else
                       ", and this plot needs a setting along x and one along y"))
            chosen[role] = max(others, key=varied.__getitem__)
        else:
            chosen[role] = left[0]
        left = [key for key in left if key != chosen[role]]
    left = [key for key in left if varied[key] > 1]
    if left:
        raise InputError(f"{', '.join(left)} varied too, for which the plot has no place: choose "
                         "runs with Sweep.where")
    return chosen
