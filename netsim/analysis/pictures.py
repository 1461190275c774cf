"""The pictures of a comparison, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from netsim.analysis.coflow_plots import cct_curves, improvement_bars, link_strips
from netsim.analysis.plots import total_jct_bars
from netsim.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.experiments.compare import Comparison

__all__ = ["PICTURES", "Picture", "check_picture"]


class Picture(NamedTuple):
    """What can be drawn of a comparison.

    Attributes
    ----------
    draw : callable
        Returns the Axes; the first of them where there are several.
    needs : str
        The record without which there is nothing to draw.
    """

    draw: Callable[[Comparison], Axes]
    needs: str


#: Total JCTs; distributions of CCTs; improvement on the baseline by class; links over time.
PICTURES = {
    "jct": Picture(lambda compared: total_jct_bars(compared.table), "jobs"),
    "cct": Picture(lambda compared: cct_curves(compared.results), "coflows"),
    "classes": Picture(lambda compared: improvement_bars(compared.against()), "coflows"),
    "links": Picture(lambda compared: link_strips(compared.results)[0], "links"),
}


def check_picture(kind: str, record: Collection[str]) -> None:
    """Find out before a long run whether a picture can be drawn of what will be recorded.

    Raises
    ------
    UnknownNameError
        If there is no such picture.
    InputError
        If what it needs is not recorded.
    """
    if kind not in PICTURES:
        raise UnknownNameError("picture", kind, PICTURES)
    needs = PICTURES[kind].needs
    if needs not in {*record, "jobs"}:
        listed = ", ".join(f'"{name}"' for name in (*record, needs))
        raise InputError(f"the picture {kind!r} needs {needs} recorded: record = [{listed}]")
