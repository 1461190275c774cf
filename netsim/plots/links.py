"""Plots of the utilisation of links over time; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from netsim.analysis.links import link_utilisation, makespan, utilised
from netsim.base.arrays import Floats
from netsim.errors import InputError
from netsim.plots.spans import add_key, draw_spans, time_within
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    WIDTH_IN,
    add_note,
    add_note_to,
    drawable,
    head_beside,
    name_rows,
    new_figure,
    require_matplotlib,
    short,
    time_axis,
    write_beside,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result


_BINS = 350  # intervals of time on a strip
_AT_A_TIME = 1000  # links whose loads are added up by interval at a time
_ROWS, _OF_SEVERAL = 24, 8  # most rows of a strip by default: of one, and of each of several
_SHADES = {"idle": "#ffffff", "25 %": "#bcd9ea", "50 %": COLOURS[4], "75 %": COLOURS[0],
           "100 %": "#00263f"}

_ROW_IN, _LEAST_IN, _STRIP_IN = 0.125, 0.45, 2.2  # height of a row; least sizes of a strip
_LETTER_IN, _SHARE_IN = 0.052, 0.55  # width of a letter of a name, and of the shares beside rows
_FAILED: Any = {"facecolor": "white", "edgecolor": COLOURS[5], "hatch": "//////", "linewidth": 0}

_SEEN = 0.02  # utilisation from which a shade can be told from white
_WHOLE = 1e-9  # tolerance for rounding of a share of time


class _StripRow(NamedTuple):
    """A row of a strip: its name, and its links."""

    name: str
    links: list[str]


def link_strips(results: Mapping[str, Result], links: int | None = None, ax: Axes | None = None
                ) -> list[Axes]:
    """Draw the utilisation of links over time: a strip per policy with a row per link.

    Links that were at capacity for the longest time are on top, then those that were used most; in
    the same order on every strip. Beside each row is the share of the makespan for which it was
    full. Rows that are not seen to carry anything are left out.

    If more links are used than there are rows, equal links share a row: those of the same capacity
    between a node and others whose names differ only in numbers, such as all NVLinks of a server in
    one direction, or those whose ends differ only in their last number. A row then shows, at any
    time, the link that is used most, and beside it stands the range of the shares of all.

    Parameters
    ----------
    results : mapping of str to Result
        Results by label, all of the same workload, with links recorded.
    links : int, optional
        Largest number of rows; by default 24, or 8 of each of several policies.
    ax : Axes, optional
        Axes to draw the strip of a single policy on; by default there is a new figure.

    Returns
    -------
    list of Axes
        One per policy, on one figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If links were not recorded, there is nothing to draw, or axes are given for several
        policies.
    """
    require_matplotlib(ax)
    if ax is not None and len(results) > 1:
        raise InputError(f"the utilisation of links has a panel for each of {len(results)} "
                         "policies, and ax is one panel: draw one of the results, such as "
                         f"comparison.results[{next(iter(results))!r}]")
    used = {label: link_utilisation(result).set_index("link") for label, result in results.items()}
    if not any((table["bytes"] > 0).any() for table in used.values()):
        raise InputError("there is nothing to draw: no link has carried any bytes")
    most = links or (_ROWS if len(used) == 1 else _OF_SEVERAL)
    tables = {label: result.links for label, result in results.items()}
    failed = {label: _failures(table) for label, table in tables.items()}
    ranked = _ranked(used, tables, failed, most)
    begin = min(result.jobs["arrival_s"].min() for result in results.values())
    length = np.nanmax([makespan(result) for result in results.values()])
    edges = np.linspace(begin, begin + length, _BINS + 1)
    loads = {label: _over_time(utilised(result), ranked[:most], edges)
             for label, result in results.items()}
    seen = np.max([*loads.values()], axis=0).max(axis=1) >= _SEEN
    seen |= [any(row.links[0] in own for own in failed.values()) for row in ranked[:most]]
    seen[0] |= not seen.any()
    rows = [row for row, shown in zip(ranked, seen, strict=False) if shown]
    strips = [ax] if ax is not None else _new_strips(rows, len(used))
    for strip, label in zip(strips, results, strict=True):
        _draw_strip(strip, loads[label][seen], edges)
        _draw_failures(strip, rows, failed[label], length)
        name_rows(strip, [drawable(row.name) for row in rows])
        strip.set_ylim(len(rows) - 0.5, -0.5)
        _write_shares(strip, used[label]["full"], rows)
        if len(results) > 1 or ax is None:
            strip.set_ylabel(short(label), fontsize=7.5, color=INK)
    time_axis(strips[-1])
    key = [*((label, {"facecolor": shade, "edgecolor": GREY, "linewidth": 0.4})
             for label, shade in _SHADES.items()), ("failed", _FAILED)]
    add_key(strips[0], key if any(failed.values()) else key[:-1])
    note = (f"{_in_words(rows, ranked, len(next(iter(used.values()))))}; full: share of the time "
            "at capacity")
    add_note(strips[0].figure.canvas.figure, note) if ax is None else add_note_to(ax, note)
    return strips


# --- rows ----------------------------------------------------------------------------------


def _failures(table: pd.DataFrame) -> dict[str, tuple[tuple[float, float], ...]]:
    """Find the intervals in which links had failed, by link."""
    table = table.sort_values("start_s", kind="stable")
    down = table["capacity"] <= 0
    # Rows without others between them are one spell.
    turn = (~down).groupby(table["link"], observed=True).cumsum()
    spells = table[down].groupby(["link", turn[down]], observed=True).agg(
        start=("start_s", "min"), end=("end_s", "max"))
    found: dict[str, tuple[tuple[float, float], ...]] = {}
    for (link, _), start, end in spells.itertuples():
        found[link] = (*found.get(link, ()), (start, end))
    return found


def _ranked(used: Mapping[str, pd.DataFrame], tables: Mapping[str, pd.DataFrame],
            failed: Mapping[str, Mapping[str, Any]], most: int) -> list[_StripRow]:
    """Rank rows of all links in use or failed, grouped if they are more than `most`.

    The busiest are first, but failed ones are among the first `most`.
    """
    means = sum(table[["full", "utilisation", "bytes"]] for table in used.values())
    assert isinstance(means, pd.DataFrame)
    when = {link: tuple(own.get(link) for own in failed.values())
            for link in {link for own in failed.values() for link in own}}
    busy = means[(means["bytes"] > 0) | means.index.isin([*when])]
    rows = [_StripRow(link, [link]) for link in busy.index]
    if len(busy) > most:
        capacity = pd.concat(tables.values()).groupby("link", observed=True)["capacity"].max()
        rows = list(_groups({link: (capacity[link], when.get(link)) for link in busy.index}))
    values = busy[["full", "utilisation"]].round(9).to_numpy()  # equal but for rounding
    place = {link: k for k, link in enumerate(busy.index)}
    rank = {row.name: tuple(-values[[place[link] for link in row.links]].max(axis=0))
            for row in rows}
    rows.sort(key=lambda row: rank[row.name])
    first = sorted(rows, key=lambda row: row.links[0] not in when)[:most]
    return [*(row for row in rows if row in first), *(row for row in rows if row not in first)]


def _in_words(shown: Sequence[_StripRow], ranked: Sequence[_StripRow], total: int) -> str:
    """Say which of the rows are shown, for a network of `total` links."""
    in_use = sum(len(row.links) for row in ranked)
    if len(ranked) < in_use:
        return (f"{in_use:,} links in {len(ranked):,} groups" if len(shown) == len(ranked) else
                f"{_busiest(len(shown))} of {len(ranked):,} groups of {in_use:,} links")
    if len(shown) == total:
        return f"all {total:,} links"
    return (f"the {in_use} links in use, of {total:,}" if len(shown) == in_use else
            f"{_busiest(len(shown), 'link')}, of {total:,}")


def _busiest(count: int, noun: str = "") -> str:
    """Write ``"the 3 busiest links"``, or the like without a number or a noun."""
    one = count == 1
    return f"the {'' if one else f'{count} '}busiest{noun and f' {noun}' + 's' * (not one)}"


def _groups(links: Mapping[str, Any]) -> Iterable[_StripRow]:
    """Group links that have equal values; each goes to the largest group that it may be in."""
    keys = {link: [(*key, value) for key in _keys(link)] for link, value in links.items()}
    sizes = Counter(key for own in keys.values() for key in own)
    grouped: dict[Any, list[str]] = {}
    for link, own in keys.items():
        grouped.setdefault(max(own, key=sizes.__getitem__), []).append(link)
    for members in grouped.values():
        count = f" ({len(members)})" if len(members) > 1 else ""
        yield _StripRow(_common(members) + count, members)


def _keys(link: str) -> list[tuple[str, str]]:
    """The groups that a link may be in, by the names of its ends, some of them without numbers.

    ``"gpu-4.1->nic-4.1"`` may be in ``("gpu-4.1", "nic-#.#")``, ``("gpu-#.#", "nic-4.1")`` or
    ``("gpu-4.#", "nic-4.#")``.
    """
    start, _, end = link.partition("->")
    if not end:
        return [(link, "")]
    found = [(start, _kind(end)), (_kind(start), end)]
    within = [re.sub(r"\d+(?=\D*$)", "#", name) for name in (start, end)]
    if all(re.search(r"\d", name) for name in within):  # such as all of one server
        found.append((within[0], within[1]))
    return found


def _kind(node: str) -> str:
    """The name of a node without its numbers."""
    return re.sub(r"\d+", "#", node)


def _common(names: Sequence[str]) -> str:
    """Name links of one kind together, with stars for numbers that differ: ``"gpu-0.*->nic-0"``."""
    parts = zip(*(re.split(r"(\d+)", name) for name in names), strict=True)
    return "".join(each[0] if len(set(each)) == 1 else "*" for each in parts)


# --- strips --------------------------------------------------------------------------------


def _new_strips(rows: Sequence[_StripRow], strips: int) -> list[Axes]:
    """Make axes on a new figure, which is wider for long names."""
    height_in = max(_ROW_IN * len(rows), _LEAST_IN)
    names_in = _LETTER_IN * max(len(row.name) for row in rows)
    figure = new_figure(0.75 + (height_in + 0.08) * strips,
                        max(WIDTH_IN, _STRIP_IN + names_in + _SHARE_IN))
    return list(figure.subplots(strips, sharex=True, squeeze=False)[:, 0])


def _draw_strip(ax: Axes, strip: Floats, edges: Floats) -> None:
    """Draw the utilisations of rows over time as an image."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("utilisation", [*_SHADES.values()])
    ax.imshow(strip, aspect="auto", cmap=colours, vmin=0, vmax=1, interpolation="nearest",
              extent=(edges[0], edges[-1], len(strip) - 0.5, -0.5))
    ax.tick_params(labelsize=7.5, labelcolor=INK, color=GREY)
    ax.tick_params(axis="y", length=0, labelsize=6.5)
    for spine in ax.spines.values():
        spine.set_color(GREY)


def _draw_failures(ax: Axes, rows: Sequence[_StripRow],
                   failed: Mapping[str, Sequence[tuple[float, float]]], span: float) -> None:
    """Hatch the time for which the links of a row, which fail together, had failed."""
    spells = [(begin, end, place - 0.5, place + 0.5, "failed") for place, row in enumerate(rows)
              for begin, end in failed.get(row.links[0], ())]
    spans = pd.DataFrame(spells, columns=["begin", "end", "low", "high", "kind"])
    draw_spans(ax, spans, {"failed": _FAILED}, span)


def _over_time(loads: pd.DataFrame, rows: Sequence[_StripRow], edges: Floats) -> Floats:
    """Compute the mean utilisation of the busiest link of each row in each interval.

    The result has shape (rows, intervals).
    """
    found = np.zeros((len(rows), len(edges) - 1))
    for strip, row in zip(found, rows, strict=True):
        for first in range(0, len(row.links), _AT_A_TIME):
            number = {link: k for k, link in enumerate(row.links[first:first + _AT_A_TIME])}
            own = loads[loads["link"].isin(number)]
            means = time_within(own["start_s"], own["end_s"], edges,
                                own["link"].map(number).to_numpy(np.int64), len(number),
                                own["load"].to_numpy())
            np.maximum(strip, means.max(axis=0) / np.diff(edges), out=strip)
    return found


def _write_shares(ax: Axes, full: pd.Series, rows: Sequence[_StripRow]) -> None:
    """Write the share of time for which each row was full beside it, or the range of its links."""
    for place in map(int, ax.get_yticks()):  # the rows whose names have room
        shares = full[rows[place].links]
        low, high = (_percent(share) for share in (shares.min(), shares.max()))
        write_beside(ax, place, f"{high} %" if low == high else f"{low} to {high} %")
    head_beside(ax, "full")


def _percent(share: float) -> str:
    """Round to whole per cent, but neither down to 0 nor up to 100."""
    return f"{min(max(round(100 * share), 1), 99 if share < 1 - _WHOLE else 100) if share else 0}"
