"""Figures of the ledger, drawn from tables of runs, and these tables in pages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.analysis.intervals import means_of
from netsim.base.files import read_text, write_text
from netsim.errors import InputError
from netsim.plots.facets import bar_facets, line_facets
from netsim.plots.means import METRICS
from netsim.plots.style import (
    INK,
    Look,
    dress,
    log_seconds,
    looks,
    name_axes,
    new_axes,
    new_figure,
    short,
)
from netsim.reproductions.claims import words
from netsim.reproductions.reproduction import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A column of a lower bound, which is drawn as a further policy, and its name there.
_BOUND, _CALLED = "lower_bound_total_s", "lower bound"

#: Suffix of the name of a policy whose runs stand for a number of the paper.
IN_PAPER = ", paper"

#: Metrics over those under SRTF.
_RATES = {"jct_rate": "jct_total_s", "communication_rate": "communication_s"}


def lines(table: pd.DataFrame, columns: Sequence[str], metric: str | list[str], x: str,
          called: Mapping[str, str] | None = None, log: bool = False, **roles: Any) -> Axes:
    """Draw means against a setting: a line per policy and, for total JCTs, one for the lower bound.

    Several metrics, which must be times, have a panel each. `called` has the names of policies and
    of other values in the figure, which shows no others. With `log`, the axis of a single metric, a
    time, is logarithmic. Further roles are as for `netsim.plots.facets.line_facets`.
    """
    if isinstance(metric, str):
        drawn = line_facets(_means(table, columns, metric, called), metric, x=x, **roles)
        if log:
            drawn.set(yscale="log", ylabel=METRICS.get(metric, metric))
            drawn.autoscale(axis="y")  # without 0
            log_seconds(drawn.yaxis)
        return drawn
    parts = {METRICS.get(each, each): _means(table, columns, each, called).rename(columns={
        f"{each}{end}": f"time_s{end}" for end in ("", "_low", "_high")}) for each in metric}
    both = pd.concat(parts, names=["of"]).reset_index("of")
    return line_facets(both, "time_s", x=x, col="of", among={"of": parts}, **roles)


def several(table: pd.DataFrame, columns: Sequence[str], metrics: Mapping[str, str], x: str,
            called: Mapping[str, str] | None = None) -> Axes:
    """Draw means against a setting in a panel per metric, each with its own axis."""
    return panels(metrics, lambda metric, ax: line_facets(
        _means(table, columns, metric, called), metric, x=x, ax=ax))


def bars(table: pd.DataFrame, columns: Sequence[str], metric: str | list[str],
         by: str | None = None, called: Mapping[str, str] | None = None, **roles: Any) -> Axes:
    """Draw means as a bar per policy, or per value of a column; several metrics have panels."""
    named = [by, *roles.values()] if by else columns
    if isinstance(metric, str):
        return bar_facets(_means(table, named, metric, called), metric, **roles)
    return panels({METRICS.get(each, each): each for each in metric}, lambda each, ax: bar_facets(
        _means(table, named, each, called), each, ax=ax, **roles))


def _means(table: pd.DataFrame, columns: Sequence[str], metric: str,
           called: Mapping[str, str] | None) -> pd.DataFrame:
    """Average a metric; total JCTs with those of the lower bound, which is the same for all."""
    if metric == "jct_total_s" and _BOUND in table and "allocator" in columns:
        least = table[table["allocator"] == table["allocator"].iloc[0]]
        table = pd.concat([table, least.assign(allocator=_CALLED, jct_total_s=least[_BOUND])])
    if metric in _RATES:
        table = _over_srtf(table, columns, metric)
    return means_of(_named(table, called), columns, [metric])


def _over_srtf(table: pd.DataFrame, columns: Sequence[str], rate: str) -> pd.DataFrame:
    """Add a metric over that under SRTF at the same place, to the runs under other policies."""
    same = [*(name for name in columns if name != "scheduler"), "seed"]
    srtf = table[table["scheduler"] == "srtf"].set_index(same)[_RATES[rate]]
    others = table[table["scheduler"] != "srtf"]
    place = pd.MultiIndex.from_frame(others[same])
    return others.assign(**{rate: others[_RATES[rate]].to_numpy() / srtf.reindex(place).to_numpy()})


def _named(table: pd.DataFrame, called: Mapping[str, str] | None) -> pd.DataFrame:
    """Keep the policies, and other values, that have a name in the figure, under it."""
    names = dict(called or {})
    for column in [name for name in map(str, table) if table[name].isin(list(names)).any()]:
        parts = table[column].astype(str).str.partition(IN_PAPER)
        of_paper = parts[1] + parts[2]
        table = table.assign(**{column: parts[0].map(names) + of_paper})[parts[0].isin(list(names))]
    return table


def curve(table: pd.DataFrame, columns: Sequence[str], x: str, metric: str) -> Axes:
    """Draw a metric of single runs against a column."""
    ax, shown = new_axes(2.1), table[table[x] < 1e15]  # a last row may stand for infinity
    ax.plot(shown[x], shown[metric], **looks([metric])[metric].line())
    if shown[x].max() > 1e3:
        ax.set_xscale("symlog", linthresh=float(shown[x][shown[x] > 0].min()))
    dress(ax, "both")
    name_axes(ax, x.replace("_", " "), metric.replace("_", " "))
    return ax


def _mark(ax: Axes, own: pd.DataFrame, label: str, look: Look) -> None:
    """Mark shares of jobs below a time that the paper reports."""
    below = {float(name[6:-1]): own[name].mean() for name in map(str, own)
             if name.startswith("below_") and own[name].notna().any()}
    ax.plot(list(below), list(below.values()), label=label,
            **look.line() | {"linestyle": "", "marker": "x"})


def distributions(table: pd.DataFrame, columns: Sequence[str], col: str) -> Axes:
    """Draw distributions of JCTs, from kept quantiles; a panel per value of a setting."""
    shares = {int(name[5:-2]) / 100: name for name in map(str, table)
              if name.startswith("jct_q") and name[5:-2].isdecimal()}
    values = list(dict.fromkeys(table[col]))
    axes = new_figure(2.6, 2.4 * len(values)).subplots(
        1, len(values), sharex=True, sharey=True, squeeze=False)[0]
    for ax, value in zip(axes, values, strict=True):
        part = table[table[col] == value]
        for label, look in looks(dict.fromkeys(part["allocator"])).items():
            own = part[part["allocator"] == label]
            if IN_PAPER in label:
                _mark(ax, own, label, look)
                continue
            times = [float(np.exp(np.log(own[shares[share]]).mean())) for share in sorted(shares)]
            ax.plot(times, sorted(shares), label=short(label), **look.line() | {"marker": ""})
        ax.set(ylim=(0, 1), xscale="log")
        ax.set_title(words(value), fontsize=7.5, color=INK, loc="left", pad=4)
        dress(ax, "both")
        name_axes(ax, "JCT", "share of jobs" if ax is axes[0] else None)
    log_seconds(axes[0].xaxis)  # after all panels, which share the axis, were drawn
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False,
                          fontsize=6.5)
    first: Axes = axes[0]
    return first


# --- tables in pages -----------------------------------------------------------------------

#: Columns of counts. Errors and shares are percentages, other numbers have three digits or more.
_COUNTS = ("points", "flows", "scenarios", "senders", "gbps", "MB", "oversubscription")

_BLOCK = ("<!-- {name} {table}: written by netsim reproduce --page -->\n", "<!-- end -->")


def fill_page(path: str | Path, name: str, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write tables of a reproduction, by name, into a page in Markdown.

    It is an InputError if the page has no place for any of the tables.
    """
    try:
        page = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the page cannot be read: {error}") from error
    done = filled(page, name, tables)
    if done is None:
        first, last = _BLOCK
        raise InputError(
            f"{path}: the page has no place for a table of {name}: two lines such as\n"
            f"{first.format(name=name, table=next(iter(tables)))}{last}\n"
            f"its tables are: {', '.join(tables)}")
    write_text(done, path)


def filled(page: str, name: str, tables: Mapping[str, pd.DataFrame]) -> str | None:
    """Put the tables of a reproduction in their places in the text of a page; None if it has none.

    A place is two lines: ``<!-- mine errors: written by netsim reproduce --page -->`` and ``<!--
    end -->``, for the table ``errors`` of ``mine``.
    """
    found = False
    for table, rows in tables.items():
        first, last = (part.format(name=name, table=table) for part in _BLOCK)
        place = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
        text = f"{first}{markdown(rows)}{last}"
        page, count = place.subn(text.replace("\\", r"\\"), page)
        found |= count > 0
    return page if found else None


def markdown(table: pd.DataFrame) -> str:
    """Write a table in Markdown, with numbers rounded according to the names of their columns."""
    lines = [f"| {' | '.join(map(str, table.columns))} |", "|---" * table.shape[1] + "|"]
    for row in table.itertuples(index=False):
        cells = (_cell(name, value) for name, value in zip(table.columns, row, strict=True))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(column: str, value: object) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    number = float(value)  # type: ignore[arg-type]
    if math.isnan(number):
        return "-"
    if column in _COUNTS:
        return f"{number:,.0f}"
    if "error" in column or "resent" in column:
        return f"{number:.1%}"
    digits = 0 if abs(number) >= 1e3 else 1 if abs(number) >= 10 else 3
    return f"{number:,.{digits}f}" if abs(number) >= 0.01 else f"{number:.4g}"
