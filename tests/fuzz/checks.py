"""What must be true of whatever a reader accepts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import netsim
from netsim.results.result import Result
from netsim.workload import Workload
from netsim.workload.job import JobSpec

__all__ = ["ALLOCATORS", "SCHEDULERS", "check_folder", "check_network", "check_result",
           "check_workload", "flows_of", "is_small"]

ALLOCATORS = ("maxmin", "parrot", "aalo-lbsf", "lccf", "sebf", "aalo", "sincronia", "srpt", "edf",
              "fifo", "coflow-fair", "equal-split", "varys-deadline")
SCHEDULERS = ("fifo", "sjf", "a-srpt-perfect", "spjf:predictor=mean",
              "wcs-duration:predictor=perfect", "wcs-subtime")
_MOST_FLOWS, _MOST_RANKS, _MOST_JOBS = 2000, 64, 40


def check_workload(workload: Workload) -> None:
    """Hold a workload against what the model promises of any."""
    jobs = workload.jobs
    assert jobs
    assert len({job.id for job in jobs}) == len(jobs)
    assert sorted(jobs, key=lambda job: (job.arrival_s, job.id)) == list(jobs)
    for job in jobs:
        assert math.isfinite(job.arrival_s)
        assert job.arrival_s >= 0
        assert job.iterations >= 1
        assert (bool(job.stages) + (job.pattern is not None) + (job.model is not None)
                + (job.operations is not None)) == 1
        names = [stage.name for stage in job.stages]
        for stage in job.stages:
            assert set(stage.after) | set(stage.finishes_before) <= set(names)
            if stage.flows is not None:
                assert np.isfinite(stage.flows.nbytes).all()
                assert (stage.flows.nbytes >= 0).all()
                assert stage.flows.ranks <= job.ranks
    ids = [stage.coflow_id for job in jobs for stage in job.stages if stage.coflow_id is not None]
    assert len(set(ids)) == len(ids)


def flows_of(job: JobSpec) -> int:
    """Return about how many flows a job sends."""
    once = sum(len(stage.flows) + 1 if stage.flows is not None else 1 for stage in job.stages)
    if job.operations is not None:
        once = 4 * len(job.operations)
    return (once or (job.ranks + 1) ** 2) * job.iterations


def is_small(workload: Workload) -> bool:
    """Say whether a workload can be simulated flow by flow in no time."""
    return (len(workload) <= _MOST_JOBS and sum(map(flows_of, workload)) <= _MOST_FLOWS
            and hosts_of(workload) <= _MOST_RANKS)


def hosts_of(workload: Workload) -> float:
    """Return how many hosts a network must have for a workload; inf if it names hosts."""
    hosts = {host for job in workload for host in job.hosts or range(job.ranks)}
    return math.inf if any(isinstance(host, str) for host in hosts) else max(hosts, default=0) + 1


def check_network(network: netsim.Topology) -> None:
    """Hold a network against what is promised of any."""
    assert network.hosts >= 1
    assert np.isfinite(network.capacity).all()
    assert (network.capacity > 0).all()
    assert len(set(network.link_names)) == network.links
    ends = np.array([0, network.hosts // 2, network.hosts - 1])
    ptr, links = network.routes(ends, ends[::-1].copy(), np.arange(3))
    assert ptr[0] == 0
    assert ptr[-1] == len(links)
    assert ((links >= 0) & (links < network.links)).all()


def check_result(result: Result) -> None:
    """Hold a run to its end against what is promised of any: nothing is faster than alone."""
    jobs = result.jobs
    stopped = result.run.get("stopped_at_s")
    done = jobs[jobs["finish_s"].notna()]
    if stopped is None:
        assert len(done) == len(jobs)
    assert (done["finish_s"] >= done["arrival_s"]).all()
    observed = done["coflows"]
    if "chunks" in done:  # uploads and exchanges
        observed = done["chunks"] * (1 + 2 * done["iterations"])
    # What instants are rounded to, besides a relative tolerance of completion; and what is due
    # within a millionth of an observation interval is noticed at once.
    dust = (1e-6 * done["lower_bound_s"] + 1e-9 * done["finish_s"]
            + 2e-6 * result.run.get("observe_interval", 0) * observed)
    assert (done["jct_s"] >= done["lower_bound_s"] - dust).all()
    assert result.summary()["jobs"] == len(jobs)


def check_folder(result: Result, folder: Path) -> None:
    """Save a result, and read back the same."""
    result.save(folder)
    assert not [path.name for path in folder.parent.iterdir() if path.name.startswith(".")]
    read = netsim.load_result(folder)
    said: Mapping[str, Any] = read.summary()
    for name, value in result.summary().items():
        same = said[name] == value or (isinstance(value, float) and not math.isfinite(value))
        assert same, f"{name} was {value!r}, and is {said[name]!r}"
    for column in result.jobs:
        np.testing.assert_array_equal(read.jobs[column].to_numpy(), result.jobs[column].to_numpy())
