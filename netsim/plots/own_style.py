"""The colours of matplotlib's style, if the user has changed it, on the user's own axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.plots.style import INK, NOTE_INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
