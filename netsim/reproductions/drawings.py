"""Figures of the ledger, drawn from tables of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.analysis.intervals import means_of
from netsim.plots.sweeps import METRICS
from netsim.reproductions.claims import words
from netsim.reproductions.reproduction import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "curve", "distributions", "lines"]

#: A column of a lower bound, which is drawn as a further policy, and its name there.
_BOUND, _CALLED = "lower_bound_total_s", "lower bound"


def lines(table: pd.DataFrame, columns: Sequence[str], metric: str | list[str], x: str,
          called: Mapping[str, str] | None = None, **roles: Any) -> Axes:
    """Draw means against a setting: a line per policy, and of total JCTs one of the lower bound.

    Parameters
    ----------
    table : DataFrame
        A row per run.
    columns : sequence of str
        The varied settings.
    metric : str or list of str
        Several metrics have a panel each, of seconds.
    x : str
        The setting.
    called : mapping of str to str, optional
        Names of policies in the figure, which has no others.
    **roles
        Further roles, as of `netsim.plots.facets.line_facets`.
    """
    from netsim.plots.facets import line_facets

    table = _named(table, called)
    if isinstance(metric, str):
        return line_facets(_means(table, columns, metric), metric, x=x, **roles)
    parts = {METRICS.get(each, each): _means(table, columns, each).rename(columns={
        f"{each}{end}": f"time_s{end}" for end in ("", "_low", "_high")}) for each in metric}
    both = pd.concat(parts, names=["of"]).reset_index("of")
    return line_facets(both, "time_s", x=x, col="of", among={"of": parts}, **roles)


def bars(table: pd.DataFrame, columns: Sequence[str], metric: str | list[str],
         by: str | None = None, called: Mapping[str, str] | None = None, **roles: Any) -> Axes:
    """Draw means as a bar per policy, or per value of a column; several metrics have panels."""
    from netsim.plots.facets import bar_facets

    table, named = _named(table, called), [by] if by else columns
    if isinstance(metric, str):
        return bar_facets(_means(table, named, metric), metric, **roles)
    return panels({METRICS.get(each, each): each for each in metric}, lambda each, ax: bar_facets(
        _means(table, named, each), each, ax=ax, **roles))


def _named(table: pd.DataFrame, called: Mapping[str, str] | None) -> pd.DataFrame:
    """Keep the policies that have a name in the figure, under it."""
    if not called:
        return table
    [policy] = [name for name in table if table[name].isin(list(called)).any()]
    return table[table[policy].isin(list(called))].replace({policy: dict(called)})


def _means(table: pd.DataFrame, columns: Sequence[str], metric: str) -> pd.DataFrame:
    """Return means; of total JCTs, with those of the lower bound, which is the same for all."""
    if metric == "jct_total_s" and _BOUND in table and "allocator" in columns:
        least = table[table["allocator"] == table["allocator"].iloc[0]]
        table = pd.concat([table, least.assign(allocator=_CALLED, jct_total_s=least[_BOUND])])
    return means_of(table, columns, [metric])


def curve(table: pd.DataFrame, columns: Sequence[str], x: str, metric: str) -> Axes:
    """Draw a metric against a column, both as they are."""
    from netsim.plots.style import dress, looks, name_axes, new_axes

    ax, shown = new_axes(2.1), table[table[x] < 1e15]  # a last row may stand for infinity
    ax.plot(shown[x], shown[metric], **looks([metric])[metric].line())
    if shown[x].max() > 1e3:
        ax.set_xscale("symlog", linthresh=float(shown[x][shown[x] > 0].min()))
    dress(ax, "both")
    name_axes(ax, x.replace("_", " "), metric.replace("_", " "))
    return ax


def distributions(table: pd.DataFrame, columns: Sequence[str], col: str) -> Axes:
    """Draw distributions of JCTs, from kept quantiles; a panel per value of a setting."""
    from netsim.plots.style import (
        INK,
        dress,
        log_seconds,
        looks,
        name_axes,
        new_figure,
        short,
    )

    shares = {int(name[5:-2]) / 100: name for name in map(str, table)
              if name.startswith("jct_q") and name[5:-2].isdecimal()}
    values = list(dict.fromkeys(table[col]))
    axes = new_figure(2.6, 2.4 * len(values)).subplots(
        1, len(values), sharex=True, sharey=True, squeeze=False)[0]
    for ax, value in zip(axes, values, strict=True):
        part = table[table[col] == value]
        for label, look in looks(dict.fromkeys(part["allocator"])).items():
            own = part[part["allocator"] == label]
            times = [float(np.exp(np.log(own[shares[share]]).mean())) for share in sorted(shares)]
            ax.plot(times, sorted(shares), label=short(label), **look.line() | {"marker": ""})
        ax.set(ylim=(0, 1), xscale="log")
        ax.set_title(words(value), fontsize=7.5, color=INK, loc="left", pad=4)
        dress(ax, "both")
        name_axes(ax, "JCT", "share of jobs" if ax is axes[0] else None)
    log_seconds(axes[0].xaxis)  # of what all panels show
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False,
                          fontsize=6.5)
    first: Axes = axes[0]
    return first
