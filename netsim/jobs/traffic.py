"""The bytes that jobs send, and that pairs of their ranks exchange in an iteration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.columns import Flows
from netsim.errors import InputError
from netsim.jobs.plan import draw_stages, with_drawn_ranks
from netsim.jobs.ranked_stages import operations_of
from netsim.programs import Programs
from netsim.workload import JobColumns, JobSpec, Stage, Workload

#: There is a number for each pair of ranks.
MOST_RANKS = 4096


def traffic_of(job: JobSpec) -> NDArray[np.float64]:
    """Sum the bytes that each pair of ranks exchanges in an iteration, in both directions together.

    The result is symmetric, with 0 on the diagonal; see `check_traffic` for the jobs that it takes.
    """
    check_traffic(job)
    between = np.zeros((job.ranks, job.ranks))
    for flows, count in _sent(job):
        np.add.at(between, (flows.src, flows.dst), flows.nbytes * count)
    between += between.T
    np.fill_diagonal(between, 0.0)
    return between


def bytes_of(workload: Workload) -> NDArray[np.float64]:
    """Compute the bytes that each job of a workload sends in all its iterations."""
    jobs = workload.jobs
    if isinstance(jobs, JobColumns):
        columns = jobs.columns
        return np.add.reduceat(columns.nbytes, np.cumsum(columns.counts) - columns.counts)
    return np.array([_bytes_of_job(job, workload.seed) for job in jobs])


def _bytes_of_job(job: JobSpec, seed: int) -> float:
    """Return the bytes that a job sends; draw those of its pattern."""
    job = with_drawn_ranks(job, seed)
    if job.operations is not None or job.stages:
        return job.iterations * sum(count * float(flows.nbytes.sum())
                                    for flows, count in _sent(job))
    if job.redraw:
        return sum(_of_stages(draw_stages(job, seed, k)) for k in range(job.iterations))
    return job.iterations * _of_stages(draw_stages(job, seed))


def _of_stages(stages: tuple[Stage, ...]) -> float:
    return sum(float(stage.flows.nbytes.sum()) for stage in stages if stage.flows is not None)


def _sent(job: JobSpec) -> list[tuple[Flows, float]]:
    """Return what a job without a pattern sends in an iteration, and how often each."""
    programs = job.operations
    if isinstance(programs, Programs):  # need not be expanded
        times = np.zeros(len(programs.families))
        for row in programs.rows:
            if row.family >= 0:
                times[row.family] += row.size / programs.families[row.family].groups
        return [(family.flows, float(count)) for family, count in zip(
            programs.families, times, strict=True)]
    made = operations_of(job)
    if made is None:
        return [(stage.flows, 1) for stage in job.stages if stage.flows is not None]
    counts = np.bincount(made.sends[made.sends >= 0], minlength=len(made.sendings))
    return [(each.flows, int(count)) for each, count in zip(made.sendings, counts, strict=True)]


def check_traffic(job: JobSpec) -> None:
    """Check that a job has at most `MOST_RANKS` ranks, and no pattern that draws flows later."""
    if job.pattern is not None:
        raise InputError(f"job {job.id} has the pattern {job.pattern!r}, with flows that are "
                         "drawn when it runs; only those of explicit stages, and of ranks that "
                         "compute, are known before")
    if job.ranks > MOST_RANKS:
        raise InputError(f"job {job.id} has {job.ranks:,} ranks; pairs are counted of up to "
                         f"{MOST_RANKS:,}")
