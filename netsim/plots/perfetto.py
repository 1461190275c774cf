"""The timeline of a run for trace viewers: jobs, decisions and links over time.

It is in the Trace Event Format (JSON), which ui.perfetto.dev and chrome://tracing open.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.atomic import atomic_write
from netsim.errors import InputError, NetsimWarning
from netsim.plots.counters import LinkRates, link_rates
from netsim.plots.lanes import JobSpans, job_spans
from netsim.plots.nanoseconds import microseconds, nanoseconds
from netsim.results.lazy_table import LazyTable, columns_of
from netsim.results.result import records_of, table_of
from netsim.results.store import TRACE, whole_folder, write_records
from netsim.traces.formats import as_workload

if TYPE_CHECKING:
    from netsim.results.result import Result
    from netsim.workload import Workload

__all__ = ["MOST_EVENTS", "MOST_LINKS", "save_with_timeline", "timeline", "write_timeline"]

#: Events that a viewer opens without delay, and links that a reader can still tell apart.
MOST_EVENTS, MOST_LINKS = 200_000, 16

#: Groups of tracks are processes of the format, and tracks are threads. Their ids are distinct.
_JOBS, _POLICY, _LINKS, _DECISIONS, _FIRST_LANE = 1, 2, 3, 4, 5

_GROUPS = {_JOBS: "jobs", _POLICY: "policy", _LINKS: "links"}

#: Number of events that name and order the groups, name the decisions' track, and mark and label
#: the place where a timeline ends early.
_FIXED = 2 * len(_GROUPS) + 4

Json = dict[str, Any]


def timeline(result: Result, workload: Workload | str | Path | None = None, *,
             most_events: int = MOST_EVENTS, most_links: int = MOST_LINKS) -> Json:
    """Return the timeline of a run in the Trace Event Format, as `write_timeline` writes it.

    Parameters
    ----------
    result : Result
        A result with coflows recorded. Links and decisions are shown if they were recorded.
        `netsim.simulate` records all of them with ``timeline=True``.
    workload : Workload, str or path, optional
        The simulated workload, which is needed to show the computations of jobs. By default,
        that of the result's experiment; if there is none, no computations are shown.
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
        If coflows were not recorded, the workload is not the simulated one, or a limit is invalid.

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


def save_with_timeline(result: Result, folder: str | Path, workload: Workload) -> Path:
    """Write a result to a folder as `Result.save` does, and its timeline as ``trace.json``.

    Parameters
    ----------
    result : Result
    folder : path-like
        A folder that is new, empty, or holds an earlier result.
    workload : Workload
        The simulated workload.

    Raises
    ------
    OutputError
        If the folder cannot be written, or holds other files. Nothing is left behind then.
    """
    with whole_folder(folder) as temporary:
        write_records(records_of(result), temporary)
        _stream(result, temporary / TRACE, workload)
    return Path(folder)


def _stream(result: Result, path: Path, workload: Workload | str | Path | None, *,
            most_events: int = MOST_EVENTS, most_links: int = MOST_LINKS) -> None:
    """Write a timeline to a file event by event, so that the text is never held in memory."""
    if "gpus" in result.recorded:
        raise InputError("there is no timeline of a run on a cluster; its table `gpus` says which "
                         "job had which GPUs, from when to when")
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
    jobs: JobSpans
    links: LinkRates
    decisions: pd.DataFrame
    cut: int | None

    @classmethod
    def of(cls, result: Result, workload: Workload | str | Path | None, most_events: int,
           most_links: int) -> _Timeline:
        """Select as much of a run as the limits allow."""
        _check_whole("most_events", most_events, 1000)
        _check_whole("most_links", most_links, 0)
        jobs = job_spans(result, _workload(result, workload), most_events)
        links = link_rates(result, most_links, most_events)
        decisions = _first_decisions(result, most_events)
        kinds = [(jobs.spans["start"], 1 + 2 * jobs.spans["opens"]),
                 (nanoseconds(decisions["time_s"]), np.ones(len(decisions), np.int64)),
                 (links.changes["at"], np.ones(len(links.changes), np.int64))]
        kept, cut = _earliest(kinds, most_events - _FIXED, links.until)
        if cut is not None:  # an event per link is needed to end its counter
            kept, cut = _earliest(kinds, most_events - _FIXED - len(links.names), links.until)
        made = cls(result, JobSpans(jobs.spans[kept[0]], jobs.coflows, jobs.computations),
                   LinkRates(links.names, links.used, links.changes[kept[2]], links.until),
                   decisions[kept[1]], cut)
        if cut is not None:
            warnings.warn(NetsimWarning(made.notice()), stacklevel=3)
        return made

    def notice(self) -> str:
        """Return the notice of a timeline that ends early."""
        assert self.cut is not None
        shown = [f"{np.count_nonzero(self.jobs.spans['which'] >= 0):,} of "
                f"{len(self.jobs.coflows):,} coflows"]
        times = columns_of(table_of(self.result, "decisions"), ["time_s"])
        if times is not None:
            shown.append(f"{len(self.decisions):,} of {len(times):,} decisions")
        return (f"the timeline ends at {self.cut / 1e9:g} s, as it would have too many events; "
                f"it has {' and '.join(shown)}")

    def head(self) -> Json:
        """Return the description of the run at the head of the file."""
        run, links = self.result.run, self.links
        facts = {"workload": run["workload"], "network": run["network"],
                "allocator": run["allocator"]["name"], "netsim": run["version"],
                "links": f"{len(links.names)} of {links.used} that carried something"}
        if self.cut is not None:
            facts["notice"] = self.notice()
        return {"displayTimeUnit": "ms", "otherData": facts}

    def events(self) -> Iterator[Json]:
        """Yield all events: first those that name tracks, then spans, marks and counters."""
        run = self.result.run
        for group, name in _GROUPS.items():
            name = f"{name}: {run['workload']}" if group == _JOBS else name
            name = f"{name}: {run['allocator']['name']}" if group == _POLICY else name
            yield _named("process_name", group, group, name=name)
            yield _named("process_sort_index", group, group, sort_index=group)
        if len(self.decisions):
            yield _named("thread_name", _POLICY, _DECISIONS, name="decisions")
        if self.cut is not None:
            yield _named("process_labels", _JOBS, _JOBS, labels=self.notice())
        yield from self._lanes()
        yield from self._spans()
        yield from self._marks()
        yield from self._counters()

    def _tracks(self) -> NDArray[np.int64]:
        """Return the number of the first track of each job."""
        lanes = np.zeros(len(self.result.jobs), np.int64)
        np.maximum.at(lanes, self.jobs.spans["job"], self.jobs.spans["lane"] + 1)
        return _FIRST_LANE + np.cumsum(lanes) - lanes

    def _lanes(self) -> Iterator[Json]:
        """Yield the events that name and order the tracks of jobs."""
        opening = self.jobs.spans[self.jobs.spans["opens"]]
        ids, names = (self.result.jobs[name].to_numpy() for name in ("job", "name"))
        track = self._tracks()[opening["job"]] + opening["lane"]
        for job, lane, thread in zip(opening["job"].tolist(), opening["lane"].tolist(),
                                     track.tolist(), strict=True):
            label = f"job {ids[job]}" + (f" {names[job]}" if names[job] else "")
            label += f" ({lane + 1})" if lane else ""
            yield _named("thread_name", _JOBS, thread, name=label)
            yield _named("thread_sort_index", _JOBS, thread, sort_index=thread)

    def _spans(self) -> Iterator[Json]:
        """Yield an event per coflow and computation."""
        spans = self.jobs.spans
        sent = spans["which"] >= 0
        rows = iter(self.jobs.coflows.iloc[spans["which"][sent]].to_dict("records"))
        track = self._tracks()[spans["job"]] + spans["lane"]
        for which, thread, start, long in zip(
                spans["which"].tolist(), track.tolist(), microseconds(spans["start"]),
                microseconds(spans["end"] - spans["start"]), strict=True):
            if which >= 0:
                row = next(rows)
                name, kind = str(row["stage"]), "coflow"
                args = _known({key: row[key] for key in (
                    "coflow", "iteration", "stage", "bytes", "width", "gamma_s", "cct_s",
                    "start_s", "deadline_s")})
            else:
                computed = self.jobs.computations[-1 - which]
                name = kind = "compute"
                args = {"iteration": computed.iteration, "stage": computed.stage}
            yield {"name": name, "cat": kind, "ph": "X", "pid": _JOBS, "tid": thread,
                   "ts": start, "dur": long, "args": args}

    def _marks(self) -> Iterator[Json]:
        """Yield an event per decision, and one where the timeline ends early."""
        rows = self.decisions.drop(columns="time_s").to_dict("records")
        for at, row in zip(microseconds(nanoseconds(self.decisions["time_s"])), rows, strict=True):
            yield {"name": "decision", "cat": "decision", "ph": "i", "s": "t", "pid": _POLICY,
                   "tid": _DECISIONS, "ts": at, "args": _known(row)}
        if self.cut is not None:
            yield {"name": self.notice(), "cat": "notice", "ph": "i", "s": "g", "pid": _JOBS,
                   "tid": _JOBS, "ts": microseconds(np.array([self.cut]))[0], "args": {}}

    def _counters(self) -> Iterator[Json]:
        """Yield an event per change of a link's rate."""
        changes = self.links.changes
        if self.cut is not None:
            changes = np.concatenate((changes, _all_off(changes, self.cut)))
        for at, link, rate in zip(microseconds(changes["at"]), changes["link"].tolist(),
                                  changes["rate"].tolist(), strict=True):
            yield {"name": self.links.names[link], "ph": "C", "pid": _LINKS, "tid": _LINKS,
                   "ts": at, "args": {"bytes/s": rate}}


def _check_whole(name: str, value: object, least: int) -> None:
    """Check that an argument is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _workload(result: Result, given: Workload | str | Path | None) -> Workload | None:
    """Return the simulated workload: the given one, or that of the result's experiment, if any."""
    if given is not None:
        return as_workload(given, int(result.run["workload_seed"]))
    if result.spec is None:
        return None
    from netsim.experiment_file.experiment import Experiment

    return Experiment(**result.spec).workload.built


def _first_decisions(result: Result, most: int) -> pd.DataFrame:
    """Read the decisions in chunks, until there are more than `most` of them."""
    table = table_of(result, "decisions")
    if table is None:
        return pd.DataFrame({"time_s": np.zeros(0)})
    parts, count = [], 0
    for chunk in table.chunks() if isinstance(table, LazyTable) else [table]:
        parts.append(chunk)
        count += len(chunk)
        if count > most:
            break
    return pd.concat(parts, ignore_index=True)


def _earliest(kinds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], room: int,
              until: int | None) -> tuple[list[NDArray[np.bool_]], int | None]:
    """Select the earliest events of several kinds that there is room for.

    Parameters
    ----------
    kinds : sequence of (ndarray of int, ndarray of int)
        For each kind, the instants of its events, and the room that each of them takes.
    room : int
        Room for the events of all kinds together.
    until : int or None
        Instant at which the given events end early, if they do.

    Returns
    -------
    kept : list of ndarray of bool
        For each kind, the events to keep.
    cut : int or None
        Instant from which events are left out; None if all fit.
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
    """Return a change to 0 for each link with a rate above 0: counters keep their last value."""
    last = np.unique(changes["link"][::-1], return_index=True)[1]
    off = changes[::-1][last]
    off = off[off["rate"] > 0]
    off["at"], off["rate"] = at, 0.0
    return off


def _named(what: str, group: int, track: int, **args: str | int) -> Json:
    """Build a metadata event, which names, labels or orders a track or a group."""
    return {"name": what, "ph": "M", "pid": group, "tid": track, "args": args}


def _known(row: Mapping[Any, Any]) -> Json:
    """Drop NaN and infinite values, which JSON cannot represent."""
    return {str(key): value for key, value in row.items()
            if not isinstance(value, float) or math.isfinite(value)}
