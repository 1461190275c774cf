"""The plots of runs, comparisons, sweeps, networks and workloads, by name, and windows of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.base.units import Quantity, parse_seconds
from netsim.errors import InputError, UnknownNameError
from netsim.plots.bars import total_jct_bars
from netsim.plots.coflows import ratio_bars, slowdown_bars
from netsim.plots.curves import (
    PARTS,
    active_curves,
    cdf_curves,
    decision_marks,
    timeline,
    workload_picture,
)
from netsim.plots.edge_gantt import edge_gantt
from netsim.plots.edge_usage import worker_curves
from netsim.plots.facets import bar_facets, cdf_facets, line_facets, scatter_facets
from netsim.plots.gantt import gantt
from netsim.plots.gpu_gantt import gpu_gantt
from netsim.plots.gpu_usage import COUNTS, usage_areas, usage_curves
from netsim.plots.links import link_strips
from netsim.plots.means import METRICS
from netsim.plots.rank_gantt import rank_gantt
from netsim.plots.style import adopt_style, require_matplotlib
from netsim.plots.topology import topology_picture
from netsim.plots.varied import drawn_together, numbers_among
from netsim.results.result import EDGE_TABLES, on_edge, policies_of, shares_links

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from netsim.results.result import Result


# --- windows of time -----------------------------------------------------------------------

#: Instants of the rows of tables: the first is when a row begins, the last when it ends.
_INSTANTS = {
    "jobs": ("arrival_s", "start_s", "finish_s"),
    "coflows": ("valid_s", "begin_s", "start_s", "sent_s", "finish_s"),
    "other_coflows": ("valid_s", "begin_s", "start_s", "sent_s", "end_s"),
    "links": ("start_s", "end_s"),
    "decisions": ("time_s",),
    "computations": ("start_s", "finish_s"),
    "gpus": ("start_s", "run_s", "stop_s", "end_s"),
}


def limits_of(between: Sequence[Quantity]) -> tuple[float, float]:
    """Parse the beginning and the end of a window, such as ``("1s", "2s")``, in seconds."""
    if isinstance(between, str) or not isinstance(between, Sequence) or len(between) != 2:
        raise InputError(f'between must be two times, such as ("1s", "2s"), not {between!r}')
    begin, end = (parse_seconds(at, "between") for at in between)
    if not begin < end:
        raise InputError(f"between: {between[1]} is not later than {between[0]}")
    return begin, end


def within(thing: Any, begin: float, end: float) -> Any:
    """Cut a run, or the runs of a comparison, to a window of time.

    Rows of tables that end before it or begin after it are left out. Instants before or after it
    are moved to its ends, and the bytes that links carried are those in it. Runs on an edge-cloud
    are refused.
    """
    if hasattr(thing, "results"):
        return replace(thing, results={label: within(result, begin, end)
                                       for label, result in thing.results.items()})
    if on_edge(thing.run):
        raise InputError("between is for runs on a network or a cluster, not on an edge-cloud")
    stop = thing.run["stopped_at_s"]
    last = thing.jobs["finish_s"].max() if stop is None else stop
    if begin >= last:
        raise InputError(f"between begins at {begin:g} s, and the run ended at {last:g} s")
    run = {**thing.run, "stopped_at_s": None if stop is None else min(stop, end)}
    return thing.replace(run=run, **{name: _clipped(thing, name, begin, end)
                                     for name in _INSTANTS if name in thing.recorded})


def _clipped(result: Result, name: str, begin: float, end: float) -> pd.DataFrame:
    """Cut a table to a window; rows without an end last until that of the run."""
    table: pd.DataFrame = getattr(result, name)
    instants = [column for column in _INSTANTS[name] if column in table]
    first, last = table[instants[0]], table[instants[-1]].fillna(np.inf)
    table = table[(first < end) & (last > begin)].reset_index(drop=True)
    kept = table.assign(**{column: table[column].clip(begin, end) for column in instants})
    if name == "links":
        part = (kept["end_s"] - kept["start_s"]) / (table["end_s"] - table["start_s"])
        return kept.assign(bytes=table["bytes"] * part)
    if name == "gpus":  # what happens later is not marked
        return kept.assign(reason=table["reason"].where(table["end_s"] <= end, None))
    return kept


# --- pictures by name ----------------------------------------------------------------------
class Picture(NamedTuple):
    """A plot that can be drawn."""

    #: Takes the thing to draw, one of the keys of `of`, the Axes (None for those of a new figure)
    #: and, for a sweep, settings by role; returns the first of the Axes.
    draw: Callable[..., Axes]
    #: Quantities or panels, with the record that each needs. The default is the first one with a
    #: record that the run can have; ``""`` stands for all panels, or for the only one.
    of: Mapping[str, str]


_TIMES = {"jct": "jobs", "cct": "coflows"}

_ROWS = {"coflows": "coflows", "training": "training", "ranks": "computations"}

_GANTTS: dict[str, Callable[[Any, Axes | None], Axes]] = {
    "coflows": gantt, "training": edge_gantt, "ranks": rank_gantt}

_USED = {"links": "links", "workers": "training"}

#: Tables that are recorded in any case.
_ALWAYS = ("jobs", "gpus")

_MEANS = dict.fromkeys(METRICS, "jobs")

#: The panels of a timeline; only that of a single run has decisions.
_ACTIVE = {"": "jobs"} | {table: table for table in ("jobs", "coflows", "training")}

_OVER_TIME = _ACTIVE | {"decisions": "decisions"}

#: Plots by what they are of, and by kind. The first of each is the default; see `default_kind`.
PICTURES: dict[str, dict[str, Picture]] = {
    "run": {
        "timeline": Picture(lambda run, of, ax: _timeline(_alone(run), of, ax), _OVER_TIME),
        "gantt": Picture(lambda run, of, ax: _GANTTS[of](run, ax), _ROWS),
        "cdf": Picture(lambda run, of, ax: cdf_curves(_alone(run), of, ax), _TIMES),
        "slowdown": Picture(lambda run, _, ax: slowdown_bars(_alone(run), ax), {"": "coflows"}),
        "utilisation": Picture(lambda run, of, ax: _utilisation(_alone(run), of, ax), _USED),
        "gpus": Picture(lambda run, _, ax: gpu_gantt(run, ax)[0], {"": "gpus"}),
        "usage": Picture(lambda run, of, ax: usage_areas(run, of, ax)[0],
                         dict.fromkeys(("held", "waiting"), "gpus")),
    },
    "comparison": {
        "bars": Picture(lambda compared, _, ax: total_jct_bars(compared.table, ax), {"": "jobs"}),
        "cdf": Picture(lambda compared, of, ax: cdf_curves(compared.results, of, ax), _TIMES),
        "classes": Picture(lambda compared, _, ax: ratio_bars(
            compared.against(), ax, compared.results), {"": "coflows"}),
        "slowdown": Picture(lambda compared, _, ax: slowdown_bars(compared.results, ax),
                            {"": "coflows"}),
        "timeline": Picture(lambda compared, of, ax: _timeline(compared.results, of, ax), _ACTIVE),
        "utilisation": Picture(lambda compared, of, ax: _utilisation(compared.results, of, ax),
                               _USED),
        "usage": Picture(lambda compared, of, ax: usage_curves(compared.results, of, ax)[0],
                         dict.fromkeys(COUNTS, "gpus")),
    },
    "sweep": {
        "bars": Picture(lambda sweep, of, ax, **roles: bar_facets(
            sweep.means([of]), of, among=sweep.grid, ax=ax, **_without_y(roles)), _MEANS),
        "sweep": Picture(lambda sweep, of, ax, **roles: line_facets(
            sweep.means([of]), of, among=sweep.grid, ax=ax, **_without_y(roles)), _MEANS),
        "cdf": Picture(lambda sweep, of, ax, **roles: cdf_facets(sweep, of, ax=ax, **roles),
                       _TIMES),
        "scatter": Picture(lambda sweep, of, ax, **roles: scatter_facets(
            sweep.means([of]), of, among=sweep.grid, ax=ax, **roles), _MEANS),
    },
    "network": {
        "network": Picture(lambda network, _, ax: topology_picture(network.to_networkx(), ax=ax),
                           {"": "links"}),
    },
    "workload": {
        "workload": Picture(lambda workload, of, ax: workload_picture(workload, of, ax)[0],
                            {"": "jobs"} | dict.fromkeys(PARTS, "jobs")),
    },
}

#: Other names of kinds, with the quantity that they imply.
ALIASES = {"jct": ("bars", None), "cct": ("cdf", "cct"), "links": ("utilisation", "links")}

#: Plots over time, of which a part can be drawn.
_TIMED = ("gantt", "gpus", "timeline", "usage", "utilisation")

_ROOM = 0.02  # part of a window beyond its end that is drawn, but not visible

#: Names of the quantities of a plot, if they are not metrics.
_CHOICES = {"cdf": "distribution", "gantt": "table", "utilisation": "part of the system",
            "usage": "count of GPUs", "timeline": "panel", "workload": "panel"}


def check_picture(kind: str | None, what: str, of: str | None = None,
                  record: Collection[str] | None = None,
                  lacking: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str]:
    """Resolve the name of a plot and its quantity, and check that it has the records it needs.

    This is possible before a long run. `what` is a key of `PICTURES`. Without `record`, the records
    besides jobs, the need for them is not checked. `lacking` has records that such runs cannot
    have, with the reason.
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
    if of is not None and not any(choices):
        raise InputError(f"the plot {name!r} has no choice of quantity; leave out {of!r}")
    possible = (each for each, needs in choices.items() if needs not in lacking)
    chosen = of or implied or next(possible, next(iter(choices)))
    if chosen not in choices:
        raise UnknownNameError(_CHOICES.get(name, "metric"), chosen, filter(None, choices))
    needs = choices[chosen]
    if needs in lacking:
        raise InputError(f"the plot {kind or name!r} needs {needs}: {lacking[needs]}; choose "
                         f"from: {', '.join(_drawable(known, lacking))}")
    if record is not None and needs not in {*record, *_ALWAYS}:
        listed = ", ".join(f'"{each}"' for each in (*record, needs))
        raise InputError(f"the plot {kind or name!r} needs {needs} recorded: "
                         f"record = [{listed}]")
    return name, chosen


def default_kind(thing: Any, what: str) -> str:
    """The plot that is drawn by default: for a sweep, one with its numbers on axes."""
    if what == "sweep":
        if drawn_together(thing.table, thing.columns):
            return "scatter"
        if numbers_among(thing.table, thing.columns):
            return "sweep"
    return next(iter(PICTURES[what]))


def _drawable(known: Mapping[str, Picture], lacking: Collection[str]) -> list[str]:
    """List the plots that do not need certain records, with quantities if only some are left."""
    found = []
    for name, picture in sorted(known.items()):
        left = [of for of, needs in picture.of.items() if needs not in lacking]
        if left:
            found.append(name if "" in left or len(left) == len(picture.of)
                         else f"{name} (of {' or '.join(left)})")
    return found


def lacking_on(target: str, shares_links: bool = True) -> dict[str, str]:
    """Map each record that runs on a target cannot have to the reason.

    `target` is ``"network"``, ``"cluster"`` or ``"edge-cloud"``; `shares_links` is whether the
    chunks of an edge-cloud move over links, whose bandwidth an allocator shares.
    """
    lacking = ({"computations": "only runs on a network, or by the fabric, can have them"}
               if target != "network" else {})
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

    The map is empty for a sweep, as its runs have not been read yet.
    """
    if what not in ("run", "comparison"):
        return {}
    result = thing if what == "run" else next(iter(thing.results.values()))
    run = result.run
    lacking = lacking_on("edge-cloud" if on_edge(run) else "cluster" if "cluster" in run
                         else "network", shares_links(run))
    return {name: why for name, why in lacking.items() if name not in result.recorded}


def draw_picture(thing: Any, kind: str | None, what: str, of: str | None = None,
                 ax: Axes | None = None, *, between: Sequence[Quantity] | None = None,
                 **roles: str | None) -> Axes:
    """Draw a plot of a run, a comparison, a sweep, a network or a workload; return the first axes.

    Without a `kind`, it is that of `default_kind`; `what` and `of` are as for `check_picture`. If
    the plot has several panels, a given `ax` gets the one that `of` names, or the first, unless
    none comes first. `between` selects a part of a plot over time. `roles` are for the settings of
    a sweep.
    """
    thing = thing.as_shown() if what in ("comparison", "sweep") else thing
    name, chosen = check_picture(kind or default_kind(thing, what), what, of,
                                 lacking=records_lacking(thing, what))
    require_matplotlib(ax)
    given = roles_given(what, roles)
    if between is not None:
        limits = limits_of(between)
        if name not in _TIMED or what not in ("run", "comparison"):
            raise InputError(f"the plot {name!r} is not over time; between is for: "
                             f"{', '.join(_TIMED)}")
        # Curves of what goes on drop at the end of the window, which must lie beyond the axis.
        room = _ROOM * (limits[1] - limits[0]) if name == "timeline" else 0.0
        thing = within(thing, limits[0], limits[1] + room)
    drawn = PICTURES[what][name].draw(thing, chosen, ax, **given)
    if between is not None:
        drawn.set_xlim(*limits)  # panels share the axis
    if ax is not None:
        adopt_style(ax)
    return drawn


def roles_given(what: str, roles: Mapping[str, str | None]) -> dict[str, str]:
    """Select the roles that are given; only sweeps may have any."""
    given = {role: key for role, key in roles.items() if key is not None}
    if given and what != "sweep":
        raise InputError(f"{', '.join(given)}: only plots of a sweep have settings to choose, not "
                         f"those of a {what}")
    return given


def _without_y(roles: dict[str, str]) -> dict[str, str]:
    """Check that no setting is given as y, which is for the metric."""
    if "y" in roles:
        raise InputError(f"y is the metric, which `of` chooses, not the setting {roles['y']!r}; "
                         "the plot 'scatter' has settings along x and y")
    return roles


def _alone(run: Any) -> dict[str, Any]:
    """Label a run by the names of its policies."""
    return {policies_of(run.run): run}


def _timeline(results: Mapping[str, Any], of: str, ax: Axes | None) -> Axes:
    """Draw the numbers of active things over time, or one panel of these."""
    if not of and ax is None:
        return timeline(results)[0]
    if of == "decisions":
        return decision_marks(next(iter(results.values())), ax)
    return active_curves(results, of or "jobs", ax)


def _utilisation(results: Mapping[str, Any], of: str, ax: Axes | None) -> Axes:
    """Draw the utilisation of links, or of the workers of an edge-cloud, over time."""
    return link_strips(results, ax=ax)[0] if of == "links" else worker_curves(results, ax)
