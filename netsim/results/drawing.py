"""Access from results to their plots, which are in a higher layer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]


def draw(thing: Any, kind: str | None, what: str, of: str | None = None,
         **roles: str | None) -> Axes:
    """Draw a result, a comparison or a sweep; see `netsim.plots.pictures.draw_picture`.

    Plots are imported by name when one is drawn, as pandas imports its plotting backend: plots
    depend on results, so results must not depend on plots.
    """
    axes: Axes = import_module("netsim.plots.pictures").draw_picture(
        thing, kind, what, of, **roles)
    return axes
