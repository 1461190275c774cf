"""The pictures of runs, comparisons and sweeps, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError, UnknownNameError
from netsim.plots.bars import total_jct_bars
from netsim.plots.coflows import improvement_bars, link_strips, slowdown_bars
from netsim.plots.curves import cdf_curves, timeline
from netsim.plots.gantt import gantt
from netsim.plots.sweeps import METRICS, mean_bars, sweep_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ALIASES", "PICTURES", "Picture", "check_picture", "draw_picture", "lacking_on_edge",
           "records_lacking"]


class Picture(NamedTuple):
    """What can be drawn.

    Attributes
    ----------
    draw : callable
        Takes what it is a picture of, and one of the keys of `of`. Returns the Axes; the first
        of them where there are several.
    of : mapping of str to str
        What it can be of, the first if nothing is said, and the record without which there is
        nothing to draw. The key is ``""`` where there is nothing to choose.
    also : tuple of str
        More records that are drawn where they are there.
    """

    draw: Callable[[Any, str], Axes]
    of: Mapping[str, str]
    also: tuple[str, ...] = ()


_TIMES = {"jct": "jobs", "cct": "coflows"}
_MEANS = dict.fromkeys(METRICS, "jobs")

#: By what there is a picture of, and by kind; the first of each is drawn if no kind is given.
PICTURES: dict[str, dict[str, Picture]] = {
    "run": {
        "timeline": Picture(lambda run, _: timeline(_alone(run))[0], {"": "jobs"},
                            ("coflows", "decisions")),
        "gantt": Picture(lambda run, _: gantt(run), {"": "coflows"}),
        "cdf": Picture(lambda run, of: cdf_curves(_alone(run), of), _TIMES),
        "slowdown": Picture(lambda run, _: slowdown_bars(_alone(run)), {"": "coflows"}),
        "utilisation": Picture(lambda run, _: link_strips(_alone(run))[0], {"": "links"}),
    },
    "comparison": {
        "bars": Picture(lambda compared, _: total_jct_bars(compared.table), {"": "jobs"}),
        "cdf": Picture(lambda compared, of: cdf_curves(compared.results, of), _TIMES),
        "classes": Picture(lambda compared, _: improvement_bars(compared.against()),
                           {"": "coflows"}),
        "slowdown": Picture(lambda compared, _: slowdown_bars(compared.results), {"": "coflows"}),
        "timeline": Picture(lambda compared, _: timeline(compared.results)[0], {"": "jobs"},
                            ("coflows",)),
        "utilisation": Picture(lambda compared, _: link_strips(compared.results)[0],
                               {"": "links"}),
    },
    "sweep": {
        "bars": Picture(lambda sweep, of: mean_bars(sweep.means([of]), of), _MEANS),
        "sweep": Picture(lambda sweep, of: sweep_lines(sweep.means([of]), y=of), _MEANS),
        "cdf": Picture(lambda sweep, of: cdf_curves(sweep.pooled(f"{of}_s"), of), _TIMES),
    },
}

#: Other names of kinds, and what those are then of.
ALIASES = {"jct": ("bars", None), "cct": ("cdf", "cct"), "links": ("utilisation", None)}


def check_picture(kind: str | None, what: str, of: str | None = None,
                  record: Collection[str] | None = None,
                  lacking: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str]:
    """Find out before a long run whether there is a picture, also of what will be recorded.

    Parameters
    ----------
    kind : str or None
        The picture; the first that there is if None.
    what : {"run", "comparison", "sweep"}
        What it is a picture of.
    of : str, optional
        See `Picture`.
    record : collection of str, optional
        What is recorded beside jobs; not checked if not given.
    lacking : mapping of str to str
        Records that such runs cannot have, and why; see `lacking_on_edge`.

    Returns
    -------
    tuple of str
        The kind, and what it is of.

    Raises
    ------
    UnknownNameError
        If there is no such picture, or it cannot be of that.
    InputError
        If it is a picture of something else, or what it needs is not, or cannot be, recorded.
    """
    known = PICTURES[what]
    name, implied = ALIASES.get(kind, (kind, None)) if kind else (next(iter(known)), None)
    if name not in known:
        others = [f"a {other}" for other, pictures in PICTURES.items() if name in pictures]
        if not others:
            raise UnknownNameError("picture", kind, known)
        raise InputError(f"the picture {kind!r} is of {' or '.join(others)}, not of a {what}; "
                         f"choose from: {', '.join(sorted(known))}")
    choices = known[name].of
    if of is not None and "" in choices:
        raise InputError(f"the picture {name!r} is of one thing only, not of {of!r}")
    chosen = of or implied or next(iter(choices))
    if chosen not in choices:
        raise UnknownNameError("distribution" if choices is _TIMES else "metric", chosen, choices)
    needs = choices[chosen]
    if needs in lacking:
        raise InputError(f"the picture {kind or name!r} needs {needs}: {lacking[needs]}; choose "
                         f"from: {', '.join(_drawable(known, lacking))}")
    if record is not None and needs not in {*record, "jobs"}:
        listed = ", ".join(f'"{each}"' for each in (*record, needs))
        raise InputError(f"the picture {kind or name!r} needs {needs} recorded: "
                         f"record = [{listed}]")
    return name, chosen


def _drawable(known: Mapping[str, Picture], lacking: Collection[str]) -> list[str]:
    """Return the pictures that do without some records, with what they are then of if need be."""
    found = []
    for name, picture in sorted(known.items()):
        left = [of for of, needs in picture.of.items() if needs not in lacking]
        if left:
            found.append(name if len(left) == len(picture.of)
                         else f"{name} (of {' or '.join(left)})")
    return found


def lacking_on_edge(transport: str) -> dict[str, str]:
    """Map each record that runs on an edge-cloud cannot have to the reason.

    Parameters
    ----------
    transport : str
        Its name.
    """
    lacking = dict.fromkeys(("coflows", "flows"), "a run on an edge-cloud has none")
    if transport == "constant":
        lacking |= dict.fromkeys(("links", "decisions"), "a run on an edge-cloud has none with "
                                                         "transport 'constant'")
    return lacking


def records_lacking(thing: Any, what: str) -> dict[str, str]:
    """Map each record that a run, or those of a comparison, cannot have to the reason.

    Parameters
    ----------
    thing : Result, Comparison or sweep
    what : {"run", "comparison", "sweep"}
        Nothing is known of a sweep before its runs are read.
    """
    if what == "sweep":
        return {}
    first = thing if what == "run" else next(iter(thing.results.values()))
    execution = first.run.get("execution")
    if not isinstance(execution, Mapping) or execution.get("name") != "edge":
        return {}
    return lacking_on_edge(str(execution.get("transport")))


def draw_picture(thing: Any, kind: str | None, what: str, of: str | None = None) -> Axes:
    """Draw a run, a comparison or a sweep.

    Parameters
    ----------
    thing : Result, Comparison or sweep
    kind, what, of
        As for `check_picture`.

    Returns
    -------
    Axes
        The first where there are several; its ``figure`` has all.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        As `check_picture` does, or if there is nothing to draw.
    """
    name, chosen = check_picture(kind, what, of, lacking=records_lacking(thing, what))
    return PICTURES[what][name].draw(thing, chosen)


def _alone(run: Any) -> dict[str, Any]:
    """Return a run by the name of its policy."""
    return {run.run["allocator"]["name"]: run}
