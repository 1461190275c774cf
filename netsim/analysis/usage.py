"""Utilisation of the workers of an edge-cloud over time, and suspensions of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.analysis.gpus import end_of, steps_of
from netsim.errors import InputError
from netsim.plain import known_names
from netsim.units import Quantity, parse_seconds

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result

#: Relative tolerance for rounding within which instants are equal.
_ROUNDING = 1e-12


@known_names
def edge_utilisation(result: Result, slot: Quantity = "1h") -> pd.DataFrame:
    """Return the utilisation of edge workers in each slot of time.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.EdgeCloud`.
    slot : quantity
        Length of a slot. The first slot begins at time 0.

    Returns
    -------
    DataFrame
        One row per slot up to the last completion, or to the instant at which the run was stopped.
        ``slot_s`` is the beginning of the slot in seconds, and ``utilisation`` the share of the
        workers' time in the slot in which they trained, from 0 to 1.

    Raises
    ------
    InputError
        If the run was not on an edge-cloud, training was not recorded, or the edge has no workers.
    """
    import pandas as pd

    training, workers = result.training, result.run["workers"]
    if not workers:
        raise InputError("edge_utilisation needs a run on a netsim.EdgeCloud with workers")
    length = parse_seconds(slot, "slot", strict=True)
    stopped = result.run["stopped_at_s"]
    last = result.jobs["finish_s"].max() if stopped is None else stopped
    edges = np.arange(int(np.ceil(last / length)) + 1) * length
    edge = training[training["server"] >= 0]
    # Busy time up to each instant: time since all starts, minus time since all ends.
    start = np.sort(edge["start_s"].to_numpy())
    end = np.sort(edge["end_s"].fillna(last).to_numpy())
    busy = _elapsed(start, edges) - _elapsed(end, edges)
    share = np.diff(busy) / (length * workers)
    return pd.DataFrame({"slot_s": edges[:-1], "utilisation": np.clip(share, 0.0, 1.0)})


def worker_usage(result: Result) -> pd.DataFrame:
    """Count the edge workers that train and the jobs that wait, with a row per change.

    A row has its time ``t_s`` and the counts from then until the next row: ``training`` and
    ``waiting``, the number of jobs that have arrived, have not ended and do not train anywhere. The
    last row is for the end of the run.
    """
    at_edge, trained, jobs = result.training, result.ps, result.jobs
    at_edge = at_edge[at_edge["server"] >= 0]
    return steps_of({
        "training": ([at_edge["start_s"]], [at_edge["end_s"]]),
        "waiting": ([jobs["arrival_s"], trained["end_s"]],
                    [trained["start_s"], jobs["finish_s"]])}, end_of(result))


def suspended_jobs(result: Result) -> int:
    """Count how often jobs were suspended, that is, did not train any more after a preemption.

    With a scheduler of whole jobs, each preemption is a suspension. With a scheduler of chunks, a
    job is suspended when a chunk is displaced and no other chunk of the job trains, neither at the
    edge nor in the cloud.
    """
    if "training" not in result.recorded or "preemptions" not in result.jobs:
        raise InputError("suspended_jobs needs a run on a netsim.EdgeCloud with training recorded")
    if (result.training["chunk"] < 0).all():  # whole jobs
        return int(result.jobs["preemptions"].sum())
    finish = result.chunks.set_index(["job", "chunk"])["finish_s"]
    rows = result.training.join(finish, on=["job", "chunk"])
    ends_later = rows["finish_s"].fillna(np.inf) * (1 - _ROUNDING)
    displaced = rows[rows["end_s"] < ends_later]
    spans = dict(list(rows.groupby("job")[["start_s", "end_s"]]))
    suspended = 0
    for job, ends in displaced.groupby("job")["end_s"]:
        instants = np.unique(ends)
        start, end = np.sort(spans[job].to_numpy(), axis=0).T
        # As many chunks have begun as have ended if none of them goes on training.
        begun = np.searchsorted(start, instants * (1 + _ROUNDING), "right")
        gone = np.searchsorted(end, instants * (1 + _ROUNDING), "right")
        suspended += int((begun == gone).sum())
    return suspended


def _elapsed(since: np.ndarray, instants: np.ndarray) -> np.ndarray:
    """Sum, for each instant, the time elapsed since each earlier one of `since`, a sorted array."""
    total = np.concatenate(([0.0], np.cumsum(since)))
    count = np.searchsorted(since, instants, "right")
    passed: np.ndarray = count * instants - total[count]
    return passed
