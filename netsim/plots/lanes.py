"""What jobs do over time, as spans on lanes: those of one lane do not overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.analysis.computing import Computation, computations
from netsim.errors import InputError
from netsim.plots.nanoseconds import nanoseconds
from netsim.results.lazy_table import columns_of
from netsim.results.not_recorded import not_recorded
from netsim.results.result import table_of

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result
    from netsim.workload import Workload

__all__ = ["SPAN", "JobSpans", "job_spans"]

#: A span: its job's place, when it begins and ends in nanoseconds, its lane among the job's and
#: whether it is the first on it; and which row of the coflows it is, or, counted from -1
#: downwards, which computation.
SPAN = np.dtype([("job", "i8"), ("start", "i8"), ("end", "i8"), ("lane", "i8"), ("opens", "?"),
                 ("which", "i8")])

_COLUMNS = ("coflow", "job", "iteration", "stage", "valid_s", "start_s", "finish_s", "cct_s",
            "bytes", "width", "gamma_s", "deadline_s")

#: Nanoseconds that spans may overlap by, from rounding: the later one then begins later.
_SLACK = 4


@dataclass(frozen=True, slots=True)
class JobSpans:
    """What jobs do over time.

    Attributes
    ----------
    spans : ndarray of SPAN
        The first of them, in order of their beginning.
    coflows : DataFrame
        All that have completed.
    computations : list of Computation
        Those of which there are spans, and some more.
    """

    spans: NDArray[np.void]
    coflows: pd.DataFrame
    computations: list[Computation]


def job_spans(result: Result, workload: Workload | None, most: int) -> JobSpans:
    """Return what jobs do over time.

    Parameters
    ----------
    result : Result
        With coflows recorded.
    workload : Workload or None
        What was simulated; without it, computations are not known.
    most : int
        How many spans to return, at most.

    Raises
    ------
    InputError
        If coflows were not recorded, or the workload is another one.
    """
    coflows = columns_of(table_of(result, "coflows"), _COLUMNS)
    if coflows is None and "execution" in result.run:
        raise not_recorded(result.run, "coflows")  # there is no keyword timeline
    if coflows is None:
        raise InputError("coflows were not recorded; simulate with timeline=True")
    # Of more coflows than may be shown, only what begins before the last of them counts.
    valid = coflows["valid_s"].to_numpy()
    latest = np.partition(valid, most)[most] if len(valid) > most else np.inf
    computed = [] if workload is None else [
        each for each in computations(result, workload) if each.start_s <= latest]
    spans = np.zeros(len(coflows) + len(computed), SPAN)
    sent, rest = spans[:len(coflows)], spans[len(coflows):]
    ids = result.jobs["job"].to_numpy()
    order = np.argsort(ids)
    sent["job"] = order[np.searchsorted(ids, coflows["job"].to_numpy(), sorter=order)]
    sent["start"], sent["end"] = (nanoseconds(coflows[name]) for name in ("valid_s", "finish_s"))
    sent["which"] = np.arange(len(sent))
    if computed:
        rest["job"] = [each.job for each in computed]
        rest["start"] = nanoseconds([each.start_s for each in computed])
        rest["end"] = nanoseconds([each.end_s for each in computed])
    rest["which"] = -1 - np.arange(len(rest))
    first = spans[np.lexsort((spans["which"], spans["end"], spans["start"]))[:most]]
    _pack(first)
    return JobSpans(first, coflows, computed)


def _pack(spans: NDArray[np.void]) -> None:
    """Put each span on the first lane of its job that is free when it begins."""
    free: dict[int, list[int]] = {}
    packed = []
    columns = (spans[name].tolist() for name in ("job", "start", "end"))
    for job, start, end in zip(*columns, strict=True):
        lanes = free.setdefault(job, [])
        lane = next((lane for lane, until in enumerate(lanes) if until <= start + _SLACK),
                    len(lanes))
        opens = lane == len(lanes)
        start = start if opens else max(start, lanes[lane])
        end = max(start, end)
        lanes[lane:lane + 1] = [end]
        packed.append((start, end, lane, opens))
    names = ["start", "end", "lane", "opens"]
    filled = np.array(packed, [(name, SPAN[name]) for name in names])
    for name in names:
        spans[name] = filled[name]
