"""Coflows and computations of jobs over time, as spans on lanes that do not overlap."""

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

#: A span: the index of its job; its start and end in nanoseconds; its lane among those of the job
#: and whether it is the first on that lane; and ``which``: the row of its coflow if at least 0,
#: or else computation ``-1 - which``.
SPAN = np.dtype([("job", "i8"), ("start", "i8"), ("end", "i8"), ("lane", "i8"), ("opens", "?"),
                 ("which", "i8")])

_COLUMNS = ("coflow", "job", "iteration", "stage", "valid_s", "start_s", "finish_s", "cct_s",
            "bytes", "width", "gamma_s", "deadline_s")

#: Overlap of spans, in nanoseconds, that is taken for rounding: the later span is then shortened.
_SLACK = 4


@dataclass(frozen=True, slots=True)
class JobSpans:
    """Coflows and computations of jobs over time.

    Attributes
    ----------
    spans : ndarray of SPAN
        The first spans, in order of their start.
    coflows : DataFrame
        All completed coflows.
    computations : list of Computation
        Computations that spans refer to, and possibly more.
    """

    spans: NDArray[np.void]
    coflows: pd.DataFrame
    computations: list[Computation]


def job_spans(result: Result, workload: Workload | None, most: int) -> JobSpans:
    """Return the coflows and computations of a run as spans.

    Parameters
    ----------
    result : Result
        A result with coflows recorded.
    workload : Workload or None
        The simulated workload; without it, computations are not known.
    most : int
        Largest number of spans: the first ones are returned.

    Raises
    ------
    InputError
        If coflows were not recorded, or the workload is not the one that was simulated.
    """
    coflows = columns_of(table_of(result, "coflows"), _COLUMNS)
    if coflows is None and "execution" in result.run:
        raise not_recorded(result.run, "coflows")  # such runs have no keyword timeline
    if coflows is None:
        raise InputError("coflows were not recorded; simulate with timeline=True")
    # Computations that begin after the last coflow that may be shown are not needed.
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
    """Assign each span to the first free lane of its job."""
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
