"""Several runs of one workload, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.analysis.metrics import times

if TYPE_CHECKING:
    from netsim.experiments.result import Result

__all__ = ["LOWER_BOUND", "table_of"]

#: The label of the last row.
LOWER_BOUND = "lower bound"


def table_of(results: Mapping[str, Result]) -> pd.DataFrame:
    """Return one row per result, in their order, and last a row for the lower bound.

    Parameters
    ----------
    results : mapping of str to Result
        By label, all of one workload; the first is the baseline.

    Returns
    -------
    DataFrame
        With the columns

        label, scheme
            `scheme` is the label, or for a run without work conservation that of the one
            with it, if there is one: the two belong side by side.
        work_conservation
            The allocator's option; empty where it has none.
        jobs_finished, jct_total_s, jct_mean_s, jct_p95_s, cct_mean_s, makespan_s
            As in `Result.summary`. NaN for CCTs that were not recorded.
        over_lower_bound
            Total JCT over the lower bound of the jobs that finished.
        over_baseline
            Total JCT over that of the baseline. NaN where one of the two did not finish all.
        decisions, wall_s
            The cost of the run; missing for the lower bound.
    """
    rows = [_row(label, result, results) for label, result in results.items()]
    rows.append(_bound(next(iter(results.values()))))
    table = pd.DataFrame(rows)
    baseline, jobs = rows[0], len(next(iter(results.values())).jobs)
    whole = table["jobs_finished"].eq(jobs) & (baseline["jobs_finished"] == jobs)
    ratio = (table["jct_total_s"] / baseline["jct_total_s"]).where(whole)
    table.insert(list(table.columns).index("over_lower_bound") + 1, "over_baseline", ratio)
    return table.astype({"decisions": "Int64"})


def _row(label: str, result: Result, results: Mapping[str, Result]) -> dict[str, Any]:
    summary = result.summary()
    return {
        "label": label,
        "scheme": _scheme(label, results),
        "work_conservation": result.run["allocator"].get("work_conservation", ""),
        "jobs_finished": summary["jobs_finished"],
        "jct_total_s": summary["jct_total_s"],
        "over_lower_bound": _ratio(summary["jct_total_s"], summary["lower_bound_total_s"]),
        "jct_mean_s": summary["jct_mean_s"],
        "jct_p95_s": summary["jct_p95_s"],
        "cct_mean_s": summary.get("cct_mean_s", math.nan),
        "makespan_s": summary["makespan_s"],
        "decisions": summary["decisions"],
        "wall_s": summary["wall_s"],
    }


def _bound(result: Result) -> dict[str, Any]:
    """Return the row of the bound: each job, and each coflow, alone on the network."""
    jobs = result.jobs
    bound = times(jobs["lower_bound_s"], "jct")
    coflows = result.coflows
    ends = jobs["arrival_s"] + jobs["lower_bound_s"]
    return {
        "label": LOWER_BOUND, "scheme": LOWER_BOUND, "work_conservation": "",
        "jobs_finished": len(jobs),
        "jct_total_s": bound["jct_total_s"],
        "over_lower_bound": _ratio(bound["jct_total_s"], bound["jct_total_s"]),
        "jct_mean_s": bound["jct_mean_s"],
        "jct_p95_s": bound["jct_p95_s"],
        "cct_mean_s": math.nan if coflows is None else coflows["gamma_s"].mean(),
        "makespan_s": ends.max() - jobs["arrival_s"].min(),
        "decisions": None,
        "wall_s": math.nan,
    }


def _ratio(total: float, bound: float) -> float:
    return total / bound if bound > 0 else math.nan


def _scheme(label: str, results: Mapping[str, Result]) -> str:
    own = results[label].run["allocator"]
    if own.get("work_conservation") != "none":
        return label
    for other, result in results.items():
        theirs = result.run["allocator"]
        if other != label and theirs | {"work_conservation": "none"} == own:
            return other
    return label
