"""How busy the workers of an edge-cloud are, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.units import Quantity, parse_seconds

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result

__all__ = ["edge_utilisation", "suspended_jobs"]

#: Relative: instants that are the same, but for rounding.
_ROUNDING = 1e-12


def edge_utilisation(result: Result, slot: Quantity = "1h") -> pd.DataFrame:
    """Return the share of the edge workers' time, in each slot, in which they trained.

    Parameters
    ----------
    result : Result
        Of a run on a `netsim.EdgeCloud`.
    slot : quantity
        The length of a slot; the first one begins at time 0.

    Returns
    -------
    DataFrame
        One row per slot up to the last completion: slot_s (its beginning), utilisation, from 0
        to 1.

    Raises
    ------
    InputError
        If it is a run of something else, or has no workers.
    """
    import pandas as pd

    if not {"training", "workers"} <= {*result.recorded} or not len(result.workers):
        raise InputError("edge_utilisation is of runs on a netsim.EdgeCloud with workers")
    length = parse_seconds(slot, "slot", strict=True)
    edges = np.arange(int(np.ceil(result.jobs["finish_s"].max() / length)) + 1) * length
    edge = result.training[result.training["server"] >= 0]
    # Busy time up to each instant: of those who have begun, less what lies behind it.
    start, end = np.sort(edge["start_s"].to_numpy()), np.sort(edge["end_s"].to_numpy())
    busy = _elapsed(start, edges) - _elapsed(end, edges)
    share = np.diff(busy) / (length * len(result.workers))
    return pd.DataFrame({"slot_s": edges[:-1], "utilisation": np.clip(share, 0.0, 1.0)})


def suspended_jobs(result: Result) -> int:
    """Return how often a job was suspended as a whole, so that none of its chunks trained.

    Of schedulers of whole jobs these are the preemptions. A scheduler of chunks suspends a job
    when the only ones of its chunks that train, be it at the edge or in the cloud, are displaced.

    Parameters
    ----------
    result : Result
        Of a run on a `netsim.EdgeCloud`.

    Raises
    ------
    InputError
        If it is a run of something else, or training or chunks were not recorded.
    """
    if "training" not in result.recorded or "preemptions" not in result.jobs:
        raise InputError("suspended_jobs is of runs on a netsim.EdgeCloud, with training recorded")
    if (result.training["chunk"] < 0).all():  # whole jobs
        return int(result.jobs["preemptions"].sum())
    finish = result.chunks.set_index(["job", "chunk"])["finish_s"]
    rows = result.training.join(finish, on=["job", "chunk"])
    displaced = rows[rows["end_s"] < rows["finish_s"] * (1 - _ROUNDING)]
    spans = dict(list(rows.groupby("job")[["start_s", "end_s"]]))
    suspended = 0
    for job, ends in displaced.groupby("job")["end_s"]:
        instants = np.unique(ends)
        start, end = np.sort(spans[job].to_numpy(), axis=0).T
        # Who has begun by then, and who has ended: the same number if nobody goes on.
        begun = np.searchsorted(start, instants * (1 + _ROUNDING), "right")
        gone = np.searchsorted(end, instants * (1 + _ROUNDING), "right")
        suspended += int((begun == gone).sum())
    return suspended


def _elapsed(since: np.ndarray, instants: np.ndarray) -> np.ndarray:
    """Return the sum of what has passed at each instant since each of these before it."""
    total = np.concatenate(([0.0], np.cumsum(since)))
    count = np.searchsorted(since, instants, "right")
    passed: np.ndarray = count * instants - total[count]
    return passed
