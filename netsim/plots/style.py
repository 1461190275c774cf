"""Colours, labels, axes and legends that all plots share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.units import format_bytes, format_seconds
from netsim.errors import InputError, MissingExtraError
from netsim.text import named, visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

#: Colours of Okabe and Ito, which are distinct for every kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

#: Colours of series. The four more are as distinct for colour-blind readers: all CIEDE2000
#: differences are above 10.
SERIES = (*COLOURS, "#332288", "#59251B", "#735062", "#BFBF86")

INK, GREY = "#222222", "#cccccc"

NOTE_INK = "#666666"

WIDTH_IN = 3.5  # width of a column of a two-column paper

_PADS_IN = 0.14  # space beside axes that matplotlib keeps, and text that is wider in pixels

_LEGEND_STYLE: Any = {
    "frameon": False, "fontsize": 7, "labelcolor": INK, "handlelength": 2.2, "borderpad": 0.1,
    "columnspacing": 1.2, "handletextpad": 0.5, "labelspacing": 0.3}

_MARKERS = "os^DvPX<>*ph"

#: Dashes of lines with and without work conservation; a pair per round of the colours.
_DASHES: tuple[tuple[Any, Any], ...] = (
    ("-", (0, (4, 1.5))), ((0, (6, 1.2, 1, 1.2)), (0, (3, 1, 1, 1, 1, 1))),
    ((0, (1, 1)), (0, (1, 2.5))))

_HATCHES = ("", "/////", ".....")

_WITHOUT = "work_conservation=none"

#: Letters from which on labels are broken, and most letters of a line of theirs.
_BREAK, _LINE = 18, 24

#: Ticks of a logarithmic axis of times: in decades up to 10 s, then 1 min, 10 min, 1 h, 10 h, 1 d.
_DECADES = (*(10.0**power for power in range(-9, 2)), 60.0, 600.0, 3600.0, 36000.0,
            *(86400.0 * 10.0**power for power in range(6)))

#: More of them, for short axes, by how many times longer the next decade is; and minor ticks.
_MORE = {10: (2, 5), 6: (2, 3)}
_BETWEEN = [digit * decade for decade, after in pairwise(_DECADES)
            for digit in _MORE.get(round(after / decade), ())]
_MINOR = [digit * decade for decade, after in pairwise(_DECADES)
          for digit in range(2, 10) if digit * decade < after]

#: Dashes by the value of a further parameter; see `looks`.
_STYLES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.2, 1, 1.2)),
                            (0, (3, 1, 1, 1, 1, 1)), (0, (1, 2.5)))

#: Share of a line that must lie within this distance of another one, as a share of the height of
#: the axes, to be hidden by it; and the width that is added to the line for each that hides it.
_HIDDEN, _NEAR, _WIDER = 0.8, 0.008, 1.6

#: Width of a letter of a note, and its style.
_NOTE_LETTER_IN = 0.0505

_NOTE_STYLE: Any = {"fontsize": 6.5, "color": NOTE_INK, "linespacing": 1.15}

#: Units of an axis of times: name, length in seconds, and the time up to which it is used.
_UNITS = (("s", 1.0, 1e5), ("h", 3600.0, 8.64e5), ("d", 86400.0, math.inf))

#: Units of labels that have their own, above seconds.
_LONGER = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))

#: Least ratio of the ends of a logarithmic axis: that of times which differ by rounding is wider.
_LEAST_RATIO = 1.01

_LONG = 1e4  # seconds from which on labels are long enough to need room

#: Height of the name of a row, in inches.
_ROW_NAME_IN = 0.095

#: Space that the label of a tick needs, as a share of an upright axis; how far labels may reach
#: beyond a panel, as a share of its width; and the width of a letter of theirs.
_LABEL, _BEYOND, _TICK_LETTER_IN = 0.1, 0.03, 0.06


def require_matplotlib(ax: object = None) -> None:
    """Check that matplotlib is installed, and that `ax` is None or an Axes."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot")
    if ax is None:
        return
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        many = isinstance(ax, np.ndarray | list | tuple)
        raise InputError(f"ax must be an Axes of matplotlib, not {type(ax).__name__}" + (
            ": give one of its axes, such as ax[0]" if many else
            ": plt.subplots() returns a figure and its axes"))


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """Create an empty figure, which may be made larger for what is drawn; see `may_grow`."""
    from matplotlib.figure import Figure  # not pyplot, which keeps every figure alive

    figure = Figure(figsize=(width_in, height_in), dpi=200, layout="constrained")
    vars(figure)["netsim_made"] = True
    return figure


def may_grow(figure: Figure) -> bool:
    """Whether netsim has made a figure, and so may change its size."""
    return "netsim_made" in vars(figure)


def new_axes(height_in: float, width_in: float = WIDTH_IN) -> Axes:
    """Create axes on a new figure."""
    axes: Axes = new_figure(height_in, width_in).subplots()
    return axes


def axes_on(ax: Axes | None, height_in: float, width_in: float = WIDTH_IN) -> Axes:
    """The given axes or, if there are none, those of a new figure."""
    return new_axes(height_in, width_in) if ax is None else ax


def colour(index: int) -> str:
    """The colour of an entry by its number; colours repeat after the tenth."""
    return SERIES[index % len(SERIES)]


def fill(colour: str, *, light: bool) -> dict[str, Any]:
    """Matplotlib's style of a bar, filled with a colour or with a lighter tone of it."""
    from matplotlib.colors import to_rgb

    # Mixed with white rather than transparent: the grid must not show through.
    tone = tuple(0.75 + 0.25 * part for part in to_rgb(colour))
    return {"facecolor": tone if light else colour, "edgecolor": colour, "linewidth": 0.8}


def dress(ax: Axes, grid: str) -> None:
    """Set ticks and frame, and a light grid along `grid`: "x", "y" or "both"."""
    from matplotlib.ticker import AutoLocator, AutoMinorLocator

    ax.tick_params(labelsize=7.5, labelcolor=INK, color=GREY)
    ax.tick_params(which="minor", length=1.6, width=0.4, color=GREY)
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        axis.get_offset_text().set(fontsize=6.5, color=INK)  # the power of ten, if there is one
        # The axis without a grid has categories.
        if grid in (name, "both") and isinstance(axis.get_major_locator(), AutoLocator):
            axis.set_minor_locator(AutoMinorLocator(2))
    ax.grid(axis=grid, color=GREY, linewidth=0.4)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.spines["left"].set_color(INK)


def drawable(name: object) -> str:
    """Escape a name so that matplotlib draws it literally, without taking ``$`` for mathematics.

    Control characters are escaped too, except line feeds. Apply it once to each name that comes
    from a file or a user.
    """
    return visible(name, lines=True).replace("$", r"\$")


def short(label: str) -> str:
    """Shorten a label: drop the names of options whose value is a word, and break long labels.

    ``"__main__:Mine (order=least)"`` becomes ``"Mine (least)"``. Labels are also named as by
    `named`, and escaped as by `drawable`.
    """
    words = re.sub(r"\b\w+=([A-Za-z])", r"\1", _without_wc(label))
    if len(words) <= _BREAK:
        return drawable(words)
    parts = words.replace(" (", "\n(").replace(", ", ",\n").split("\n")
    return drawable("\n".join(on_lines(part, _LINE) for part in parts))


def on_lines(text: str, letters: int) -> str:
    """Break a text at spaces into lines of some letters; a longer word has a line to itself."""
    return "\n".join(wrap(text, letters, break_long_words=False, break_on_hyphens=False))


class Look(NamedTuple):
    """Style of the line and the bar of a label, distinct also in greyscale."""

    colour: str
    dashes: Any  #: a ``linestyle`` of matplotlib
    marker: str
    hatch: str
    hollow: bool  #: hollow markers and light bars mark a scheme without work conservation

    def line(self) -> dict[str, Any]:
        """Matplotlib's style of a line with markers."""
        return {"color": self.colour, "linestyle": self.dashes, "marker": self.marker,
                "linewidth": 1.1, "markersize": 3.6, "markeredgewidth": 0.8,
                "markerfacecolor": "white" if self.hollow else self.colour}

    def bar(self) -> dict[str, Any]:
        """Matplotlib's style of a bar."""
        edge = {"edgecolor": "white"} if self.hatch and not self.hollow else {}
        return fill(self.colour, light=self.hollow) | {"hatch": self.hatch} | edge


def looks(labels: Iterable[str], among: Iterable[str] = ()) -> dict[str, Look]:
    """Assign a `Look` to each label.

    A scheme without work conservation has hollow markers and a dashed line. If the same scheme with
    work conservation is present, both have the same colour and marker. `among` are all labels of
    the comparison or sweep, so that each has the same look in every picture, whichever are drawn.
    """
    drawn = dict.fromkeys(labels)
    partners = schemes_of((*among, *drawn))
    schemes = list(dict.fromkeys(partners.values()))
    found = {}
    for label in drawn:
        hollow, index = not_conserving(label), schemes.index(partners[label])
        turn = index // len(SERIES) % len(_DASHES)
        found[label] = Look(colour(index), _DASHES[turn][hollow],
                            _MARKERS[index % len(_MARKERS)], _HATCHES[turn], hollow)
    return found


def series_name(label: str) -> str:
    """Name the series of a label on one line, as ``"lccf (no WC)"`` without work conservation."""
    return visible(_without_wc(label))


def _without_wc(label: str) -> str:
    return named(label).replace(_WITHOUT, "no WC")


def tag(label: str, *artists: Artist) -> None:
    """Mark artists as parts of a series, so that a page can hide the series; see `series_of`."""
    for artist in artists:
        vars(artist)["netsim_series"] = series_name(label)


def series_of(figure: Figure) -> Iterator[tuple[Artist, str]]:
    """Yield the artists of a figure that belong to a series, with its label."""
    for artist in figure.findobj(lambda each: "netsim_series" in vars(each)):
        yield artist, vars(artist)["netsim_series"]


def dashes(index: int) -> Any:
    """The dashes of the lines of a further parameter's value, by its number."""
    return _STYLES[index % len(_STYLES)]


def uncover(ax: Axes) -> None:
    """Widen lines that lie under others, so that they show on both sides of them.

    Call it when the limits and the scales of the axes are final.
    """
    lines = [line for line in ax.get_lines()
             if not str(line.get_label()).startswith("_") and line.get_linestyle() != "None"]
    # In coordinates of the axes rather than of data, so that logarithmic axes are no special case.
    to_axes = [(line.get_transform() - ax.transAxes).transform(line.get_xydata())
               for line in lines]
    known = [place[np.isfinite(place).all(axis=1)] for place in to_axes]
    for index, (line, own) in enumerate(zip(lines, known, strict=True)):
        above = sum(_covers(other, own) for other in known[index + 1:])
        line.set_linewidth(line.get_linewidth() + _WIDER * min(above, 3))


def _covers(upper: Floats, lower: Floats) -> bool:
    """Whether a line hides another one; both are points in order of x, of shape (points, 2)."""
    if len(upper) < 2 or len(lower) < 2:
        return False
    begin, end = max(upper[0, 0], lower[0, 0]), min(upper[-1, 0], lower[-1, 0])
    if begin >= end:
        return False
    at = np.linspace(begin, end, 101)
    gaps = np.abs(np.interp(at, *upper.T) - np.interp(at, *lower.T))
    return bool((gaps < _NEAR).mean() > _HIDDEN)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart, of which the k-th is at y = k: as many as there is room for."""
    row_in = ax.bbox.height / ax.figure.dpi / max(len(names), 1)
    step = max(1, math.ceil(_ROW_NAME_IN / row_in))
    ax.set_yticks(range(0, len(names), step), names[::step])
    ax.set_ylim(len(names) - 0.4, -0.6)


def mark_cut_axis(ax: Axes) -> None:
    """Mark the foot of the y axis, which does not begin at zero, with two slanted strokes."""
    ax.plot([0, 0], [0.035, 0.07], transform=ax.transAxes, clip_on=False, linestyle="none",
            marker=[(-1, -0.5), (1, 0.5)], markersize=5, color=INK, markeredgewidth=0.8,
            label="_cut", zorder=5)


def write_beside(ax: Axes, y: float, text: str) -> Annotation:
    """Write the value of a row at the right of axes, clear of what is drawn on them."""
    return ax.annotate(text, (1, y), (3, 0), xycoords=("axes fraction", "data"), va="center",
                       textcoords="offset points", fontsize=6.5, color=INK, annotation_clip=False)


def head_beside(ax: Axes, text: str) -> None:
    """Say above the values beside axes what they are."""
    ax.annotate(text, (1, 1), (3, 2), xycoords="axes fraction", textcoords="offset points",
                fontsize=6.5, color=INK, annotation_clip=False)


def add_note(figure: Figure, text: str) -> None:
    """Write a note under a figure and its earlier notes, in as many lines as it needs."""
    before = figure.get_supxlabel()
    lines = [*before.split("\n")] * bool(before) + _wrapped(text, figure.get_figwidth())
    figure.supxlabel("\n".join(lines), **_NOTE_STYLE)


def add_note_to(ax: Axes, text: str) -> None:
    """Write a note under the x label of axes in a figure that netsim did not make.

    The note is one of the axes' texts, and moves with the axes. If several axes of a figure would
    have the same note, only the axes drawn last have it.
    """
    figure = ax.figure.canvas.figure
    for other in figure.findobj(lambda each: vars(each).get("netsim_note") == text):
        other.remove()
    lines = _wrapped(text, ax.bbox.width / ax.figure.dpi)
    note = ax.annotate("\n".join(lines), (0.5, 0), xycoords=("axes fraction", ax.xaxis.label),
                       xytext=(0, -2), textcoords="offset points", ha="center", va="top",
                       annotation_clip=False, **_NOTE_STYLE)
    vars(note)["netsim_note"] = text


def _wrapped(text: str, width_in: float) -> list[str]:
    """Break a note into as few lines as the width allows, of about the same length."""
    most = max(20, int(width_in / _NOTE_LETTER_IN))
    count = len(wrap(text, most))
    return next(lines for width in range(max(1, len(text) // count), most + 1)
                if len(lines := wrap(text, width)) == count)


def schemes_of(labels: Iterable[str]) -> dict[str, str]:
    """Map each label to the same label with work conservation if present, else to itself."""
    found = dict.fromkeys(labels, "")
    for label in found:
        name, options = _name_and_options(label)
        kept = [option for option in options if option and option != _WITHOUT]
        conserving = f"{name} ({', '.join(kept)})" if kept else name
        found[label] = conserving if conserving in found else label
    return found


def not_conserving(label: str) -> bool:
    """Whether a label is that of a scheme without work conservation."""
    return _WITHOUT in _name_and_options(label)[1]


def _name_and_options(label: str) -> tuple[str, list[str]]:
    name, _, options = label.removesuffix(")").partition(" (")
    return name, options.split(", ")


def name_axes(ax: Axes, x: str | None = None, y: str | None = None) -> None:
    """Label the axes, or one of them."""
    if x is not None:
        ax.set_xlabel(drawable(x), fontsize=7.5, color=INK)
    if y is not None:
        ax.set_ylabel(drawable(y), fontsize=7.5, color=INK)


def add_legend(ax: Axes, handles: Sequence[Any] | None = None) -> None:
    """Place a legend above the axes, by default with the entries of the axes.

    Call it when the texts at the right of the axes are written, as these take room from it.
    """
    own = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    ends = [text.get_window_extent().x1 for text in ax.texts if not text.get_clip_on()]
    beside_in = (max([*ends, ax.bbox.x1]) - ax.bbox.x1) / ax.figure.dpi
    place = ax.get_subplotspec()
    _add_in_rows(ax, own, beside_in, place.get_gridspec().ncols if place else 1,
                 loc="lower right", bbox_to_anchor=(1, 1))


def legend_above(figure: Figure, handles: Sequence[Any]) -> None:
    """Place a legend above all panels of a figure."""
    _add_in_rows(figure, handles, 0.0, 1, loc="outside upper left")


def _add_in_rows(to: Axes | Figure, handles: Sequence[Any], beside_in: float, abreast: int,
                 **place: Any) -> None:
    """Add a legend with as few rows as have room, `beside_in` inches beside which are taken.

    If even one column has no room on a figure that `may_grow`, the figure is widened. There are
    `abreast` axes side by side on the figure.
    """
    if not handles:
        return
    figure: Figure = to.figure.canvas.figure
    column = to.legend(handles=handles, **_LEGEND_STYLE, **place)
    texts = [text.get_window_extent().width for text in column.get_texts()]
    beside = column.get_window_extent().width - max(texts)
    between = figure.dpi * _LEGEND_STYLE["fontsize"] / 72 * sum(
        _LEGEND_STYLE[name] for name in ("handlelength", "handletextpad", "columnspacing"))
    column.remove()
    for rows in range(1, len(handles) + 1):
        columns = -(-len(handles) // rows)
        parts = np.array_split(texts, columns)  # as matplotlib does
        width = sum(map(max, parts)) + beside + (columns - 1) * between
        width_in = width / figure.dpi + beside_in + _PADS_IN
        if width_in <= figure.get_figwidth() / abreast:
            break
    to.legend(handles=handles, ncols=columns, **_LEGEND_STYLE, **place)
    if columns == 1 and may_grow(figure):
        figure.set_figwidth(max(figure.get_figwidth(), width_in))


def text_on(colour: Any) -> str:
    """The colour of text that is legible on a colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else INK


def colour_bar(shown: Any, axes: Sequence[Axes], **place: Any) -> Colorbar:
    """Add a bar of colours beside axes; on the user's figures, without taking room from the axes.

    `place` has matplotlib's ``fraction``, ``pad`` and ``aspect``, for figures that netsim has made.
    """
    figure = axes[0].figure.canvas.figure
    # Axes above and below keep the same width, so that their times stay aligned.
    bar: Colorbar = (figure.colorbar(shown, ax=list(axes), **place) if may_grow(figure) else
                     figure.colorbar(shown, cax=axes[-1].inset_axes((1.02, 0.0, 0.03, 1.0))))
    bar.ax.tick_params(labelsize=7, labelcolor=INK)
    return bar


def three_figures(value: float) -> str:
    """Format a number with three significant digits, as ``"0.0123"``, ``"1.23"`` or ``"1,234"``."""
    if value < 0.995:
        return f"{value:#.3g}" if value else "0"
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def duration(seconds: float) -> str:
    """Format a duration in the largest unit that it fills, as ``"10 min"``."""
    return _in_unit(seconds, *_filled(seconds))


def _filled(seconds: float) -> tuple[str, float]:
    """The longest unit that a time fills, and its length; no name for seconds or less."""
    return next((each for each in _LONGER if seconds >= each[1]), ("", 1.0))


def _in_unit(seconds: float, unit: str, length: float) -> str:
    """Format a time in a unit of `_LONGER`, or in seconds or less."""
    number = seconds / length
    return (f"{number:,.0f} {unit}" if unit and number >= 1e4
            else f"{number:.4g} {unit}" if unit
            else format_seconds(seconds).replace("us", "µs"))


def time_axis(ax: Axes, note: str = "") -> None:
    """Label the x axis as time, as by `seconds_axis`."""
    seconds_axis(ax.xaxis, "time", note)


def count_over_time(ax: Axes, name: str) -> None:
    """Label axes of whole numbers from 0 over time; call it when everything is drawn."""
    from matplotlib.ticker import MaxNLocator

    ax.set_ylim(0, None)
    ax.margins(x=0.02)
    name_axes(ax, y=name)
    time_axis(ax)
    dress(ax, "both")
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def unit_of(most: float) -> tuple[str, float]:
    """The unit for times up to some seconds, and its length in seconds."""
    return next((name, length) for name, length, end in _UNITS if most < end)


def seconds_axis(axis: Axis, name: str, note: str = "") -> None:
    """Label an axis of seconds, in hours or days where seconds would have too many digits.

    Call it when the limits of the axis are final. `note` follows the unit.
    """
    from matplotlib.ticker import MaxNLocator

    low, high = sorted(axis.get_view_interval())
    unit, length = unit_of(high)
    axis.set_label_text(drawable(f"{name} ({unit}){note}"), fontsize=7.5, color=INK)
    if length == 1 and high < _LONG:
        return
    labels: dict[float, str] = {}
    for most in range(6, 0, -1):  # as many as there is room for
        ticks = MaxNLocator(most).tick_values(low / length, high / length)
        labels = {tick * length: f"{tick:,.10g}" for tick in ticks
                  if low <= tick * length <= high}
        if len(fitting(axis, labels)) == len(labels):
            break
    axis.set_ticks(list(labels), list(labels.values()))


def log_seconds(axis: Axis) -> None:
    """Label a logarithmic axis of times: 100 ms, 1 s, 10 s, 1 min, and so on.

    If all times are equal to rounding, the axis is widened.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if high < _LEAST_RATIO * low:
        middle, part = math.sqrt(low * high), math.sqrt(_LEAST_RATIO)
        low, high = middle / part, middle * part
        set_limits = axis.axes.set_ylim if axis is axis.axes.yaxis else axis.axes.set_xlim
        set_limits(low, high, auto=None)  # panels that share it may still widen it
    decades, between = ([tick for tick in ticks if low <= tick <= high]
                        for ticks in (_DECADES, _BETWEEN))
    shown = fitting(axis, {tick: duration(tick) for tick in (
        decades if len(decades) > 2 else [*decades, *between])}, within=True)
    within, labels = [*shown], [*shown.values()]
    if len(within) < 2:  # round numbers in one unit
        unit, length = _filled(low)
        within = [tick * length for tick in
                  MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low / length, high / length)
                  if low <= tick * length <= high]
        labels = [_in_unit(tick, unit, length) for tick in within]
    axis.set_ticks(within, labels)
    axis.set_minor_locator(FixedLocator([tick for tick in _MINOR if tick not in within]))
    axis.set_minor_formatter(NullFormatter())


def fitting(axis: Axis, labels: Mapping[float, str], *, within: bool = False) -> dict[float, str]:
    """Select the labels of an axis that have room, by their places; earlier ones take precedence.

    The limits and the scale of the axis must be final. If `within`, labels stay within their panel
    if there are others beside it.
    """
    upright = axis is axis.axes.yaxis  # labels are one above the other
    scaled = math.log if axis.get_scale() == "log" else float
    low, high = map(scaled, axis.get_view_interval())
    letter = _TICK_LETTER_IN * axis.axes.figure.dpi / axis.axes.bbox.width
    place = axis.axes.get_subplotspec()
    panels = place is not None and place.get_gridspec().ncols > 1
    beyond = _BEYOND if within and panels and not upright else math.inf
    kept: dict[float, tuple[float, float]] = {}
    for at, label in labels.items():
        half = (_LABEL if upright else letter * (max(map(len, label.split("\n"))) + 1)) / 2
        spot = (scaled(at) - low) / (high - low)
        ends = spot - half, spot + half
        own = half - letter / 2  # without the space around it
        if -beyond <= spot - own and spot + own <= 1 + beyond and all(
                ends[1] <= other[0] or ends[0] >= other[1] for other in kept.values()):
            kept[at] = ends
    return {at: labels[at] for at in sorted(kept)}


def log_sizes(ax: Axes) -> None:
    """Make an x axis of bytes logarithmic, with labels such as 1 kB and 100 kB."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    axis: Axis = ax.xaxis
    axis.set_major_locator(LogLocator(numticks=5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda size, _: format_bytes(size))


def log_values(axis: Axis) -> None:
    """Label a logarithmic axis of numbers: decades, or closer numbers if there are few decades."""
    from matplotlib.ticker import (
        LogLocator,
        MaxNLocator,
        NullFormatter,
        NullLocator,
        StrMethodFormatter,
    )

    low, high = sorted(axis.get_view_interval())
    axis.set_minor_locator(LogLocator(subs=range(2, 10)))
    for subs in ((1,), (1, 2, 5)):
        axis.set_major_locator(LogLocator(subs=subs))
        if sum(low <= tick <= high for tick in axis.get_majorticklocs()) > 2:
            break
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # 1 is among them
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


# --- the user's own style ------------------------------------------------------------------
def adopt_style(ax: Axes) -> None:
    """Give text, and lines of its colour, the text colour of matplotlib's style if it was changed.

    Numbers on bars keep their colour, which suits that of the bars.
    """
    from matplotlib import rcParams, rcParamsDefault
    from matplotlib.collections import Collection
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D
    from matplotlib.spines import Spine
    from matplotlib.text import Annotation, Text

    own = rcParams["text.color"]
    if own == rcParamsDefault["text.color"]:
        return

    def is_ink(colour: Any) -> bool:
        return to_hex(colour) in (INK, NOTE_INK)

    ax.tick_params(which="both", labelcolor=own)
    kept = {text for text in ax.texts if not isinstance(text, Annotation)}  # on bars
    for each in ax.findobj(lambda artist: artist not in kept and not artist.get_path_effects()):
        if isinstance(each, Text | Line2D) and is_ink(each.get_color()):
            each.set_color(own)
        elif isinstance(each, Spine | Collection) and len(edges := np.atleast_2d(
                each.get_edgecolor())) and all(map(is_ink, edges)):
            each.set_edgecolor(own)
