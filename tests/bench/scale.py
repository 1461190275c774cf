"""How time and memory grow with hosts, jobs, coflows and flows; draws docs' picture of it.

    python tests/bench/scale.py docs/img/scale.svg
    python tests/bench/scale.py million [ALLOCATOR]

Jobs of 8 ranks anywhere compute, then reduce over a ring, over and over: one coflow of 8 flows per
iteration. With as many jobs as hosts, links have nearly three times as much to carry as they can,
so that most jobs send at any time. Each point is a process of its own: CPU seconds of a run after a
small one, and the peak memory of the process. ``million`` is a million coflows of 1,000 such jobs
on 1,000 hosts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import netsim
from netsim.plots.bars import save_plot
from netsim.plots.style import (
    WIDTH_IN,
    add_legend,
    dress,
    log_values,
    looks,
    name_axes,
    new_figure,
)

sys.path.insert(0, str(Path(__file__).parent))

from cases import ring_jobs

POLICIES = ["maxmin", "parrot"]

#: By what is varied: its values, and hosts, jobs and coflows there; or hosts and flows at once.
POINTS = {
    "hosts": [(hosts, (hosts, 250, 10_000)) for hosts in (64, 256, 1024, 4096)],
    "jobs": [(jobs, (1024, jobs, 10 * jobs)) for jobs in (64, 250, 1000, 2000)],
    "coflows": [(coflows, (1024, 250, coflows)) for coflows in (2500, 10_000, 40_000)],
    "flows at once": [(flows, (4096, flows)) for flows in (1000, 3000, 10_000, 30_000)],
}


def at_once(hosts: int, flows: int) -> netsim.Workload:
    """Return jobs of 8 flows each, all at once, each between two hosts of its own."""
    rng = np.random.default_rng(1)
    jobs = []
    for k in range(flows // 8):
        stage = netsim.Stage("burst", netsim.Flows(range(8), range(8, 16),
                                                   10 ** rng.uniform(6, 9, 8)))
        jobs.append(netsim.JobSpec(k, stages=[stage],
                                   hosts=rng.choice(hosts, 16, replace=False)))
    return netsim.Workload(jobs)


def one(policy: str, hosts: int, *size: int) -> dict[str, float]:
    """Run one point in this process."""
    make = ring_jobs if len(size) == 2 else at_once
    small = (8, 16) if len(size) == 2 else (64,)
    netsim.simulate(netsim.big_switch(16, "10Gbps"), make(16, *small), allocator=policy)
    network, workload = netsim.big_switch(hosts, "10Gbps"), make(hosts, *size)
    start = time.process_time()
    result = netsim.simulate(network, workload, allocator=policy, progress=True)
    spent = time.process_time() - start
    assert result.jobs["finish_s"].notna().all()
    return {"cpu_s": spent, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "decisions": result.run["decisions"], "coflows": int(result.jobs["coflows"].sum())}


def measure() -> pd.DataFrame:
    """Run all points, each in a process of its own."""
    rows = []
    for policy in POLICIES:
        for against, points in POINTS.items():
            for x, size in points:
                words = [sys.executable, __file__, "one", policy, *map(str, size)]
                found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
                rows.append({"policy": policy, "against": against, "x": x} | found)
                print(rows[-1], file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


def slopes(found: pd.DataFrame) -> pd.DataFrame:
    """Return with which power of what is varied time grows, from the second point to the last."""
    last = found.groupby(["policy", "against"]).nth([1, -1])
    return last.groupby(["policy", "against"]).apply(
        lambda two: np.polyfit(np.log(two["x"]), np.log(two["cpu_s"]), 1)[0],
        include_groups=False).unstack().round(2)


def draw(found: pd.DataFrame, path: str) -> None:
    """Draw time and memory against each."""
    figure = new_figure(3.8, 2 * WIDTH_IN)
    axes = figure.subplots(2, len(POINTS), sharey="row", sharex="col")
    for column, against in zip(axes.T, POINTS, strict=True):
        part = found[found["against"] == against]
        for ax, what in zip(column, ("cpu_s", "mb"), strict=True):
            for policy, look in looks(POLICIES).items():
                of = part[part["policy"] == policy]
                ax.plot(of["x"], of[what], label=policy, **look.line())
            ax.set(xscale="log", yscale="log" if what == "cpu_s" else "linear")
            dress(ax, "both")
        column[1].set_ylim(0, 1.1 * found["mb"].max())
        places = [x for x, _ in POINTS[against]]
        column[1].set_xticks(places, [f"{x:,}" for x in places], fontsize=6)
        column[1].set_xticks([], minor=True)
        name_axes(column[1], against)
    log_values(axes[0, 0].yaxis)
    name_axes(axes[0, 0], y="CPU time (s)")
    name_axes(axes[1, 0], y="peak memory (MB)")
    add_legend(axes[0, 0])
    save_plot(axes[0, 0], path)


if __name__ == "__main__":
    if sys.argv[1] == "one":
        print(json.dumps(one(sys.argv[2], *map(int, sys.argv[3:]))))
    elif sys.argv[1] == "million":
        print(one(*(sys.argv[2:3] or ["maxmin"]), 1000, 1000, 1_000_000))
    else:
        measured = measure()
        print(measured.to_string(), slopes(measured), sep="\n")
        draw(measured, sys.argv[1])
