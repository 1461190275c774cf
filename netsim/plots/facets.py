"""Figures of sweeps: a panel for each value of one or two settings; they need ``plot``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from netsim.base.arrays import Floats
from netsim.base.units import format_count
from netsim.errors import InputError
from netsim.plots.bars import bars_of, draw_bars
from netsim.plots.curves import cdf_curves
from netsim.plots.means import (
    draw_series,
    interval_note,
    known_means,
    long_form,
    name_values,
    set_y,
)
from netsim.plots.style import (
    INK,
    WIDTH_IN,
    Look,
    add_legend,
    add_note,
    add_note_to,
    colour_bar,
    dashes,
    dress,
    legend_above,
    log_seconds,
    looks,
    name_axes,
    new_figure,
    on_lines,
    require_matplotlib,
    short,
    tag,
    uncover,
)
from netsim.plots.varied import (
    ROLES,
    WIDE,
    drawn_together,
    is_range_of,
    labels_of,
    numbers_among,
    placed,
    roles_of,
    set_x,
    titled,
    words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.studies.sweep_result import Sweep

#: Most panels that a figure can have; most side by side if they are wrapped.
_MOST, _ABREAST = 36, 3

#: Width and height of a panel that is not alone, and the room around them, in inches.
_PANEL_IN, _MARGIN_IN = (2.1, 1.7), (0.5, 0.75)

_ASIDE = 0.03  # room beside curves, as a share of the length of a logarithmic axis
_BAR_IN = 0.15  # height of a bar
_TITLE = 30  # most letters of a line of a title
_BETWEEN = 1.03  # middle of two panels, from the first one, whose length is 1

#: Least width and height of axes, and the height of a line of the note.
_LEAST_IN, _NOTE_IN = (1.5, 1.2), 0.12

#: The roles that each kind of figure has, in the order in which they are filled.
_LINES, _PANELS = ("x", "hue", "col", "row", "style"), ("hue", "col", "row")
_DOTS, _GRID = ("x", "y", "col", "row"), ("col", "row")

_SERIES = ("hue", "style")  # roles that tell lines of a panel apart

#: How a role distinguishes values, in words for messages.
_CALLED = {"hue": "colour", "style": "kind of dashes", "col": "panel", "row": "panel"}


class _Panel(NamedTuple):
    """A panel: its place, the texts above and beside it, and the rows of the table it shows."""

    row: int
    column: int
    title: str
    beside: str
    rows: pd.DataFrame


def line_facets(means: pd.DataFrame, y: str = "over_lower_bound", *,
                among: Mapping[str, Iterable[Any]] | None = None, ax: Axes | None = None,
                scale: str | None = None, **given: str | None) -> Axes:
    """Draw a metric against a setting: lines by colour and dashes, panels by columns and rows.

    All panels have the same axes. Whiskers, or bands along lines of many points, are the intervals
    of the table, if it has them.

    Parameters
    ----------
    means : DataFrame
        A table of means, as `netsim.Sweep.means` returns it.
    y : str
        The metric.
    among : mapping of str to iterable, optional
        All values of each setting, so that each keeps its colour if only some are drawn.
    ax : Axes, optional
        Axes of one panel to draw on, which then has no columns and rows; by default those of a
        new figure, whose single panel is one paper column wide. The note on whiskers is then the
        last of the axes' ``texts``, under their x label. If several axes of a figure have the same
        note, it stands once, under the axes that were drawn last.
    scale : {"linear", "log", "categories"}, optional
        Scale of the x axis. By default, numbers and quantities such as ``"10Gbps"`` are on a
        linear axis if they differ by less than a factor of 10, and on a logarithmic one if by
        more. Anything else, and numbers of a wide range that include 0, are categories.
    **given : str
        Settings by role: ``x``, ``hue`` (colours), ``style`` (dashes), ``col`` and ``row``
        (panels). Roles that are not given are filled: x is the setting with the most numbers or,
        without numbers, the most values; the hue is the policy; and what else was varied takes
        col, row and style, in this order.

    Returns
    -------
    Axes
        The first panel; its ``figure`` has all.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If there is no such key, metric or scale.
    InputError
        If there is nothing to draw, a role does not exist or is given twice, more was varied than
        there are roles, there are too many panels, or `x` has values that do not fit the scale.
    """
    require_matplotlib(ax)
    shown = _of_means(means, y, _LINES, given, among, ax)
    present = set(shown.table["x"])
    axis = placed([value for value in shown.values["x"] if value in present], shown.keys["x"],
                  scale)
    panels, styled = shown.panels(), shown.looks()
    figure = _Figure.of(panels, 2.1 + 0.14 * (len(styled) // 2), ax)
    names = shown.names()
    for each, panel in zip(figure.axes, panels, strict=True):
        own: dict[Any, Any] = dict(list(panel.rows.groupby("line", sort=False)))
        lines = [line for line in styled if line in own]
        drawn = draw_series(each, axis, [
            (short(own[line]["label"].iloc[0]), styled[line], own[line]) for line in lines])
        for (hue, _), artists in zip(lines, drawn, strict=True):
            if "hue" in shown.keys:
                tag(names[hue], *artists)
    for each in figure.axes:  # after all lines were drawn, as panels share their axes
        set_x(each, axis)
        set_y(each, shown.table, y)
        name_axes(each, axis.name)
        uncover(each)
    figure.name_axes()
    figure.add_legend(shown.legend())
    return figure.finish(interval_note(shown.table, y, most_points=len(axis.places)))


def bar_facets(means: pd.DataFrame, y: str = "over_lower_bound", *,
               among: Mapping[str, Iterable[Any]] | None = None, ax: Axes | None = None,
               **given: str | None) -> Axes:
    """Draw a metric as a bar per policy, in a panel for each value of what else was varied.

    Parameters and errors are those of `line_facets`; roles are ``hue``, ``col`` and ``row``.
    """
    require_matplotlib(ax)
    shown = _of_means(means, y, _PANELS, given, among, ax)
    panels, names = shown.panels(), shown.names().values()
    bars = [bars_of(panel.rows) for panel in panels]
    if len(panels) == 1:
        figure = _Figure(panels, [draw_bars({"": bars[0]}, y, ax, among=names)], own=ax is None)
    else:
        # Rows of panels stand beside the same names if all have the same ones.
        same = len({tuple(each["scheme"]) for each in bars}) == 1
        figure = _Figure.of(panels, 0.0, share_y=same,
                            height_in=0.45 + _BAR_IN * (1.4 * max(map(len, bars)) + 1))
        for each, own in zip(figure.axes, bars, strict=True):
            draw_bars({"": own}, y, each, among=names, beside=bars)
        figure.name_axes(outer_y=same)
        figure.join_legends()
    return figure.finish(interval_note(shown.table, y))


def scatter_facets(means: pd.DataFrame, metric: str = "over_lower_bound", *,
                   among: Mapping[str, Iterable[Any]] | None = None, ax: Axes | None = None,
                   **given: str | None) -> Axes:
    """Draw a metric as the colour of a dot at the values of two settings, a panel per policy.

    This plot is for points drawn from two ranges. Further settings drawn together with these two
    need no role. Parameters and errors are those of `line_facets`; roles are ``x``, ``y``, ``col``
    and ``row``.
    """
    require_matplotlib(ax)
    from matplotlib.colors import LogNorm, Normalize

    keys, known = known_means(means, metric)
    drawn = drawn_together(known, keys)
    placed_keys = {given.get(role) for role in ("x", "y")} & {*drawn}
    spare = [key for key in drawn if key not in given.values()][2 - len(placed_keys):]
    roles = roles_of(_counts(known, [key for key in keys if key not in spare]),
                     _of_panels(_DOTS, given, ax), given)
    shown = _Shown.of(known, roles, among, metric)
    across, up = (placed(list(dict.fromkeys(shown.table[role])), roles[role], None)
                  for role in ("x", "y"))
    panels = shown.panels()
    figure = _Figure.of(panels, 2.6, ax)
    low, high = shown.table["value"].min(), shown.table["value"].max()
    shades = (LogNorm if low > 0 and high >= WIDE * low else Normalize)(low, high)
    for each, panel in zip(figure.axes, panels, strict=True):
        dots = each.scatter(panel.rows["x"].map(across.places).to_numpy(float),
                            panel.rows["y"].map(up.places).to_numpy(float),
                            c=panel.rows["value"].to_numpy(), s=16, cmap="viridis",
                            norm=shades, edgecolors=INK, linewidths=0.3)
        each.set(xscale=across.matplotlib_scale, yscale=up.matplotlib_scale)
    for each in figure.axes:
        dress(each, "both")
        set_x(each, across)
        set_x(each, up, upright=True)
        name_axes(each, across.name, up.name)
    figure.name_axes()
    name_values(colour_bar(dots, figure.axes, fraction=0.05, pad=0.02).ax.yaxis, metric)
    others = f"; {', '.join(map(words, spare))} drawn too" if spare else ""
    without = shown.table.assign(low=np.nan)  # dots have no whiskers
    return figure.finish(interval_note(without, metric) + others)


def cdf_facets(sweep: Sweep, of: str = "jct", *, ax: Axes | None = None, **given: str | None
               ) -> Axes:
    """Draw distributions over all seeds as a curve per policy, in panels by what else was varied.

    Roles and errors are those of `bar_facets`.

    Parameters
    ----------
    sweep : Sweep
    of : {"jct", "cct"}
        Completion times of jobs, or of coflows.
    ax : Axes, optional
        As for `line_facets`.
    **given : str
        Settings by role.
    """
    require_matplotlib(ax)
    table = sweep.table
    shown = _Shown.of(table, _roles(table, sweep.columns, _PANELS, given, ax), sweep.grid)
    panels = shown.panels()
    hue = [shown.keys["hue"]] if "hue" in shown.keys else []
    pools = [replace(sweep, table=table.iloc[panel.rows.index]).pooled(f"{of}_s", by=hue)
             for panel in panels]
    spans = _spans([[*pool.values()] for pool in pools])
    apart = len(set(spans)) > 1
    figure = _Figure.of(panels, 2.3, ax, share_x=not apart)
    for each, pool, (low, high) in zip(figure.axes, pools, spans, strict=True):
        cdf_curves(pool, of, each, among=shown.names().values() if hue else ())
        each.set_xlim(low, high, auto=None)
        log_seconds(each.xaxis)
    figure.name_axes()
    for each in figure.axes if apart else ():
        each.tick_params(labelbottom=True)
    if len(panels) > 1:
        figure.join_legends()
    seeds = format_count(table["seed"].nunique(), "seed")
    return figure.finish(f"all {'jobs' if of == 'jct' else 'coflows'} of {seeds}"
                         + "; axes differ" * apart)


def _spans(pools: Sequence[Sequence[Floats]]) -> list[tuple[float, float]]:
    """Choose the limits of the logarithmic axis of each panel, given the times that it shows.

    All have the same unless this leaves half of a panel empty.
    """
    shown = [np.concatenate([np.zeros(0), *pool]) for pool in pools]
    ends = [(float(times.min()), float(times.max())) if len(times) else (1.0, 1.0)
            for times in (times[times > 0] for times in shown)]
    whole = min(low for low, _ in ends), max(high for _, high in ends)
    if all((high / low) ** 2 >= whole[1] / whole[0] for low, high in ends):
        ends = [whole] * len(ends)
    return [(low / (high / low) ** _ASIDE, high * (high / low) ** _ASIDE) for low, high in ends]


# --- what is shown -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a figure shows: a table in long form, and the settings that its columns stand for."""

    #: A row per mean, or per run: a column per role, empty if no setting has it; ``line``, the
    #: values of hue and style; ``label``, these in words; and of means ``runs`` and their values.
    table: pd.DataFrame
    keys: Mapping[str, str]  #: by role
    values: Mapping[str, list[Any]]  #: by role: those of the whole sweep, if known, in their order

    @classmethod
    def of(cls, rows: pd.DataFrame, keys: Mapping[str, str],
           among: Mapping[str, Iterable[Any]] | None, metric: str = "") -> _Shown:
        """Put rows of runs, or of a means table with a metric, into long form."""
        rows = rows.reset_index(drop=True)
        columns: dict[str, Any] = dict.fromkeys(ROLES, "")
        columns |= {role: rows[key] for role, key in keys.items()}
        columns["label"] = labels_of(rows, [keys[role] for role in _SERIES if role in keys])
        table = (long_form(rows, metric, runs=rows["runs"], **columns) if metric
                 else pd.DataFrame(columns, rows.index))
        values = {role: list(dict.fromkeys([*(among or {}).get(keys.get(role, ""), ()),
                                            *table[role]])) for role in ROLES}
        lines: Any = list(zip(table["hue"], table["style"], strict=True))
        return cls(table.assign(line=lines), keys, values)

    def names(self) -> dict[Any, str]:
        """Label each value of the hue."""
        key, values = self.keys.get("hue", ""), self.values["hue"]
        return dict(zip(values, labels_of(pd.DataFrame({key: values}), [key]), strict=True))

    def looks(self) -> dict[tuple[Any, Any], Look]:
        """Choose the look of each ``line``: a colour per hue, and dashes per style."""
        names, styles = self.names(), self.values["style"]
        of_hue = looks(names.values())
        return {(hue, style): of_hue[name]._replace(dashes=dashes(index))
                if "style" in self.keys else of_hue[name]
                for hue, name in names.items() for index, style in enumerate(styles)}

    def legend(self) -> list[Any]:
        """Make the entries of a legend: colours of what is drawn, and dashes if they are used."""
        from matplotlib.lines import Line2D

        drawn = set(self.table["line"])
        first: dict[Any, Look] = {}  # by hue
        for line, look in self.looks().items():
            if line in drawn:
                first.setdefault(line[0], look)
        entries = [(titled(self.keys["hue"], hue), look.line())
                   for hue, look in first.items() if "hue" in self.keys]
        entries += [(titled(self.keys["style"], style),
                     {"color": INK, "linewidth": 1.1, "linestyle": dashes(index)})
                    for index, style in enumerate(self.values["style"]) if "style" in self.keys]
        return [Line2D([], [], label=short(name), **look) for name, look in entries]

    def panels(self) -> list[_Panel]:
        """List the panels with something to show, wrapped if only columns are varied."""
        across, down = ([value for value in self.values[role] if value in set(self.table[role])]
                        for role in _GRID)
        if len(across) * len(down) > _MOST:
            raise InputError(f"{len(across) * len(down)} panels cannot be read, {_MOST} at most: "
                             "choose runs with Sweep.where, or another col or row")
        abreast = len(across) if "row" in self.keys or len(across) <= _ABREAST else (
            2 if len(across) == 4 else _ABREAST)
        found = []
        for row, beside in enumerate(down):
            for index, title in enumerate(across):
                rows = self.table[(self.table["col"] == title) & (self.table["row"] == beside)]
                if len(rows):
                    found.append(_Panel(
                        row + index // abreast, index % abreast,
                        titled(self.keys.get("col", ""), title) if row == 0 else "",
                        titled(self.keys.get("row", ""), beside) if index == len(across) - 1
                        else "", rows))
        return found


def _of_means(means: pd.DataFrame, metric: str, roles: Sequence[str],
              given: Mapping[str, str | None], among: Mapping[str, Iterable[Any]] | None,
              ax: Axes | None) -> _Shown:
    """Give each setting of a means table a role, and put the known means into long form."""
    keys, known = known_means(means, metric)
    return _Shown.of(known, _roles(known, keys, roles, given, ax), among, metric)


# --- roles ---------------------------------------------------------------------------------


def _counts(table: pd.DataFrame, keys: Sequence[str]) -> dict[str, int]:
    """The number of values of each key."""
    return {key: table[key].nunique(dropna=False) for key in keys}


def _of_panels(roles: Sequence[str], given: Mapping[str, str | None], ax: Axes | None) -> list[str]:
    """Drop the roles that need several panels if axes are given; none may have been chosen."""
    if ax is None:
        return list(roles)
    if panels := [role for role in _GRID if given.get(role)]:
        raise InputError(f"{' and '.join(panels)} would need several panels, and ax is one: choose "
                         "the runs of each with Sweep.where, and draw them on their own axes")
    return [role for role in roles if role not in _GRID]


def _roles(table: pd.DataFrame, keys: Sequence[str], roles: Sequence[str],
           given: Mapping[str, str | None], ax: Axes | None) -> dict[str, str]:
    """Give each setting a role; refuse a panel, a colour or dashes for each point of a range."""
    free = [key for key in numbers_among(table, keys) if key not in given.values()]
    if "x" in roles and not given.get("x") and free:
        given = {**given, "x": free[0]}  # names cannot be joined by lines
    chosen = roles_of(_counts(table, keys), _of_panels(roles, given, ax), given)
    points = drawn_together(table, keys)
    for role, key in chosen.items():
        if role != "x" and key in points and given.get(role) != key:
            raise InputError(f"{' and '.join(points)} were drawn together, and {key} has "
                             f"{table[key].nunique()} values, too many for a {_CALLED[role]} each: "
                             "draw the plot 'scatter', which has both as axes")
        if "x" not in roles and key not in given.values() and is_range_of(table[key]):
            raise InputError(f"{key} has {table[key].nunique()} values, too many for a "
                             f"{_CALLED[role]} each: draw the plot 'sweep', which has them along x")
    return chosen


# --- the figure ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure with axes for each panel, or the axes of a user for the only one."""

    panels: Sequence[_Panel]
    axes: Sequence[Axes]
    own: bool  #: whether netsim has made the figure

    @classmethod
    def of(cls, panels: Sequence[_Panel], alone_in: float, ax: Axes | None = None, *,
           share_x: bool = True, share_y: bool = True, height_in: float = _PANEL_IN[1]) -> _Figure:
        """Make a figure; one panel fills a column of a paper, and is of the height `alone_in`."""
        if ax is not None:
            return cls(panels, [ax], own=False)
        rows = 1 + max(panel.row for panel in panels)
        columns = 1 + max(panel.column for panel in panels)
        if len(panels) == 1:
            figure = new_figure(alone_in)
        else:
            figure = new_figure(_MARGIN_IN[1] + height_in * rows,
                                max(WIDTH_IN, _MARGIN_IN[0] + _PANEL_IN[0] * columns))
        grid: Any = figure.subplots(rows, columns, sharex=share_x, sharey=share_y, squeeze=False)
        used = {(panel.row, panel.column) for panel in panels}
        for place in np.ndindex(rows, columns):
            if place not in used:
                grid[place].remove()
        return cls(panels, [grid[panel.row, panel.column] for panel in panels], own=True)

    def name_axes(self, *, outer_y: bool = True) -> None:
        """Write titles of columns and rows, and name axes once, at the left and at the foot."""
        if not self.own:
            return
        for ax, panel in zip(self.axes, self.panels, strict=True):
            if panel.title:
                ax.set_title(_title(panel.title), fontsize=7.5, color=INK, loc="left", pad=4)
            if panel.beside:
                ax.annotate(_title(panel.beside), (1.03, 0.5), fontsize=7.5, color=INK,
                            xycoords="axes fraction", rotation=270, va="center",
                            annotation_clip=False)
            below = [other.row for other in self.panels if other.column == panel.column]
            ax.tick_params(labelbottom=panel.row == max(below))
            if outer_y:
                ax.tick_params(labelleft=not panel.column)
        rows, columns = ([panel.row for panel in self.panels],
                         [panel.column for panel in self.panels])
        _name_once(self.axes, columns, rows)
        if outer_y:
            _name_once(self.axes, [-row for row in rows], [-column for column in columns],
                       upright=True)
        self.axes[0].figure.canvas.figure.align_labels()

    def add_legend(self, entries: Sequence[Any]) -> None:
        """Place a legend above all panels."""
        if len(self.axes) == 1:
            add_legend(self.axes[0], entries)
        else:
            legend_above(self.axes[0].figure.canvas.figure, entries)

    def join_legends(self) -> None:
        """Replace the legends of panels by one, with each entry once."""
        entries: dict[Any, Any] = {}
        for ax in self.axes:
            if (legend := ax.get_legend()) is not None:
                entries |= {handle.get_label(): handle for handle in legend.legend_handles
                            if handle is not None}
                legend.remove()
        if entries:
            self.add_legend([*entries.values()])

    def finish(self, note: str) -> Axes:
        """Write a note under the figure, and make room for all texts; return the first axes."""
        if not self.own:
            add_note_to(self.axes[0], note)
            return self.axes[0]
        add_note(self.axes[0].figure.canvas.figure, note)
        self._make_room()
        return self.axes[0]

    def _make_room(self) -> None:
        """Enlarge a figure whose titles, labels and legend leave too little for the axes."""
        figure = self.axes[0].figure.canvas.figure
        # Names of axes may reach beyond their panel, as all panels share them.
        boxes = [(ax.bbox, ax.get_tightbbox(for_layout_only=True)) for ax in self.axes]

        def needed_in(side: str, places: Sequence[int], least_in: float) -> float:
            outside = pd.DataFrame({  # of the axes of a row or column, on both sides
                "before": [getattr(own, f"{side}0") - getattr(whole, f"{side}0")
                           for own, whole in boxes],
                "after": [getattr(whole, f"{side}1") - getattr(own, f"{side}1")
                          for own, whole in boxes]})
            around = outside.groupby(np.array(places)).max()
            return float(around.to_numpy().sum()) / figure.dpi + least_in * len(around)

        lines = figure.get_supxlabel().count("\n") + 1
        above = sum(legend.get_window_extent().height for legend in figure.legends) / figure.dpi
        rows, columns = ([panel.row for panel in self.panels],
                         [panel.column for panel in self.panels])
        named = max(ax.yaxis.label.get_window_extent().height for ax in self.axes) / figure.dpi
        width_in = needed_in("x", columns, _LEAST_IN[0])
        height_in = above + _NOTE_IN * lines + needed_in(
            "y", rows, max(_LEAST_IN[1], named / len(set(rows))))
        figure.set_size_inches(max(figure.get_figwidth(), width_in),
                               max(figure.get_figheight(), height_in))


def _name_once(axes: Sequence[Axes], along: Sequence[int], across: Sequence[int], *,
               upright: bool = False) -> None:
    """Keep one of the names of an axis that panels share, in the middle of all.

    `along` and `across` are the place of each panel in the direction of the axis, and across it.
    The name stays at the last place across.
    """
    places = sorted(set(along))
    middle = places[(len(places) - 1) // 2]
    last = max(each for each, place in zip(across, along, strict=True) if place == middle)
    for ax, place, each in zip(axes, along, across, strict=True):
        label = (ax.yaxis if upright else ax.xaxis).label
        if (place, each) != (middle, last):
            label.set_text("")
        elif len(axes) > 1:
            spot = 0.5 if len(places) % 2 else _BETWEEN
            label.set(**{"y" if upright else "x": spot}, horizontalalignment="center")


def _title(text: str) -> str:
    return on_lines(short(text).replace("\n", " "), _TITLE)
