"""The plots of runs, comparisons and sweeps, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError, UnknownNameError
from netsim.plots.bars import total_jct_bars
from netsim.plots.coflows import link_strips, ratio_bars, slowdown_bars
from netsim.plots.curves import cdf_curves, timeline
from netsim.plots.edge_gantt import edge_gantt
from netsim.plots.edge_usage import worker_curves
from netsim.plots.facets import bar_facets, cdf_facets, line_facets, scatter_facets
from netsim.plots.gantt import gantt
from netsim.plots.gpu_gantt import gpu_gantt
from netsim.plots.gpu_usage import COUNTS, usage_areas, usage_curves
from netsim.plots.rank_gantt import rank_gantt
from netsim.plots.sweeps import METRICS
from netsim.results.not_recorded import on_edge, shares_links
from netsim.results.result import EDGE_TABLES, policies_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ALIASES", "PICTURES", "Picture", "check_picture", "draw_picture", "lacking_on",
           "records_lacking", "roles_given"]


class Picture(NamedTuple):
    """A plot that can be drawn.

    Attributes
    ----------
    draw : callable
        Draws the plot. It takes the run, comparison or sweep, one of the keys of `of` and, for a
        sweep, settings by role, see `netsim.plots.facets`; and returns the Axes, the first ones if
        there are several.
    of : mapping of str to str
        Quantities that can be drawn, with the record that each needs. The default is the first one
        with a record that the run can have. The key is ``""`` if there is nothing to choose.
    also : tuple of str
        Further records that are drawn if the result has them.
    """

    draw: Callable[..., Axes]
    of: Mapping[str, str]
    also: tuple[str, ...] = ()


_TIMES = {"jct": "jobs", "cct": "coflows"}
_ROWS = {"coflows": "coflows", "training": "training", "ranks": "computations"}
_GANTTS: dict[str, Callable[[Any], Axes]] = {
    "coflows": gantt, "training": edge_gantt, "ranks": rank_gantt}
_USED = {"links": "links", "workers": "training"}

#: Tables that need not be asked for.
_ALWAYS = ("jobs", "gpus")
_MEANS = dict.fromkeys(METRICS, "jobs")

#: Plots of runs, comparisons and sweeps, by kind. The first of each is the default.
PICTURES: dict[str, dict[str, Picture]] = {
    "run": {
        "timeline": Picture(lambda run, _: timeline(_alone(run))[0], {"": "jobs"},
                            ("coflows", "training", "decisions")),
        "gantt": Picture(lambda run, of: _GANTTS[of](run), _ROWS),
        "cdf": Picture(lambda run, of: cdf_curves(_alone(run), of), _TIMES),
        "slowdown": Picture(lambda run, _: slowdown_bars(_alone(run)), {"": "coflows"}),
        "utilisation": Picture(lambda run, of: _utilisation(_alone(run), of), _USED),
        "gpus": Picture(lambda run, _: gpu_gantt(run)[0], {"": "gpus"}),
        "usage": Picture(lambda run, _: usage_areas(run)[0], {"": "gpus"}),
    },
    "comparison": {
        "bars": Picture(lambda compared, _: total_jct_bars(compared.table), {"": "jobs"}),
        "cdf": Picture(lambda compared, of: cdf_curves(compared.results, of), _TIMES),
        "classes": Picture(lambda compared, _: ratio_bars(
            compared.against(), among=compared.results), {"": "coflows"}),
        "slowdown": Picture(lambda compared, _: slowdown_bars(compared.results), {"": "coflows"}),
        "timeline": Picture(lambda compared, _: timeline(compared.results)[0], {"": "jobs"},
                            ("coflows", "training")),
        "utilisation": Picture(lambda compared, of: _utilisation(compared.results, of), _USED),
        "usage": Picture(lambda compared, of: usage_curves(compared.results, of)[0],
                         dict.fromkeys(COUNTS, "gpus")),
    },
    "sweep": {
        "bars": Picture(lambda sweep, of, **roles: bar_facets(
            sweep.means([of]), of, among=sweep.grid, **roles), _MEANS),
        "sweep": Picture(lambda sweep, of, **roles: line_facets(
            sweep.means([of]), of, among=sweep.grid, **roles), _MEANS),
        "cdf": Picture(cdf_facets, _TIMES),
        "scatter": Picture(lambda sweep, of, **roles: scatter_facets(
            sweep.means([of]), of, among=sweep.grid, **roles), _MEANS),
    },
}

#: Other names of kinds, with the quantity that they imply.
ALIASES = {"jct": ("bars", None), "cct": ("cdf", "cct"), "links": ("utilisation", "links")}

#: What the quantities of a plot are, if not metrics.
_CHOICES = {"cdf": "distribution", "gantt": "table", "utilisation": "part of the system",
            "usage": "count of GPUs"}


def check_picture(kind: str | None, what: str, of: str | None = None,
                  record: Collection[str] | None = None,
                  lacking: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str]:
    """Check before a long run that a plot exists and that the records it needs will be there.

    Parameters
    ----------
    kind : str or None
        Name of the plot; the default plot if None.
    what : {"run", "comparison", "sweep"}
        The thing to plot.
    of : str, optional
        Quantity to draw; see `Picture`.
    record : collection of str, optional
        Records besides jobs. If not given, the need for records is not checked.
    lacking : mapping of str to str
        Records that such runs cannot have, with the reason; see `lacking_on`.

    Returns
    -------
    kind, of : str
        Name of the plot and its quantity, with aliases and defaults resolved.

    Raises
    ------
    UnknownNameError
        If there is no such plot or quantity.
    InputError
        If the plot is not for this kind of thing, or needs records that are missing.
    """
    known = PICTURES[what]
    name, implied = ALIASES.get(kind, (kind, None)) if kind else (next(iter(known)), None)
    if name not in known:
        others = [f"a {other}" for other, pictures in PICTURES.items() if name in pictures]
        if not others:
            raise UnknownNameError("plot", kind, known)
        raise InputError(f"the plot {kind!r} is for {' or '.join(others)}, not for a {what}; "
                         f"choose from: {', '.join(sorted(known))}")
    choices = known[name].of
    if of is not None and "" in choices:
        raise InputError(f"the plot {name!r} has no choice of quantity; leave out {of!r}")
    possible = (each for each, needs in choices.items() if needs not in lacking)
    chosen = of or implied or next(possible, next(iter(choices)))
    if chosen not in choices:
        raise UnknownNameError(_CHOICES.get(name, "metric"), chosen, choices)
    needs = choices[chosen]
    if needs in lacking:
        raise InputError(f"the plot {kind or name!r} needs {needs}: {lacking[needs]}; choose "
                         f"from: {', '.join(_drawable(known, lacking))}")
    if record is not None and needs not in {*record, *_ALWAYS}:
        listed = ", ".join(f'"{each}"' for each in (*record, needs))
        raise InputError(f"the plot {kind or name!r} needs {needs} recorded: "
                         f"record = [{listed}]")
    return name, chosen


def _drawable(known: Mapping[str, Picture], lacking: Collection[str]) -> list[str]:
    """Return the plots that do not need certain records, with quantities if only some are left."""
    found = []
    for name, picture in sorted(known.items()):
        left = [of for of, needs in picture.of.items() if needs not in lacking]
        if left:
            found.append(name if len(left) == len(picture.of)
                         else f"{name} (of {' or '.join(left)})")
    return found


def lacking_on(target: str, shares_links: bool = True) -> dict[str, str]:
    """Map each record that runs on a target cannot have to the reason.

    Parameters
    ----------
    target : {"network", "cluster", "edge-cloud"}
    shares_links : bool
        On an edge-cloud, whether chunks move over links, whose bandwidth an allocator shares.
    """
    lacking = ({"computations": "ranks of jobs on a network alone have them"} if target != "network"
               else {})
    lacking |= {} if target == "cluster" else {"gpus": "only runs on a cluster have them"}
    if target != "edge-cloud":
        return lacking | dict.fromkeys(EDGE_TABLES, "only runs on an edge-cloud have it")
    lacking |= dict.fromkeys(("coflows", "flows"), "a run on an edge-cloud has none")
    if not shares_links:
        lacking |= dict.fromkeys(("links", "decisions"),
                                 "a run on an edge-cloud has none where delays and rates are "
                                 "constant")
    return lacking


def records_lacking(thing: Any, what: str) -> dict[str, str]:
    """Map each record that a run, or the runs of a comparison, cannot have to the reason.

    Parameters
    ----------
    thing : Result, Comparison or Sweep
    what : {"run", "comparison", "sweep"}
        The kind of `thing`. For a sweep the map is empty, as its runs have not been read yet.
    """
    if what == "sweep":
        return {}
    run = (thing if what == "run" else next(iter(thing.results.values()))).run
    if on_edge(run):
        return lacking_on("edge-cloud", shares_links(run))
    return lacking_on("cluster" if "cluster" in run else "network")


def draw_picture(thing: Any, kind: str | None, what: str, of: str | None = None,
                 **roles: str | None) -> Axes:
    """Draw a plot of a run, a comparison or a sweep.

    Parameters
    ----------
    thing : Result, Comparison or Sweep
    kind, what, of
        As for `check_picture`.
    **roles : str
        For a sweep, its settings by role; see `netsim.plots.facets`.

    Returns
    -------
    Axes
        The first axes; their ``figure`` has all of them.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        As for `check_picture`, or if there is nothing to draw.
    """
    name, chosen = check_picture(kind, what, of, lacking=records_lacking(thing, what))
    thing = thing.with_units() if what == "sweep" else thing
    return PICTURES[what][name].draw(thing, chosen, **roles_given(what, roles))


def roles_given(what: str, roles: Mapping[str, str | None]) -> dict[str, str]:
    """Select the roles that are given.

    Parameters
    ----------
    what : {"run", "comparison", "sweep"}
        The thing to plot.
    roles : mapping of str to str or None
        Settings by role, or None.

    Raises
    ------
    InputError
        If a role is given and the thing is not a sweep.
    """
    given = {role: key for role, key in roles.items() if key is not None}
    if given and what != "sweep":
        raise InputError(f"{', '.join(given)}: only plots of a sweep have settings to choose, not "
                         f"those of a {what}")
    return given


def _alone(run: Any) -> dict[str, Any]:
    """Return a run as a mapping with the names of its policies as the only label."""
    return {policies_of(run.run): run}


def _utilisation(results: Mapping[str, Any], of: str) -> Axes:
    """Draw the utilisation of links, or of the workers of an edge-cloud, over time."""
    return link_strips(results)[0] if of == "links" else worker_curves(results)
