"""Summary metrics of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import pd
from netsim.results.lazy_table import LazyTable, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PERCENTILES = (50, 95, 99)

#: Columns of jobs on losses with failed hosts, if recorded.
_LOST = ("lost_s", "lost_bytes")

#: Columns of jobs on clusters that the summary adds up.
_OF_JOBS_ON_GPUS = ("preemptions", "useful_gpu_s", "lost_gpu_s", "overhead_gpu_s")

#: Keys of `Result.run` that a summary repeats.
OF_RUN = ("stopped_at_s", "decisions", "simpy_events", "wall_s")

#: Relative lateness that counts as rounding, as of a coflow that gets just the rate that it needs.
_IN_TIME = 1e-9


def times(values: pd.Series, name: str) -> dict[str, float]:
    """Compute the total, mean and percentiles of seconds, with keys such as ``jct_mean_s``.

    NaN, for what did not complete, is left out; if nothing is left, the mean and percentiles are
    NaN.
    """
    return {f"{name}_total_s": float(values.dropna().to_numpy().sum())} | {
        f"{name}_{key}_s": value for key, value in spread(values).items()}


def spread(values: pd.Series) -> dict[str, float]:
    """Compute the ``mean``, ``p50``, ``p95`` and ``p99`` of values without NaN.

    They are NaN if nothing is left.
    """
    known = values.dropna().to_numpy()
    if not len(known):
        return dict.fromkeys(("mean", *(f"p{percent}" for percent in PERCENTILES)), float("nan"))
    return {"mean": float(known.mean())} | {
        f"p{percent}": float(np.percentile(known, percent)) for percent in PERCENTILES}


def deadlines(coflows: pd.DataFrame, overdue: int = 0) -> dict[str, float]:
    """Count deadlines, and the share of them that completed coflows met; empty if there are none.

    `overdue` is the number of coflows past their deadline that had not completed when the run was
    stopped.
    """
    given = coflows[coflows["deadline_s"].notna()]
    count = len(given) + overdue
    if not count:
        return {}
    met = given["finish_s"] <= given["deadline_s"] * (1 + _IN_TIME)
    return {"deadlines": count, "deadlines_met": float(met.sum() / count)}


def summarise(jobs: pd.DataFrame, coflows: pd.DataFrame | LazyTable | None,
              gpus: pd.DataFrame | None, run: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the summary of a run from its tables; see `netsim.Result.summary`.

    ``makespan_s`` is from the first arrival to the last completion. ``deadlines`` counts those of
    coflows that completed or were overdue at the end, and ``deadlines_met`` is the share of them
    that was met. ``lower_bound_total_s`` sums completed jobs, and is NaN if the bound of one is
    unknown. ``stopped_at_s`` is None if all jobs completed. The allocator's counts come last.

    On a cluster or an edge-cloud, ``queue_mean_s`` and percentiles are of the time from arrival to
    start. On a cluster, ``gpu_utilisation`` is the share of the GPUs' time in which a job held
    them, from the first arrival to the last completion or the end of a stopped run, and
    ``idle_while_waiting`` the share in which GPUs were idle although a job waited. GPUs of lost
    servers count as idle; waits after a restart do not count.

    ``restarts``, ``lost_s`` and ``lost_bytes`` are sums over all jobs, if hosts may be lost; there
    is also ``lost_bytes`` if jobs of a cluster run on the fabric and any was preempted.
    """
    done = jobs[jobs["finish_s"].notna()]
    found: dict[str, Any] = {"jobs": len(jobs), "jobs_finished": len(done)}
    found |= times(jobs["jct_s"], "jct")
    found["lower_bound_total_s"] = float(done["lower_bound_s"].sum(skipna=False))
    ends = columns_of(coflows, ("cct_s", "finish_s", "deadline_s"))
    if ends is not None:
        found |= times(ends["cct_s"], "cct") | deadlines(ends, run.get("overdue", 0))
    makespan = done["finish_s"].max() - jobs["arrival_s"].min() if len(done) else float("nan")
    found["makespan_s"] = float(makespan)
    if gpus is not None:
        found["makespan_bound_s"] = _least_makespan(jobs, int(run["gpus"]))
    if "queue_s" in jobs:
        found |= {f"queue_{key}_s": value for key, value in spread(jobs["queue_s"]).items()}
    if gpus is not None:
        end = run["stopped_at_s"]
        found |= _of_gpus(jobs, gpus, int(run["gpus"]),
                          float(jobs["finish_s"].max() if end is None else end))
    if "lost_s" in jobs:
        found["restarts"] = int(jobs["restarts"].sum())
    found |= {name: float(jobs[name].sum()) for name in _LOST if name in jobs}
    found["coflows"] = int(jobs["coflows"].sum())
    found |= {name: float(jobs[name].sum()) for name in ("bytes", "wire_bytes") if name in jobs}
    found |= {key: run[key] for key in OF_RUN}
    return found | run.get("counts", {})


def _least_makespan(jobs: pd.DataFrame, total: int) -> float:
    """Bound the makespan below: by the last job alone, and by all work shared evenly."""
    first = jobs["arrival_s"].min()
    alone = (jobs["arrival_s"] + jobs["lower_bound_s"]).max() - first
    return float(max(alone, (jobs["lower_bound_s"] * jobs["ranks"]).sum() / total))


def _of_gpus(jobs: pd.DataFrame, gpus: pd.DataFrame, total: int, end: float) -> dict[str, float]:
    """Compute the shares of time in which GPUs were held and useful, and idle while jobs waited."""
    arrival = jobs["arrival_s"].to_numpy()
    offered = total * (end - arrival.min())
    found = {name: float(jobs[name].sum()) for name in _OF_JOBS_ON_GPUS if name in jobs}
    if not offered > 0:
        return found | dict.fromkeys(
            ("gpu_utilisation", "useful_utilisation", "idle_while_waiting"), float("nan"))
    begun, gone = gpus["start_s"].to_numpy(), gpus["end_s"].fillna(end).to_numpy()
    held = gpus.drop_duplicates(["job", "start_s"])
    start, stop = held["start_s"].to_numpy(), held["end_s"].fillna(end).to_numpy()
    there = arrival < end
    left = jobs["finish_s"].fillna(end).to_numpy()[there]
    instants = np.unique(np.concatenate([arrival[there], start, stop, left, [end]]))
    waiting = _number_at(instants, arrival[there], left) - _number_at(instants, start, stop)
    taken = _number_at(instants, begun, gone)
    idle = (np.diff(instants) * np.where(waiting > 0, total - taken, 0)[:-1]).sum()
    held_gpu_s = (gone - begun).sum()
    useful = jobs["useful_gpu_s"].sum() if "useful_gpu_s" in jobs else held_gpu_s
    return {"gpu_utilisation": float(held_gpu_s / offered),
            "useful_utilisation": float(useful / offered),
            "idle_while_waiting": float(idle / offered)} | found


def _number_at(instants: Floats, start: Floats, end: Floats) -> Ints:
    """Count the intervals that contain each instant, ends excluded."""
    begun = np.searchsorted(np.sort(start), instants, "right")
    gone = np.searchsorted(np.sort(end), instants, "right")
    return begun - gone
