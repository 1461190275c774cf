"""What links carry over time, as the instants at which their rates change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.analysis.links import load_of
from netsim.plots.nanoseconds import nanoseconds
from netsim.results.lazy_table import LazyTable, chunks_of
from netsim.results.result import table_of

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result

__all__ = ["CHANGE", "LinkRates", "link_rates"]

#: From an instant in nanoseconds on, a link (its place among the names) has a rate in bytes per
#: second.
CHANGE = np.dtype([("at", "i8"), ("link", "i8"), ("rate", "f8")])

_ROW = np.dtype([("start", "i8"), ("end", "i8"), ("link", "i8"), ("rate", "f8")])

#: Rates are told apart to so many digits of the capacity, so that equal ones are one.
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class LinkRates:
    """What links carry over time.

    Attributes
    ----------
    names : sequence of str
        The busiest links, in the network's order.
    used : int
        How many links have carried anything.
    changes : ndarray of CHANGE
        In order of time.
    until : int or None
        When it ends, in nanoseconds, if there was more than could be returned.
    """

    names: Sequence[str]
    used: int
    changes: NDArray[np.void]
    until: int | None


def link_rates(result: Result, most_links: int, most: int) -> LinkRates:
    """Return what the busiest links carry over time, row by row without holding the table.

    Parameters
    ----------
    result : Result
        Nothing is returned of one without links.
    most_links : int
        How many links, at most: those that carried most bytes.
    most : int
        How many changes are enough: the others are left out, all from one instant on.
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
    changes, until = _changes(result, place, len(shown), most)
    return LinkRates([names[link] for link in shown], int(np.count_nonzero(carried)),
                     changes[np.lexsort((changes["link"], changes["at"]))], until)


def _chunks(result: Result) -> Iterator[pd.DataFrame]:
    table = table_of(result, "links")
    if table is not None:
        yield from table.chunks() if isinstance(table, LazyTable) else chunks_of(table)


def _changes(result: Result, place: NDArray[np.int64], links: int, most: int
             ) -> tuple[NDArray[np.void], int | None]:
    last = np.zeros(links, _ROW)
    last["link"] = np.arange(links)
    found, count, until = [np.empty(0, CHANGE)], 0, None
    for chunk in _chunks(result) if links else ():
        rows = _rows(chunk, place)
        more, last = _between(np.concatenate((last, rows)))
        found.append(more)
        count += len(more)
        if count > most:
            until = int(rows["start"].max())
            break
    ends = last[last["rate"] > 0]
    found.append(_change(ends["end"], ends["link"], np.zeros(len(ends))))
    changes = np.concatenate(found)
    return (changes if until is None else changes[changes["at"] < until]), until


def _rows(chunk: pd.DataFrame, place: NDArray[np.int64]) -> NDArray[np.void]:
    """Return rows of the links that are shown, as long as a nanosecond at least."""
    link = place[chunk["link"].cat.codes.to_numpy()]
    rows = np.empty(len(chunk), _ROW)
    rows["link"] = link
    rows["start"], rows["end"] = (nanoseconds(chunk[name]) for name in ("start_s", "end_s"))
    rows["rate"] = np.round(load_of(chunk).to_numpy(), _DIGITS) * chunk["capacity"].to_numpy()
    return rows[(link >= 0) & (rows["end"] > rows["start"])]


def _between(rows: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Return what changes from each row of a link to its next, and the last row of each link."""
    rows = rows[np.argsort(rows["link"], kind="stable")]
    one, other = rows[:-1], rows[1:]
    same = one["link"] == other["link"]
    idle = same & (other["start"] > one["end"]) & (one["rate"] > 0)
    new = same & (idle | (one["rate"] != other["rate"]))
    stops = _change(one["end"][idle], one["link"][idle], np.zeros(np.count_nonzero(idle)))
    starts = _change(other["start"][new], other["link"][new], other["rate"][new])
    return np.concatenate((stops, starts)), rows[np.append(~same, True)]


def _change(at: NDArray[np.int64], link: NDArray[np.int64], rate: NDArray[np.float64]
            ) -> NDArray[np.void]:
    changes = np.empty(len(at), CHANGE)
    changes["at"], changes["link"], changes["rate"] = at, link, rate
    return changes
