"""What all pictures share: colours, frames, and matplotlib where it is installed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import MissingExtraError
from netsim.text import visible
from netsim.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "GREY", "INK", "WIDTH_IN", "Look", "add_legend", "colour", "drawable",
           "dress", "duration", "fill", "log_seconds", "log_values", "looks", "name_axes",
           "new_axes", "new_figure", "require_matplotlib", "schemes_of", "short", "three_figures"]

#: Okabe and Ito's colours, which are apart for every kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

INK, GREY = "#222222", "#cccccc"

WIDTH_IN = 3.5  # a column of a two-column paper

_LETTER_IN, _SAMPLE_IN = 0.053, 0.38  # of a legend

_MARKERS = "os^DvPX<>*ph"

#: Of lines with work conservation and without; a pair per round of the colours.
_DASHES: tuple[tuple[Any, Any], ...] = (
    ("-", (0, (4, 1.5))), ((0, (6, 1.2, 1, 1.2)), (0, (3, 1, 1, 1, 1, 1))),
    ((0, (1, 1)), (0, (1, 2.5))))

_HATCHES = ("", "/////", ".....")

_WITHOUT = "work_conservation=none"

_DECADES = (*(10.0**power for power in range(-9, 2)), 60.0, 600.0, 3600.0, 36000.0, 86400.0,
            864000.0, 8640000.0)
_BETWEEN = (*(digit * 10.0**power for power in range(-9, 1) for digit in (2, 5)), 20.0, 30.0,
            120.0, 300.0, 1200.0, 1800.0, 7200.0, 18000.0, 172800.0, 432000.0)

#: Of an axis as wide as a column, what the label of a tick takes.
_LABEL = 0.1


def require_matplotlib() -> None:
    """Refuse to draw without matplotlib.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot")


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """Return an empty figure."""
    from matplotlib.figure import Figure  # not pyplot: it keeps every figure for ever

    return Figure(figsize=(width_in, height_in), dpi=200, layout="constrained")


def new_axes(height_in: float, width_in: float = WIDTH_IN) -> Axes:
    """Return axes on a figure of their own."""
    axes: Axes = new_figure(height_in, width_in).subplots()
    return axes


def colour(index: int) -> str:
    """Return the colour of the entry with this number; they repeat after the sixth."""
    return COLOURS[index % len(COLOURS)]


def fill(colour: str, *, light: bool) -> dict[str, Any]:
    """Return the style of a bar, or a lighter one with the edge of that colour."""
    from matplotlib.colors import to_rgb

    # Mixed with white rather than transparent: the grid must not show through.
    tone = tuple(0.75 + 0.25 * part for part in to_rgb(colour))
    return {"facecolor": tone if light else colour, "edgecolor": colour, "linewidth": 0.8}


def dress(ax: Axes, grid: str) -> None:
    """Set ticks, frame and a light grid along the axis that is read: "x", "y" or "both"."""
    ax.tick_params(labelsize=7.5, labelcolor=INK, color=GREY)
    ax.tick_params(which="minor", length=0)
    ax.grid(axis=grid, color=GREY, linewidth=0.4)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.spines["left"].set_color(INK)


def drawable(name: object) -> str:
    r"""Return a name so that matplotlib writes it as it is, and takes no ``$`` for mathematics.

    Control characters are escaped, but for the ends of lines. To be applied once, to whatever
    names a file or a user may have given.

    Examples
    --------
    >>> print(drawable("$x$"))
    \$x\$
    """
    return visible(name, lines=True).replace("$", r"\$")


def short(label: str) -> str:
    """Return a label with words for options that speak for themselves, in lines that are short.

    It is `drawable`.
    """
    words = re.sub(r"\b\w+=([A-Za-z])", r"\1", label.replace(_WITHOUT, "no WC"))
    return drawable(words.replace(" (", "\n(").replace(", ", ",\n") if len(words) > 18 else words)


class Look(NamedTuple):
    """How the line or bar of one label looks: in colour, and where there are only greys.

    Attributes
    ----------
    colour : str
    dashes : str or tuple
        As matplotlib's ``linestyle``.
    marker, hatch : str
        As matplotlib's.
    hollow : bool
        Whether markers are, and bars light: without work conservation, beside the same with it.
    """

    colour: str
    dashes: Any
    marker: str
    hatch: str
    hollow: bool

    def line(self) -> dict[str, Any]:
        """Return matplotlib's style of a line with markers."""
        return {"color": self.colour, "linestyle": self.dashes, "marker": self.marker,
                "linewidth": 1.1, "markersize": 3.6, "markeredgewidth": 0.8,
                "markerfacecolor": "white" if self.hollow else self.colour}

    def bar(self) -> dict[str, Any]:
        """Return matplotlib's style of a bar."""
        edge = {"edgecolor": "white"} if self.hatch and not self.hollow else {}
        return fill(self.colour, light=self.hollow) | {"hatch": self.hatch} | edge


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """Return how the line, or the bar, of each label looks.

    A scheme without work conservation has the colour and the marker of the one with it, hollow
    and on a dashed line.
    """
    partners = schemes_of(labels)
    schemes = list(dict.fromkeys(partners.values()))
    found = {}
    for label, scheme in partners.items():
        hollow, index = label != scheme, schemes.index(scheme)
        turn = index // len(COLOURS) % len(_DASHES)
        found[label] = Look(colour(index), _DASHES[turn][hollow],
                            _MARKERS[index % len(_MARKERS)], _HATCHES[turn], hollow)
    return found


def schemes_of(labels: Iterable[str]) -> dict[str, str]:
    """Return each label's scheme: itself, or without work conservation that of the one with it.

    Examples
    --------
    >>> list(schemes_of(["lccf", "lccf (work_conservation=none)", "fifo (sharing=equal)"]).values())
    ['lccf', 'lccf', 'fifo (sharing=equal)']
    """
    found = dict.fromkeys(labels, "")
    for label in found:
        name, _, options = label.removesuffix(")").partition(" (")
        kept = [option for option in options.split(", ") if option and option != _WITHOUT]
        with_it = f"{name} ({', '.join(kept)})" if kept else name
        found[label] = with_it if with_it in found else label
    return found


def name_axes(ax: Axes, x: str = "", y: str = "") -> None:
    """Write what the axes are of."""
    ax.set_xlabel(drawable(x), fontsize=7.5, color=INK)
    ax.set_ylabel(drawable(y), fontsize=7.5, color=INK)


def add_legend(ax: Axes, handles: Sequence[Any] | None = None) -> None:
    """Explain what is drawn above the axes, where it covers nothing."""
    own = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    ax.legend(handles=own, loc="lower right", bbox_to_anchor=(1, 1), ncols=_columns(ax, own),
              frameon=False, fontsize=7, labelcolor=INK, handlelength=2.2, borderpad=0.1,
              columnspacing=1.2, handletextpad=0.5, labelspacing=0.3)


def _columns(ax: Axes, handles: Sequence[Any]) -> int:
    """Return how many columns of a legend there is room for, in as few rows."""
    widths = [max(map(len, str(handle.get_label()).split("\n"))) for handle in handles]
    place = ax.get_subplotspec()
    room = ax.figure.canvas.figure.get_figwidth() / (place.get_gridspec().ncols if place else 1)
    for columns in range(len(widths), 1, -1):
        short_ones, longer = divmod(len(widths), columns)
        ends = [0]
        for column in range(columns):  # matplotlib fills one after the other
            ends.append(ends[-1] + short_ones + (column < longer))
        wide = sum(max(widths[start:end]) for start, end in pairwise(ends))
        if _LETTER_IN * wide + _SAMPLE_IN * columns <= room:
            # No more columns than make the last rows as long as the first.
            rows = -(-len(widths) // columns)
            return -(-len(widths) // rows)
    return 1


def three_figures(value: float) -> str:
    """Return a number with three figures: ``"0.0123"``, ``"1.23"``, ``"12.3"``, ``"1,234"``."""
    if value < 0.995:
        return f"{value:.3g}"
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def duration(seconds: float) -> str:
    """Return a length of time in the unit in which it is short, such as ``"10 min"``."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.4g} {unit}"
    return format_seconds(seconds)


def log_seconds(axis: Axis) -> None:
    """Label a logarithmic axis of seconds: 100 ms, 1 s, 10 s, 1 min, and so on."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    within = [tick for tick in _DECADES if low <= tick <= high]
    if len(within) < 3:
        within = _apart(sorted(tick for tick in (*_DECADES, *_BETWEEN) if low <= tick <= high),
                        math.log(high / low) * _LABEL)
    if len(within) < 2:
        within = [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    axis.set_minor_locator(NullLocator())
    axis.set_ticks(within, [duration(tick) for tick in within])


def _apart(ticks: Sequence[float], least: float) -> list[float]:
    """Return those whose logarithms are as far from the last one's as labels need."""
    kept: list[float] = []
    for tick in ticks:
        if not kept or math.log(tick / kept[-1]) >= least:
            kept.append(tick)
    return kept


def log_values(axis: Axis) -> None:
    """Label a logarithmic axis of plain numbers: 1, 2, 5, 10, or decades where they are many."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    if high < 2.5 * low:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_locator(NullLocator())
