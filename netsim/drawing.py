"""Access to plots from what they draw, which is in lower layers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(thing: Any, kind: str | None, what: str, of: str | None = None, ax: Axes | None = None,
         **more: Any) -> Axes:
    """Draw a result, a comparison, a sweep, a network or a workload.

    See `netsim.plots.pictures.draw_picture`. Plots are imported by name when one is drawn, as
    pandas imports its plotting backend: plots depend on what they draw, which must not depend on
    plots.
    """
    axes: Axes = import_module("netsim.plots.pictures").draw_picture(
        thing, kind, what, of, ax, **more)
    return axes
