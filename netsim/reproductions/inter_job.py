"""Policies for jobs that repeat themselves: MLTCP, Crux and CASSINI beside coflow schedulers.

Crux's paper reports for a day of its trace that its priorities use GPUs 5 % more than CASSINI, and
26 % more than Sincronia (Section 6.3). Here, four jobs that train a language model and four with
parameter servers share a leaf-spine. In pairs, two equal jobs share their links with nobody else,
and send for less than half of their time. In the other settings, hosts are drawn: jobs of a kind
are alike, or all differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.base.streams import stream
from netsim.jobs.cassini import interleave
from netsim.jobs.graph import alone
from netsim.jobs.plan import JobPlan
from netsim.llm.job import llm_job
from netsim.network import Topology, leaf_spine
from netsim.plots.style import new_figure
from netsim.reproductions.claims import Claim, Runs, above_one, below_one
from netsim.reproductions.llm_neighbours import ratio_dots
from netsim.reproductions.reproduction import Measurement
from netsim.simulation.simulation import simulate
from netsim.workload import JobSpec, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POLICIES = {"maxmin": "max-min", "parrot": "Parrot", "aalo": "Aalo", "sincronia": "Sincronia",
            "mltcp": "MLTCP", "cassini": "CASSINI", "crux": "Crux"}

SETTINGS = ("pairs", "alike", "different")

OVERSUBSCRIBED = (2, 4)

#: Leaves, hosts on each, and ranks of a job: all hosts are taken.
_LEAVES, _HOSTS, _RANKS = 8, 4, 4

#: Seconds that each job would take alone, in whole iterations.
_LENGTH_S = 8.0

#: What jobs differ in; alike ones have the value in the middle.
_LAYERS, _NBYTES, _COMPUTE_S = (1, 2, 4), (3e8, 9e8, 18e8), (0.08, 0.16, 0.32)

#: How often the jobs of pairs compute what others do.
_LONGER = 4

#: Of the figure.
_HEIGHT_IN = 6.0

#: The use of GPUs under the first over that under the second, on the paper's trace.
_ORDER = {("crux", "cassini"): "1.05", ("crux", "sincronia"): "1.26",
          ("cassini", "sincronia"): "-"}

_METRICS = {"slowdown": "The slowdown", "used": "The use of GPUs"}


# --- runs ----------------------------------------------------------------------------------
def jobs_of(setting: str, network: Topology, seed: int) -> Workload:
    """Draw the jobs of a seed, on hosts of their own."""
    draw = stream(seed, "inter-job", 0)
    hosts = draw.permutation(network.hosts).reshape(-1, _RANKS)
    longer = 1
    if setting == "pairs":  # half of two leaves each
        hosts = np.arange(network.hosts).reshape(-1, 2, 2, 2).swapaxes(1, 2).reshape(-1, _RANKS)
        longer = _LONGER
    jobs = []
    for k, own in enumerate(hosts.tolist()):
        layers, nbytes, compute_s = (draw.integers(0, 3, 3) if setting == "different"
                                     else (1, 1, 1))
        arrival_s = float(draw.uniform(0.0, 0.4))
        if k // 2 % 2:
            job = JobSpec(k, pattern="parameter-server", ranks=_RANKS, nbytes=_NBYTES[nbytes],
                          compute_s=longer * _COMPUTE_S[compute_s])
        else:
            job = replace(llm_job({"name": "llama-7b", "layers": _LAYERS[layers]}, dp=_RANKS,
                                  global_batch=16 * longer, micro_batch=4), id=k)
        period_s = alone(JobPlan(job, network, np.array(own), seed, network.usable).graph(0),
                         _RANKS).period_s
        jobs.append(replace(job, hosts=own, arrival_s=arrival_s, name=f"job {k}",
                            iterations=max(round(_LENGTH_S / period_s), 1)))
    return Workload(sorted(jobs, key=lambda job: (job.arrival_s, job.id)))


def _run(policy: str, jobs: Workload, network: Topology) -> dict[str, float]:
    """The geometric mean slowdown of jobs, and the part of their GPU time in which they compute.

    With CASSINI also the mean delay of jobs, and the mean score of the links that they share.
    """
    allocator, runs, more = policy, jobs, {}
    if policy == "cassini":
        found = interleave(network, jobs)
        allocator, runs = "maxmin", found.workload
        more = {"delay_s": float(found.delay_s.mean()),
                "score": float(np.mean([link.score for link in found.links]))}
    done = simulate(network, runs, allocator=allocator).jobs.set_index("job")
    jct_s, bound_s, computed_s = [], [], []
    for job in jobs:
        plan = JobPlan(job, network, np.array(job.hosts), 0, network.usable)
        jct_s.append(done["finish_s"][job.id] - job.arrival_s)
        bound_s.append(plan.alone_s())
        computed_s.append(job.iterations * alone(plan.graph(0), _RANKS).gpu_s / _RANKS)
    return {"slowdown": float(np.exp(np.mean(np.log(np.divide(jct_s, bound_s))))),
            "used": sum(computed_s) / sum(jct_s), **more}


def measure(policies: Sequence[str], seed: int) -> pd.DataFrame:
    """Run a seed in all settings, under all policies."""
    rows: list[dict[str, Any]] = []
    for setting, ratio in product(SETTINGS, OVERSUBSCRIBED):
        network = leaf_spine(_LEAVES, 1, _HOSTS, "100Gbps", oversubscription=ratio)
        jobs = jobs_of(setting, network, seed)
        rows += ({"setting": setting, "oversubscription": ratio, "policy": policy,
                  **_run(policy, jobs, network)} for policy in policies)
    return pd.DataFrame(rows)


# --- claims --------------------------------------------------------------------------------
def _over(metric: str, one: str, other: str, setting: str, ratio: int, runs: Runs) -> pd.Series:
    """Divide a metric under one policy by that under another, for each seed."""
    where = {"setting": setting, "oversubscription": ratio}
    return runs.of(metric, policy=one, **where) / runs.of(metric, policy=other, **where)


def _claims(policies: Sequence[str]) -> Iterator[Claim]:
    for setting, ratio in product(SETTINGS, OVERSUBSCRIBED):
        where = f"jobs {setting}, {ratio}:1"
        for policy, (metric, called) in product(policies[1:], _METRICS.items()):
            yield Claim(f"{called} with {POLICIES[policy]} over that of max-min, {where}", "-",
                        partial(_over, metric, policy, "maxmin", setting, ratio),
                        below_one if metric == "slowdown" else above_one)
        for (one, other), paper in _ORDER.items():
            if {one, other} <= set(policies):
                yield Claim(f"The use of GPUs with {POLICIES[one]} over that with "
                            f"{POLICIES[other]}, {where}", paper,
                            partial(_over, "used", one, other, setting, ratio), above_one)


# --- the figure ----------------------------------------------------------------------------
def _draw(policies: Sequence[str], table: pd.DataFrame) -> Axes:
    """Draw the use of GPUs over that of max-min, by setting."""
    runs = Runs(table)
    found = ((f"{setting}, {ratio}:1", POLICIES[policy],
              _over("used", policy, "maxmin", setting, ratio, runs))
             for setting, ratio, policy in product(SETTINGS, OVERSUBSCRIBED, policies[1:]))
    ax: Axes = new_figure(_HEIGHT_IN).subplots()
    ratio_dots(found, ax, "use of GPUs / that under max-min")
    return ax


def study(policies: Sequence[str] = tuple(POLICIES)) -> Measurement:
    """Make the study of some of `POLICIES`, of which ``"maxmin"`` must be the first."""
    return Measurement("inter-job", "MLTCP, Crux and CASSINI on a leaf-spine of 2:1 and 4:1",
                       partial(measure, policies), tuple(_claims(policies)),
                       partial(_draw, policies))


FIGURES = (study(),)
