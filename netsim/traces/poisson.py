"""Poisson arrivals: jobs sampled from a workload (Parrot, Section 6.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.plain import plain_numbers
from netsim.streams import stream
from netsim.traces.problems import whole_option
from netsim.units import parse_seconds
from netsim.workload import JobSpec, Workload


@plain_numbers
def poisson_resample(
    workload: Workload,
    jobs: int = 100,
    mean_interarrival: str | float = "500ms",
    seed: int = 0,
) -> Workload:
    """Sample jobs with replacement; they arrive as a Poisson process (Parrot, Section 6.1).

    The jobs get the ids 0, 1, ... in order of arrival. The time before the first arrival has the
    same distribution as the gaps between arrivals. Jobs and arrivals are drawn from separate
    random streams: a larger number of jobs does not change the earlier ones, and another mean
    only scales the arrivals.

    Parameters
    ----------
    workload : Workload
        The workload to sample from; its name, seed and history are kept.
    jobs : int
        Number of jobs to sample, at least 1.
    mean_interarrival : str or float
        Mean of the exponential gaps between arrivals, greater than 0; seconds.
    seed : int
        Seed of the sample.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    whole_option(jobs, "jobs", 1, 10**6)
    whole_option(seed, "seed", 0)
    mean = parse_seconds(mean_interarrival, "mean_interarrival", strict=True)
    picks = stream(seed, "poisson-jobs").integers(len(workload), size=jobs)
    gaps = stream(seed, "poisson-arrivals").standard_exponential(size=jobs)
    arrivals = np.cumsum(gaps)
    sampled = tuple(_copy(workload.jobs[pick], number, float(arrival) * mean)
                    for number, (pick, arrival) in enumerate(zip(picks, arrivals, strict=True)))
    return replace(workload, jobs=sampled)


def _copy(job: JobSpec, number: int, arrival_s: float) -> JobSpec:
    # A coflow's explicit id is unique in a workload, and a job may be sampled twice.
    stages = tuple(replace(stage, coflow_id=None) for stage in job.stages)
    return replace(job, id=number, arrival_s=arrival_s, stages=stages)
