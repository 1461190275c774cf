"""The timeline of a run for trace viewers: jobs, decisions, links and GPUs or workers over time.

It is in the Trace Event Format (JSON), which ui.perfetto.dev and chrome://tracing open.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.links import load_of
from netsim.analysis.usage import gpu_usage, worker_usage
from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.files import atomic_write
from netsim.base.values import known_names
from netsim.errors import InputError, NetsimWarning
from netsim.plots.spans import Spans, gpu_spans, job_spans, known, nanoseconds, rank_spans
from netsim.results.lazy_table import chunks_of, columns_of
from netsim.results.result import on_edge, records_of, shares_links, table_of
from netsim.results.store import TRACE, check_format, whole_folder, write_records
from netsim.traces.formats import as_workload

if TYPE_CHECKING:
    from netsim.results.result import Result
    from netsim.workload import Workload


def microseconds(times: Ints) -> list[Any]:
    """Convert whole nanoseconds to microseconds that a viewer converts back without loss.

    Perfetto multiplies by 1000 and truncates. The nearest float would sometimes give a nanosecond
    less, so that adjacent spans would overlap and be dropped; such values are rounded up.
    """
    near = times / 1000
    less = (near * 1000).astype(np.int64) < times
    found: list[Any] = np.where(less, np.nextafter(near, np.inf), near).tolist()
    return found


# --- counters ------------------------------------------------------------------------------

#: A change of a counter (an index into the names) to a new value, at an instant in nanoseconds. The
#: value of a link is in bytes per second.
CHANGE = np.dtype([("at", "i8"), ("counter", "i8"), ("value", "f8")])

#: Counters of clusters, by their column in the result of `gpu_usage`.
GPU_COUNTS = {"held": "GPUs held", "running": "GPUs running", "waiting": "jobs waiting"}

#: Counters of edge-clouds, by their column in the result of `worker_usage`.
EDGE_COUNTS = {"training": "workers in training", "waiting": "jobs waiting"}

_ROW = np.dtype([("start", "i8"), ("end", "i8"), ("link", "i8"), ("rate", "f8")])

#: Utilisations are rounded to this number of digits, so that rounding errors make no changes.
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Rates of the busiest links over time."""

    names: Sequence[str]  #: in the network's order
    used: int  #: number of links that have carried anything
    changes: NDArray[np.void]  #: array of CHANGE, in order of time
    until: int | None  #: instant in nanoseconds from which on changes are left out


def link_rates(result: Result, most_links: int, most_changes: int) -> LinkRates:
    """Compute the rates of the links that carried most bytes, reading the table in chunks.

    The rates are empty if links were not recorded. After about `most_changes` changes, all changes
    from one instant on are left out.
    """
    carried: Floats = np.zeros(0)
    names: Sequence[str] = ()
    for chunk in chunks_of(table_of(result, "links")):
        names = list(chunk["link"].cat.categories)
        carried = np.resize(carried, len(names))
        np.add.at(carried, chunk["link"].cat.codes.to_numpy(), chunk["bytes"].to_numpy())
    busiest = np.argsort(-carried, kind="stable")[:most_links]
    shown = np.sort(busiest[carried[busiest] > 0])
    place = np.full(len(names), -1)
    place[shown] = np.arange(len(shown))
    changes, until = _changes(result, place, len(shown), most_changes)
    return LinkRates([names[link] for link in shown], int(np.count_nonzero(carried)),
                     changes[np.lexsort((changes["counter"], changes["at"]))], until)


def counters_of(result: Result) -> tuple[list[str], NDArray[np.void]]:
    """Name the counters of a cluster or an edge-cloud, if any, and list their changes by time."""
    if table_of(result, "gpus") is not None:
        usage, names = gpu_usage(result), GPU_COUNTS
    elif on_edge(result.run):
        usage, names = worker_usage(result), EDGE_COUNTS
    else:
        return [], np.empty(0, CHANGE)
    found = []
    for counter, name in enumerate(names):
        values = usage[name].to_numpy(np.float64)
        new = np.diff(values, prepend=0.0) != 0
        found.append(_change(nanoseconds(usage["t_s"])[new], counter, values[new]))
    changes = np.concatenate(found)
    return [*names.values()], changes[np.lexsort((changes["counter"], changes["at"]))]


def _changes(result: Result, place: Ints, links: int, most_changes: int
             ) -> tuple[NDArray[np.void], int | None]:
    """Find the changes of the chosen links, and the instant at which they are cut off, if any."""
    last = np.zeros(links, _ROW)
    last["link"] = np.arange(links)
    found, count, until = [np.empty(0, CHANGE)], 0, None
    for chunk in chunks_of(table_of(result, "links") if links else None):
        rows = _rows(chunk, place)
        more, last = _between(np.concatenate((last, rows)))
        found.append(more)
        count += len(more)
        if count > most_changes:
            until = int(rows["start"].max())
            break
    ends = last[last["rate"] > 0]
    found.append(_change(ends["end"], ends["link"], np.zeros(len(ends))))
    changes = np.concatenate(found)
    return (changes if until is None else changes[changes["at"] < until]), until


def _rows(chunk: pd.DataFrame, place: Ints) -> NDArray[np.void]:
    """Select the rows of links that are shown and that last at least a nanosecond."""
    link = place[chunk["link"].cat.codes.to_numpy()]
    rows = np.empty(len(chunk), _ROW)
    rows["link"] = link
    rows["start"], rows["end"] = (nanoseconds(chunk[name]) for name in ("start_s", "end_s"))
    rows["rate"] = np.round(load_of(chunk).to_numpy(), _DIGITS) * chunk["capacity"].to_numpy()
    return rows[(link >= 0) & (rows["end"] > rows["start"])]


def _between(rows: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Find the changes between successive rows of each link, and the last row of each link."""
    rows = rows[np.argsort(rows["link"], kind="stable")]
    before, after = rows[:-1], rows[1:]
    same = before["link"] == after["link"]
    idle = same & (after["start"] > before["end"]) & (before["rate"] > 0)
    new = same & (idle | (before["rate"] != after["rate"]))
    stops = _change(before["end"][idle], before["link"][idle], np.zeros(np.count_nonzero(idle)))
    starts = _change(after["start"][new], after["link"][new], after["rate"][new])
    return np.concatenate((stops, starts)), rows[np.append(~same, True)]


def _change(at: Ints, counter: Ints | int, value: Floats) -> NDArray[np.void]:
    """Build an array of CHANGE from its columns."""
    changes = np.empty(len(at), CHANGE)
    changes["at"], changes["counter"], changes["value"] = at, counter, value
    return changes


# --- the timeline --------------------------------------------------------------------------

#: Events that a viewer opens without delay, and links that a reader can still tell apart.
MOST_EVENTS, MOST_LINKS = 200_000, 16

#: Groups of tracks are processes of the format, and tracks are threads. Their ids are distinct.
_JOBS, _POLICY, _LINKS, _GPUS, _DECISIONS, _RANKS, _FIRST_LANE = 1, 2, 3, 4, 5, 6, 7

#: Number of events that name and order the groups, name the decisions' track, and mark and label
#: the place where a timeline ends early.
_FIXED = 2 * 5 + 4

Json = dict[str, Any]


@known_names
def timeline(result: Result, workload: Workload | str | Path | None = None, *,
             most_events: int = MOST_EVENTS, most_links: int = MOST_LINKS) -> Json:
    """Return the timeline of a run in the Trace Event Format, as `write_timeline` writes it.

    Parameters
    ----------
    result : Result
        A result with coflows recorded, or of a run on a `netsim.Cluster`, whose GPUs are shown, or
        on a `netsim.EdgeCloud`, whose workers are shown. Coflows, computations of ranks, links and
        decisions are shown if they were recorded; `netsim.simulate` records all of them with
        ``timeline=True``.
    workload : Workload, str or path, optional
        The simulated workload, which is needed to show the computations of jobs. By default,
        that of the result's experiment; if there is none, no computations are shown. On a cluster
        there are none either, since they depend on the placement.
    most_events : int
        Largest number of events, at least 1000. If there are more, the timeline ends early: a
        `NetsimWarning` says when, and so do a mark and a label in the timeline.
    most_links : int
        Largest number of links to show: those that carried most bytes.

    Returns
    -------
    dict
        The events, as ``traceEvents``, and a description of the run.

    Raises
    ------
    InputError
        If there are neither coflows nor GPUs, the workload is not the simulated one, or a limit is
        invalid.

    Examples
    --------
    >>> import netsim
    >>> result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="parrot", timeline=True)
    >>> events = netsim.timeline(result, "parrot-fig2")["traceEvents"]
    >>> [(each["name"], each["ts"], each["dur"]) for each in events if each["ph"] == "X"][1:3]
    [('c0', 0.0, 16000000.0), ('c1', 4000000.0, 8888888.889)]
    """
    made = _Timeline.of(result, workload, most_events, most_links)
    return made.head() | {"traceEvents": list(made.events())}


@known_names
def write_timeline(result: Result, path: str | Path,
                   workload: Workload | str | Path | None = None, *,
                   most_events: int = MOST_EVENTS, most_links: int = MOST_LINKS) -> Path:
    """Write the timeline of a run to a file that ui.perfetto.dev and chrome://tracing open.

    Parameters
    ----------
    result, workload, most_events, most_links
        As for `timeline`.
    path : path-like
        The file, usually with the suffix ``.json``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        As `timeline` does.
    OutputError
        If the file cannot be written; nothing is left behind then.
    """
    with atomic_write(path) as temporary:
        _stream(result, temporary, workload, most_events=most_events, most_links=most_links)
    return Path(path)


def save_with_timeline(result: Result, folder: str | Path, workload: Workload | None,
                       format: str = "csv") -> Path:
    """Write a result to a folder as `Result.save` does, and its timeline as ``trace.json``.

    The simulated workload is not needed on an edge-cloud.
    """
    check_format(format)
    with whole_folder(folder) as temporary:
        write_records(records_of(result), temporary, format)
        _stream(result, temporary / TRACE, workload)
    return Path(folder)


def _stream(result: Result, path: Path, workload: Workload | str | Path | None, *,
            most_events: int = MOST_EVENTS, most_links: int = MOST_LINKS) -> None:
    """Write a timeline to a file event by event, so that the text is never held in memory."""
    made = _Timeline.of(result, workload, most_events, most_links)
    with path.open("w", encoding="ascii") as file:
        file.write(json.dumps(made.head())[:-1] + ', "traceEvents": [')
        for k, event in enumerate(made.events()):
            file.write((",\n" if k else "\n") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")


@dataclass(frozen=True, slots=True)
class _Timeline:
    """The parts of a timeline in order of time, and ``cut``: the instant at which it ends early."""

    result: Result
    spans: dict[int, Spans]  #: by group
    links: LinkRates
    counters: list[str]
    counts: NDArray[np.void]
    decisions: pd.DataFrame
    cut: int | None

    @classmethod
    def of(cls, result: Result, workload: Workload | str | Path | None, most_events: int,
           most_links: int) -> _Timeline:
        """Select as much of a run as the limits allow."""
        _check_whole("most_events", most_events, 1000)
        _check_whole("most_links", most_links, 0)
        spans = {_JOBS: job_spans(result, _workload(result, workload), most_events),
                 _GPUS: gpu_spans(result, most_events), _RANKS: rank_spans(result, most_events)}
        links = link_rates(result, most_links, most_events)
        counters, counts = counters_of(result)
        decisions = _first_decisions(result, most_events)
        kinds = [*((each.table["start"].to_numpy(), 1 + 2 * each.table["opens"].to_numpy())
                   for each in spans.values()),
                 *((at, np.ones(len(at), np.int64)) for at in (
                     nanoseconds(decisions["time_s"]), links.changes["at"], counts["at"]))]
        kept, cut = _earliest(kinds, most_events - _FIXED, links.until)
        if cut is not None:  # an event per counter is needed to end it
            room = most_events - _FIXED - len(links.names) - len(counters)
            kept, cut = _earliest(kinds, room, links.until)
        of_decisions, of_links, of_counts = kept[len(spans):]
        made = cls(result, {group: replace(each, table=each.table[own]) for (group, each), own in
                            zip(spans.items(), kept, strict=False)},
                   replace(links, changes=links.changes[of_links]), counters, counts[of_counts],
                   decisions[of_decisions], cut)
        if cut is not None:
            warnings.warn(NetsimWarning(made.notice()), stacklevel=4)
        return made

    def notice(self) -> str:
        """Describe where a timeline ends early, and what it has."""
        assert self.cut is not None
        shown = [f"{each.shown():,} of {each.total:,} {each.things}"
                 for each in self.spans.values() if each.things]
        times = columns_of(table_of(self.result, "decisions"), ["time_s"])
        if times is not None:
            shown.append(f"{len(self.decisions):,} of {len(times):,} decisions")
        return (f"the timeline ends at {self.cut / 1e9:g} s, as it would have too many events; "
                f"it has {' and '.join(shown)}")

    def head(self) -> Json:
        """Describe the run, for the head of the file."""
        run, links = self.result.run, self.links
        facts = {kind: run[kind] for kind in ("workload", "network", "cluster") if kind in run}
        facts |= {kind: run[kind]["name"] for kind in
                  ("scheduler", "allocator" if shares_links(run) else "execution") if kind in run}
        facts |= {"netsim": run["version"],
                  "links": f"{len(links.names)} of {links.used} that carried something"}
        if self.cut is not None:
            facts["notice"] = self.notice()
        return {"displayTimeUnit": "ms", "otherData": facts}

    def events(self) -> Iterator[Json]:
        """Yield all events: first those that name tracks, then spans, marks and counters."""
        for group, name in self._groups().items():
            yield _named("process_name", group, group, name=name)
            yield _named("process_sort_index", group, group, sort_index=group)
        if len(self.decisions):
            yield _named("thread_name", _POLICY, _DECISIONS, name="decisions")
        if self.cut is not None:
            yield _named("process_labels", _JOBS, _JOBS, labels=self.notice())
        after = _FIRST_LANE
        for group, spans in self.spans.items():
            tracks, after = _tracks(spans, after)
            yield from _lanes(group, spans, tracks)
            yield from _slices(group, spans, tracks)
        yield from self._marks()
        yield from self._counters()

    def _groups(self) -> dict[int, str]:
        """The names of the groups."""
        run = self.result.run
        groups = {_JOBS: f"jobs: {run['workload']}",
                  _POLICY: f"policy: {run['allocator']['name']}", _LINKS: "links"}
        if not shares_links(run):
            groups = {_JOBS: groups[_JOBS]}
        if self.spans[_RANKS].owners:
            groups[_RANKS] = "ranks"
        if self.counters:
            noun = "workers" if on_edge(run) else "GPUs"
            groups[_GPUS] = f"{noun}: {run['scheduler']['name']}"
        return groups

    def _marks(self) -> Iterator[Json]:
        """Yield an event per decision, and one where the timeline ends early."""
        rows = self.decisions.drop(columns="time_s").to_dict("records")
        for at, row in zip(microseconds(nanoseconds(self.decisions["time_s"])), rows, strict=True):
            yield {"name": "decision", "cat": "decision", "ph": "i", "s": "t", "pid": _POLICY,
                   "tid": _DECISIONS, "ts": at, "args": known(row)}
        if self.cut is not None:
            yield {"name": self.notice(), "cat": "notice", "ph": "i", "s": "g", "pid": _JOBS,
                   "tid": _JOBS, "ts": microseconds(np.array([self.cut]))[0], "args": {}}

    def _counters(self) -> Iterator[Json]:
        """Yield an event per change of a link's rate, or of a number of GPUs or jobs."""
        for group, names, unit, changes in (
                (_LINKS, self.links.names, "bytes/s", self.links.changes),
                (_GPUS, self.counters, "number", self.counts)):
            if self.cut is not None:
                changes = np.concatenate((changes, _all_off(changes, self.cut)))
            for at, counter, value in zip(microseconds(changes["at"]), changes["counter"].tolist(),
                                          changes["value"].tolist(), strict=True):
                yield {"name": names[counter], "ph": "C", "pid": group, "tid": group, "ts": at,
                       "args": {unit: value}}


def _tracks(spans: Spans, first: int) -> tuple[Ints, int]:
    """Number the track of each span, and the first one after all; owners have as many as lanes."""
    owner, lane = (spans.table[name].to_numpy() for name in ("owner", "lane"))
    lanes = np.zeros(len(spans.owners), np.int64)
    np.maximum.at(lanes, owner, lane + 1)
    ends = first + np.cumsum(lanes)
    return (ends - lanes)[owner] + lane, first + int(lanes.sum())


def _lanes(group: int, spans: Spans, tracks: Ints) -> Iterator[Json]:
    """Yield the events that name and order the tracks of a group."""
    opens = spans.table["opens"].to_numpy()
    for owner, lane, track in zip(*(spans.table.loc[opens, name].tolist()
                                    for name in ("owner", "lane")), tracks[opens].tolist(),
                                  strict=True):
        label = spans.owners[owner] + (f" ({lane + 1})" if lane else "")
        yield _named("thread_name", group, track, name=label)
        yield _named("thread_sort_index", group, track, sort_index=track)


def _slices(group: int, spans: Spans, tracks: Ints) -> Iterator[Json]:
    """Yield an event per span."""
    table = spans.table
    start, stop = (table[name].to_numpy() for name in ("start", "stop"))
    for label, kind, track, at, long, details in zip(
            table["label"], table["kind"], tracks.tolist(), microseconds(start),
            microseconds(stop - start), spans.details(), strict=True):
        yield {"name": label, "cat": kind, "ph": "X", "pid": group, "tid": track, "ts": at,
               "dur": long, "args": details}


def _check_whole(name: str, value: object, least: int) -> None:
    """Check that an argument is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _workload(result: Result, given: Workload | str | Path | None) -> Workload | None:
    """The simulated workload: the given one, or that of the result's experiment, if any.

    None on a cluster, where the stages of jobs depend on their placement, and on an edge-cloud.
    """
    if table_of(result, "gpus") is not None or on_edge(result.run):
        return None
    if given is not None:
        return as_workload(given, int(result.run["workload_seed"]))
    if result.spec is None:
        return None
    from netsim.experiment_file.experiment import Experiment

    return Experiment(**result.spec).workload.built


def _first_decisions(result: Result, most: int) -> pd.DataFrame:
    """Read the decisions in chunks, until there are more than `most` of them."""
    parts, count = [], 0
    for chunk in chunks_of(table_of(result, "decisions")):
        parts.append(chunk)
        count += len(chunk)
        if count > most:
            break
    return pd.concat(parts or [pd.DataFrame({"time_s": np.zeros(0)})], ignore_index=True)


def _earliest(kinds: Sequence[tuple[Ints, Ints]], room: int,
              until: int | None) -> tuple[list[Bools], int | None]:
    """Select the earliest events of several kinds that there is room for.

    Each kind has the instants of its events, and the room that each of them takes. Return masks of
    the events to keep, and the instant from which on events are left out, None if all fit. `until`
    is such an instant for events that the caller has left out already.
    """
    at, cost = (np.concatenate(columns) for columns in zip(*kinds, strict=True))
    order = np.argsort(at, kind="stable")
    count = int(np.searchsorted(np.cumsum(cost[order]), room, "right"))
    ends = math.inf if count == len(at) else int(at[order[count]])
    if until is not None and until <= ends:
        count, ends = int(np.searchsorted(at[order], until)), until
    keep = np.zeros(len(at), np.bool_)
    keep[order[:count]] = True
    kept = np.split(keep, np.cumsum([len(when) for when, _ in kinds])[:-1])
    return kept, None if ends == math.inf else int(ends)


def _all_off(changes: NDArray[np.void], at: int) -> NDArray[np.void]:
    """Make a change to 0 for each counter above 0, as counters keep their last value."""
    last = np.unique(changes["counter"][::-1], return_index=True)[1]
    off = changes[::-1][last]
    off = off[off["value"] > 0]
    off["at"], off["value"] = at, 0.0
    return off


def _named(what: str, group: int, track: int, **args: str | int) -> Json:
    """Build a metadata event, which names, labels or orders a track or a group."""
    return {"name": what, "ph": "M", "pid": group, "tid": track, "args": args}
