"""GPUs of a cluster over time: held, in use, and waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.plain import known_names

if TYPE_CHECKING:
    import pandas as pd

    from netsim.results.result import Result

#: States of GPUs that a job holds, or workers of an edge-cloud, with the columns in which each
#: begins and ends. On clusters nothing is uploaded.
STATES = {"uploading": ("start_s", "data_s"), "restoring": ("data_s", "run_s"),
          "running": ("run_s", "stop_s"), "saving": ("stop_s", "end_s")}

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@known_names
def gpu_usage(result: Result) -> pd.DataFrame:
    """Return the number of GPUs in use, and of jobs that wait for GPUs, over time.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.Cluster`.

    Returns
    -------
    DataFrame
        One row per change, with its time, ``t_s``, and the values from then until the next row:
        ``held``, the number of GPUs that jobs hold; ``running``, the number of held GPUs whose jobs
        make progress, rather than restore or save their state; and ``waiting``, the number of jobs
        that have arrived, have not ended and hold no GPUs. The last row is for the end of the run.
        GPUs of lost servers do not count as held.

    Raises
    ------
    NotRecordedError
        If the run was not on a cluster.

    Examples
    --------
    >>> import netsim
    >>> jobs = [netsim.JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=0, compute_s=1)
    ...         for k in (0, 1)]
    >>> gpu_usage(netsim.simulate(netsim.Cluster(1, 3), jobs, scheduler="fifo"))
       t_s  held  running  waiting
    0  0.0     2        2        1
    1  1.0     2        2        0
    2  2.0     0        0        0
    """
    rows, end = _with_all_columns(result.gpus), end_of(result)
    segments = segments_of(rows)
    arrival_s, finish_s = result.jobs["arrival_s"], result.jobs["finish_s"]
    changes = {"held": ([rows["start_s"]], [rows["end_s"]]),
               "running": ([rows["run_s"]], [rows["stop_s"]]),
               "waiting": ([arrival_s, segments["end_s"]], [segments["start_s"], finish_s])}
    return steps_of(changes, end)


def steps_of(changes: Mapping[str, tuple[list[Any], list[Any]]], end: float) -> pd.DataFrame:
    """Count what has begun and not ended, with a row whenever a count changes and at `end`.

    `changes` has, for each count, columns of the instants at which it grows by one and of those at
    which it falls by one, in seconds; NaN for what has not happened. ``t_s`` is the instant of a
    row.
    """
    import pandas as pd

    known = {name: [_until(end, columns) for columns in both] for name, both in changes.items()}
    instants = np.unique(np.concatenate([[end], *(each for both in known.values()
                                                  for each in both)]))
    counts = {name: np.searchsorted(gained, instants, "right")
              - np.searchsorted(lost, instants, "right")
              for name, (gained, lost) in known.items()}
    values = np.array(list(counts.values()))
    differs = (np.diff(values, axis=1, prepend=-1) != 0).any(axis=0)
    differs[-1] = True
    return pd.DataFrame({"t_s": instants[differs]}
                        | {name: count[differs] for name, count in counts.items()})


def held_gpus(result: Result) -> pd.DataFrame:
    """The table ``gpus`` with a column ``number``, the number of the GPU in the cluster.

    Unknown times are replaced, so that start_s <= run_s <= stop_s <= end_s.
    """
    return _with_known_times(_with_all_columns(result.gpus).assign(number=_numbers(result)),
                             end_of(result))


def held_workers(result: Result) -> pd.DataFrame | None:
    """The table ``held`` of whole jobs on an edge-cloud; None if there is none, as with chunks.

    Unknown times are replaced, so that start_s <= data_s <= run_s <= stop_s <= end_s.
    """
    if "held" not in result.recorded:
        return None
    return _with_known_times(result.held.copy(), end_of(result))


def suspended(held: pd.DataFrame, ends: pd.Series) -> pd.DataFrame:
    """List the intervals in which preempted jobs held no workers: job, start_s and end_s.

    `held` is as from `held_workers`. `ends` has, by job, the time in seconds at which the job
    ended, or the run if the job did not end.
    """
    spells = segments_of(held).sort_values(["job", "start_s"], kind="stable")
    again = spells.groupby("job")["start_s"].shift(-1).fillna(spells["job"].map(ends))
    rows = spells[["job"]].assign(start_s=spells["end_s"], end_s=again)
    return rows[(spells["reason"] == "preempt") & (rows["end_s"] > rows["start_s"])]


def _with_known_times(rows: pd.DataFrame, end: float) -> pd.DataFrame:
    """Replace unknown times in each row by its next known time, or by the end of the run."""
    rows["end_s"] = rows["end_s"].fillna(end)
    for name in ("run_s", "stop_s"):
        rows[name] = np.fmin(rows[name], rows["end_s"])
    rows["data_s"] = np.fmin(rows["data_s"], rows["run_s"])
    return rows


def gpus_per_server(result: Result) -> Ints:
    """The number of GPUs of each server of the cluster."""
    try:
        return np.array(result.run["gpus_per_server"], np.int64)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise InputError("the result does not say how many GPUs each server has; if it "
                         "is from an earlier version of netsim, run it again") from None


def segments_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the first row of each segment, in which a job holds the same GPUs."""
    return rows.drop_duplicates(["job", "start_s"])


def end_of(result: Result) -> float:
    """The time at which a run was stopped or, if it was not, its last job ended; in seconds."""
    stopped = result.run["stopped_at_s"]
    return float(result.jobs["finish_s"].max() if stopped is None else stopped)


def _with_all_columns(gpus: pd.DataFrame) -> pd.DataFrame:
    """Copy the table and add its missing columns: without saving or restoring, jobs always run."""
    given = {"data_s": gpus["start_s"], "run_s": gpus["start_s"], "stop_s": gpus["end_s"],
             "reason": None}
    return gpus.assign(**{name: column for name, column in given.items() if name not in gpus})


def _numbers(result: Result) -> Ints:
    """The number in the cluster of the GPU of each row of the table ``gpus``."""
    server, gpu = (result.gpus[name].to_numpy(np.int64) for name in ("server", "gpu"))
    first = np.concatenate(([0], np.cumsum(gpus_per_server(result))))
    known = (server >= 0) & (server < len(first) - 1) & (gpu >= 0)
    numbers: Ints = first[np.where(known, server, 0)] + gpu
    if not (known & (numbers < first[np.where(known, server, 0) + 1])).all():
        raise InputError("the table gpus has a GPU that is not in the cluster, which has "
                         f"{first[-1]:,} GPUs on {len(first) - 1:,} servers")
    return numbers


def _until(end: float, columns: list[Any]) -> Floats:
    """Sort the instants of some columns, and drop those after the end of a run."""
    times: Floats = np.sort(np.concatenate([np.asarray(each, np.float64) for each in columns]))
    return times[:np.searchsorted(times, end, "right")]  # NaN, for what has not been, come last
