"""The part of a run in a window of time, for pictures over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.results.not_recorded import on_edge
from netsim.units import Quantity, parse_seconds

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result

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
