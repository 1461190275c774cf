"""Rates of links, and numbers of GPUs, workers and jobs, as the instants at which they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.analysis.gpus import gpu_usage
from netsim.analysis.links import load_of
from netsim.analysis.usage import worker_usage
from netsim.plots.nanoseconds import nanoseconds
from netsim.results.lazy_table import LazyTable, chunks_of
from netsim.results.not_recorded import on_edge
from netsim.results.result import table_of

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result

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
    carried: NDArray[np.float64] = np.zeros(0)
    names: Sequence[str] = ()
    for chunk in _chunks(result):
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


def _chunks(result: Result) -> Iterator[pd.DataFrame]:
    """Yield the table of links in chunks; nothing if links were not recorded."""
    table = table_of(result, "links")
    if table is not None:
        yield from table.chunks() if isinstance(table, LazyTable) else chunks_of(table)


def _changes(result: Result, place: NDArray[np.int64], links: int, most_changes: int
             ) -> tuple[NDArray[np.void], int | None]:
    """Find the changes of the chosen links, and the instant at which they are cut off, if any."""
    last = np.zeros(links, _ROW)
    last["link"] = np.arange(links)
    found, count, until = [np.empty(0, CHANGE)], 0, None
    for chunk in _chunks(result) if links else ():
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


def _rows(chunk: pd.DataFrame, place: NDArray[np.int64]) -> NDArray[np.void]:
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


def _change(at: NDArray[np.int64], counter: NDArray[np.int64] | int, value: NDArray[np.float64]
            ) -> NDArray[np.void]:
    """Build an array of CHANGE from its columns."""
    changes = np.empty(len(at), CHANGE)
    changes["at"], changes["counter"], changes["value"] = at, counter, value
    return changes
