"""How time grows with the jobs of a cluster, under A-SRPT and baselines; draws docs' picture of it.

    python tests/bench/scale_jobs.py docs/img/scale-jobs.svg

Jobs that recur, of all models, come every 4 s to 250 servers of 8 GPUs, by the time of an
iteration. CPU seconds of a run after a small one.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

import netsim
from netsim.plots.bars import save_plot
from netsim.plots.style import add_legend, dress, log_values, looks, name_axes, new_axes

SCHEDULERS = {"a-srpt-perfect": "A-SRPT", "spjf:predictor=perfect": "SPJF",
              "wcs-duration:predictor=perfect": "WCS-Duration"}
JOBS = (2_000, 10_000, 50_000, 150_000)


def spent(scheduler: str, jobs: int) -> float:
    """Return CPU seconds of one run."""
    workload = netsim.read_workload(format="recurrent", jobs=jobs, train=0, seed=1,
                                    mean_interarrival="4s")
    cluster = netsim.Cluster(servers=250, gpus=8)
    start = time.process_time()
    result = netsim.simulate(cluster, workload, scheduler=scheduler, execution="asrpt",
                             record=["jobs"])
    found = time.process_time() - start
    assert result.jobs["finish_s"].notna().all()
    return found


def measure() -> pd.DataFrame:
    """Run all points."""
    rows = []
    for scheduler, name in SCHEDULERS.items():
        spent(scheduler, 200)
        for jobs in JOBS:
            rows.append({"scheduler": name, "jobs": jobs, "cpu_s": spent(scheduler, jobs)})
            print(rows[-1], file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


def draw(found: pd.DataFrame, path: str) -> None:
    """Draw time against the number of jobs."""
    ax = new_axes(2.4)
    for name, look in looks(found["scheduler"]).items():
        part = found[found["scheduler"] == name]
        ax.plot(part["jobs"], part["cpu_s"], label=name, **look.line())
    ax.set(xscale="log", yscale="log")
    for axis in (ax.xaxis, ax.yaxis):
        log_values(axis)
    dress(ax, "both")
    name_axes(ax, "jobs", "CPU time (s)")
    add_legend(ax)
    save_plot(ax, path)


if __name__ == "__main__":
    measured = measure()
    for scheduler, part in measured[measured["jobs"] > JOBS[0]].groupby("scheduler", sort=False):
        power = np.polyfit(np.log(part["jobs"]), np.log(part["cpu_s"]), 1)[0]
        print(f"{scheduler}: {part['cpu_s'].iloc[-1]:.1f} s, with the power {power:.2f} of jobs")
    draw(measured, sys.argv[1])
