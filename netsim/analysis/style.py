"""What all pictures share: colours, frames, and matplotlib where it is installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from netsim.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "GREY", "INK", "WIDTH_IN", "colour", "dress", "fill", "new_axes",
           "new_figure", "require_matplotlib", "short"]

#: Okabe and Ito's colours, which are apart for every kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

INK, GREY = "#222222", "#cccccc"

WIDTH_IN = 3.5  # a column of a two-column paper


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


def short(label: str) -> str:
    """Return a label with words for options that speak for themselves, in lines that are short."""
    words = re.sub(r"\b\w+=([A-Za-z])", r"\1", label)
    return words.replace(" (", "\n(").replace(", ", ",\n") if len(words) > 18 else words
