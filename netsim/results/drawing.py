"""The way from results to their pictures, which stand far above them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]


def draw(thing: Any, kind: str | None, what: str, of: str | None = None) -> Axes:
    """Draw a result, a comparison or a sweep; see `netsim.plots.pictures.draw_picture`.

    Pictures are found by name, when one is drawn, as pandas finds what draws its data frames: they
    read results, which must not need them.
    """
    axes: Axes = import_module("netsim.plots.pictures").draw_picture(thing, kind, what, of)
    return axes
