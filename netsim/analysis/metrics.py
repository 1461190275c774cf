"""Metrics of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from netsim.experiments.result import Result

__all__ = ["spread", "summarise", "times"]

PERCENTILES = (50, 95, 99)


def times(values: pd.Series, name: str) -> dict[str, float]:
    """Return total, mean and percentiles of completion times, keys ending in ``_s``.

    Parameters
    ----------
    values : Series of float
        Seconds; NaN (not completed) is left out. All keys are NaN if nothing is left.
    name : str
        Prefix of the keys, such as ``"jct"``.
    """
    return {f"{name}_total_s": float(values.dropna().to_numpy().sum())} | {
        f"{name}_{key}_s": value for key, value in spread(values).items()}


def spread(values: pd.Series) -> dict[str, float]:
    """Return the ``mean``, ``p50``, ``p95`` and ``p99`` of what is not NaN; all NaN of nothing."""
    known = values.dropna().to_numpy()
    if not len(known):
        return dict.fromkeys(("mean", *(f"p{percent}" for percent in PERCENTILES)), float("nan"))
    return {"mean": float(known.mean())} | {
        f"p{percent}": float(np.percentile(known, percent)) for percent in PERCENTILES}


def summarise(result: Result) -> dict[str, Any]:
    """Return the summary of a run; see `Result.summary`.

    ``makespan_s`` is from the first arrival to the last completion. CCTs are there if
    coflows were recorded. ``lower_bound_total_s`` sums the bounds of the jobs completed.
    """
    jobs = result.jobs
    done = jobs[jobs["finish_s"].notna()]
    found: dict[str, Any] = {"jobs": len(jobs), "jobs_finished": len(done)}
    found |= times(jobs["jct_s"], "jct")
    found["lower_bound_total_s"] = float(done["lower_bound_s"].sum())
    if result.coflows is not None:
        found |= times(result.coflows["cct_s"], "cct")
    makespan = done["finish_s"].max() - jobs["arrival_s"].min() if len(done) else float("nan")
    found["makespan_s"] = float(makespan)
    found["coflows"] = int(jobs["coflows"].sum())
    found["bytes"] = float(jobs["bytes"].sum())
    return found | {key: result.run[key] for key in ("decisions", "events", "wall_s")}
